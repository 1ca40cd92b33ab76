from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatum.data import duplicates
from relatum.data.duplicates import SeenIds, SentenceIndex, SharedSentence
from relatum.errors import RelatumError


@pytest.fixture
def index() -> Iterator[SentenceIndex]:
    made = SentenceIndex()
    yield made
    made.close()


PARTS = ("train", "dev", "test")
sentences = st.lists(
    st.tuples(st.sampled_from(PARTS), st.sampled_from(["a", "b", "c", "A", "a ", ""]) | st.text(max_size=3))
)


@given(sentences)
def test_sentence_index_agrees_with_a_dictionary(items: list[tuple[str, str]]) -> None:
    index = SentenceIndex()
    first: dict[str, dict[str, str]] = {part: {} for part in PARTS}
    for number, (part, text) in enumerate(items):
        place = f"{part}-{number}"
        index.add(part, place, text)
        first[part].setdefault(text, place)
    assert index.distinct() == len({text for _, text in items})
    for one in PARTS:
        assert index.distinct(one) == len(first[one])
        for other in PARTS:
            both = [text for text in first[other] if text in first[one]]
            shared = index.shared(one, other)
            assert shared.count == len(both)
            assert shared.sentences == tuple(SharedSentence(t, first[one][t], first[other][t]) for t in both)
    index.close()


def test_sentence_index_tells_apart_long_sentences_that_begin_alike(index: SentenceIndex) -> None:
    start = "x" * 500
    for part in ("train", "test"):
        index.add(part, f"{part}-1", start + "a")
        index.add(part, f"{part}-2", start + part)
    shared = index.shared("train", "test")
    assert index.distinct() == 3
    assert shared.count == 1
    assert (shared.sentences[0].first, shared.sentences[0].second) == ("train-1", "test-1")
    shown = shared.sentences[0].text
    assert len(shown) < 500
    assert start.startswith(shown.removesuffix("…"))


def test_sentence_index_counts_over_the_border_of_its_cache(index: SentenceIndex) -> None:
    for number in range(25_001):
        index.add("train", f"train-{number}", f"sentence {number % 12_000}")
    index.add("test", "test-1", "sentence 11999")
    index.add("test", "test-2", "sentence 0")
    assert index.distinct("train") == index.distinct() == 12_000
    assert index.shared("train", "test").sentences == (
        SharedSentence("sentence 11999", "train-11999", "test-1"),
        SharedSentence("sentence 0", "train-0", "test-2"),
    )


def test_sentence_index_can_be_asked_between_additions(index: SentenceIndex) -> None:
    assert index.distinct() == 0
    assert index.shared("train", "test").count == 0
    index.add("train", "a", "x")
    assert index.distinct() == 1
    index.add("test", "b", "x")
    assert index.distinct() == 1
    assert index.shared("train", "test").count == 1
    assert index.distinct("dev") == 0


def test_sentence_index_counts_more_than_it_lists(index: SentenceIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "LISTED", 3)
    for part in ("train", "test"):
        for number in range(5):
            index.add(part, f"{part}-{number}", str(number))
    shared = index.shared("train", "test")
    assert shared.count == 5
    assert [sentence.text for sentence in shared.sentences] == ["0", "1", "2"]


def test_storage_that_fails_is_an_error_that_names_the_place_and_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    index = SentenceIndex()
    index.add("train", "1", "a")
    index.close()
    with pytest.raises(RelatumError, match="TMPDIR"):
        index.distinct()
    monkeypatch.setattr(SeenIds, "_IN_MEMORY", 0)
    seen = SeenIds()
    seen.close()
    with pytest.raises(RelatumError, match="TMPDIR"):
        seen.add("a", 1)
