"""Documents whose sentences are read together, and the windows of long ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatum.data.documents import from_words, join_examples
from relatum.data.fitting import Policy, fit
from relatum.data.formats import get_format
from relatum.data.passages import count_sentences, find_all_final_stops, find_all_owned_stops, iter_passages
from relatum.data.splitting import Splitter, find_final_stops, find_owned_stop
from relatum.data.windows import make_passage_windows, make_windows, window_examples
from relatum.errors import RelatumError
from relatum.types import Annotation, Document, Entity, Example, Relation, Sentence, Span

SPERT = get_format("spert")
MODEL_HOLDS = replace(SPERT.holds, documents=True)
SENTENCES = [["Mara", "Ilves", "left", "."], ["She", "lives", "in", "the", "U.S", "."], ["Why", "?"]]
WORDS = tuple(word for sentence in SENTENCES for word in sentence)


def starts_of(lengths: list[int]) -> list[int]:
    return [0, *accumulate(lengths)][:-1]


def windows_of(lengths: list[int], max_words: int, overlap: int) -> list[tuple[int, int]]:
    windows = make_passage_windows([1] * sum(lengths), starts_of(lengths), None, max_words, overlap)
    return [(window.start, window.end) for window in windows]


def test_passage_that_fits_has_one_window() -> None:
    assert windows_of([3, 4, 2], 9, 4) == [(0, 9)]
    assert windows_of([], 9, 4) == []


def test_windows_of_a_passage_hold_whole_sentences_and_share_some() -> None:
    assert windows_of([3, 4, 2, 5], 9, 1) == [(0, 9), (7, 14)]
    assert windows_of([3, 4, 2, 5], 9, 3) == [(0, 9), (7, 14)], "a second sentence would not fit"
    assert windows_of([3, 4, 2, 2], 9, 3) == [(0, 9), (3, 11)], "two sentences have three words"
    assert windows_of([3, 4, 2, 5], 9, 0) == [(0, 9), (9, 14)]
    assert windows_of([6, 6, 6], 9, 4) == [(0, 6), (6, 12), (12, 18)], "two sentences do not fit"


def test_sentence_that_is_too_long_is_cut_between_its_words() -> None:
    assert windows_of([2, 12, 3], 6, 2) == [(0, 6), (4, 10), (8, 14), (12, 17)]


@given(st.integers(0, 40), st.integers(1, 12), st.integers(0, 8))
def test_passage_of_one_sentence_is_cut_as_a_sentence(n_words: int, max_words: int, overlap: int) -> None:
    pieces = [1 + number % 3 for number in range(n_words)]
    for max_pieces in (None, 7):
        as_passage = make_passage_windows(pieces, [0], max_pieces, max_words, overlap)
        assert as_passage == make_windows(pieces, max_pieces, max_words, overlap)


def test_word_that_no_window_can_hold_is_named() -> None:
    with pytest.raises(RelatumError, match=r"word 2 of the sentence, 'bb', is cut into 9 pieces"):
        make_passage_windows([1, 9], [0], 5, 10, 2, ["a", "bb"])
    with pytest.raises(ValueError, match="at least 1"):
        make_passage_windows([1], [0], None, 0, 0)


@given(
    st.lists(st.integers(1, 12), max_size=12),
    st.data(),
    st.none() | st.integers(5, 30),
    st.integers(1, 14),
    st.integers(0, 7),
)
def test_windows_of_a_passage_cover_it_within_the_limits(
    lengths: list[int], data: st.DataObject, max_pieces: int | None, max_words: int, overlap: int
) -> None:
    n_words = sum(lengths)
    pieces = data.draw(st.lists(st.integers(1, 5), min_size=n_words, max_size=n_words))
    borders = [0, *accumulate(lengths)]

    def fits(start: int, end: int) -> bool:
        return end - start <= max_words and (max_pieces is None or sum(pieces[start:end]) <= max_pieces)

    windows = make_passage_windows(pieces, borders[:-1], max_pieces, max_words, overlap)
    assert {word for window in windows for word in range(*window)} == set(range(n_words))
    assert all(fits(*window) for window in windows)
    assert len(windows) <= 1 or not fits(0, n_words)
    too_long = {word for start, end in pairwise(borders) if not fits(start, end) for word in range(start + 1, end)}
    for window in windows:
        for edge in window:
            assert edge in borders or edge in too_long, "only a sentence that is too long is cut"
    for one, following in pairwise(windows):
        assert one.start < following.start <= one.end < following.end
        if overlap and not too_long:
            last, after = (max(b for b in borders if b < one.end), min(b for b in borders if b > one.end))
            assert following.start < one.end or not fits(last, after), "a sentence is shared if it fits"
            assert following.start == one.end or min(b for b in borders if b > following.start) > one.end - overlap


def make_document(relation: bool = True) -> Document:
    mara, us = Entity(Span(0, 2), "Peop"), Entity(Span(8, 9), "Loc")
    relations = (Relation(mara, us, "Live_In"),) if relation else ()
    return from_words("d", SENTENCES, Annotation((mara, us), relations))


def test_passage_holds_relations_across_its_sentences() -> None:
    (example,) = iter_passages(make_document())
    assert example.id == "d"
    assert example.sentence.words == WORDS
    assert example.sentence.starts == (0, 4, 10)
    assert example.sentence.ranges == [Span(0, 4), Span(4, 10), Span(10, 12)]
    assert [(one.head.span, one.tail.span) for one in example.gold.relations] == [((0, 2), (8, 9))]
    assert count_sentences([example, Example(Sentence(("a",)), Annotation())]) == 4


def test_passage_knows_what_was_left_out() -> None:
    whole, less = make_document(), make_document(relation=False)
    (example,) = iter_passages(less, whole.annotation)
    assert example.gold.relations == ()
    assert len(example.left_out.relations) == 1


def test_document_without_words_has_no_passage() -> None:
    assert list(iter_passages(Document("d", " ", words=(), sentences=()))) == []


def test_fitting_keeps_everything_across_the_sentences_of_a_passage() -> None:
    """A relation and an entity across sentences stay, and the sentences are not joined for them."""
    wide, us = Entity(Span(0, 5), "Peop"), Entity(Span(8, 9), "Loc")
    document = from_words("d", SENTENCES, Annotation((wide, us), (Relation(us, wide, "Live_In"),)))
    changes: list[str] = []

    def note(what: str, times: int) -> None:
        changes.extend([what] * times)

    fitted = fit(document, replace(SPERT, holds=MODEL_HOLDS), Splitter(), Policy(crossing="keep"), note)
    assert fitted == document
    assert changes == []
    (example,) = iter_passages(fitted)
    assert [entity.span for entity in example.gold.entities] == [(0, 5), (8, 9)]
    assert len(example.gold.relations) == 1


def test_windows_of_a_passage_know_their_sentences() -> None:
    (example,) = iter_passages(make_document())
    windows = make_passage_windows([1] * 12, example.sentence.starts, None, 8, 1)
    assert windows == [Span(0, 4), Span(4, 12)]
    (first, second), lost_entities, lost_relations = window_examples(example, windows)
    assert (lost_entities, lost_relations) == (0, 1)
    assert (first.sentence.starts, second.sentence.starts) == ((0,), (0, 6))
    assert second.sentence.text == example.sentence.text[example.sentence.text.index("She") :]  # type: ignore[index,union-attr]


def test_final_stops_are_found_in_every_sentence_of_a_passage() -> None:
    passage = Sentence(WORDS, starts=(0, 4, 10))
    assert find_all_final_stops(passage) == {3, 11}, "the stop of U.S. belongs to an abbreviation"
    assert find_all_owned_stops(passage) == {9}
    for part in SENTENCES:
        alone = Sentence(tuple(part))
        assert find_all_final_stops(alone) == set(find_final_stops(part))
        owned = find_owned_stop(part)
        assert find_all_owned_stops(alone) == (set() if owned is None else {owned})
    assert find_all_final_stops(Sentence(())) == find_all_owned_stops(Sentence(())) == set()


def test_passages_are_written_with_their_sentences() -> None:
    (example,) = iter_passages(make_document())
    ((gold, other),) = join_examples([example], [example.gold])
    assert gold == other == make_document()
