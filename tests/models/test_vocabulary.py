"""Words and characters as indices."""

from __future__ import annotations

import pytest

from relatum.models.vocabulary import FIRST, PADDING, UNKNOWN, Vocabulary, find_characters


def test_padding_and_unknown_come_first() -> None:
    assert (PADDING, UNKNOWN, FIRST) == (0, 1, 2)
    vocabulary = Vocabulary(("b", "a"))
    assert vocabulary.indices("abc") == [3, 2, 1]
    assert len(vocabulary) == 4


def test_look_up_in_lower_case_is_a_choice() -> None:
    assert Vocabulary(("tarn",), lower=True).indices(["Tarn", "TARN", "tarn"]) == [2, 2, 2]
    assert Vocabulary(("tarn",)).indices(["Tarn", "tarn"]) == [1, 2]


@pytest.mark.parametrize("entries", [(), ("a",), ("b", "a", "é", "日", "😀", "many")])
@pytest.mark.parametrize("lower", [True, False])
def test_spelling_finds_the_index_of_every_character(entries: tuple[str, ...], lower: bool) -> None:
    vocabulary = Vocabulary(entries, lower)
    for text in ("", "ab", "Aé日😀z\U0010ffff", "half \ud83d of it", "İb\x00", "many"):
        found = vocabulary.spell(text)
        assert found.tolist() == vocabulary.indices(text)
        assert found.dtype == "int64"


def test_reading_never_makes_a_vocabulary_grow() -> None:
    vocabulary = Vocabulary(("a",))
    vocabulary.indices(["b", "c"])
    assert len(vocabulary) == 3
    assert vocabulary.index("b") == UNKNOWN


def test_entry_that_stands_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        Vocabulary(("a", "a"))


def test_unknown_words_are_counted() -> None:
    assert Vocabulary(("mara",), lower=True).unknown_share([["Mara", "left"], [], ["Oldhaven"]]) == (2, 3)


def test_characters_keep_their_case_and_are_sorted() -> None:
    assert find_characters([["Ab", "b"], ["é", "A"]]) == ("A", "b", "é")
    assert find_characters([]) == ()
