from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatum.data.context import find_context, window_context
from relatum.types import Context, Sentence, Span

WORDS = "a b c d e f g".split()
SENTENCES = [Span(0, 2), Span(2, 3), Span(3, 7)]


def test_context_goes_beyond_the_sentences_beside_and_ends_with_the_text() -> None:
    assert find_context(WORDS, SENTENCES, 2) == [
        Context((), ("c", "d")),
        Context(("a", "b"), ("d", "e")),
        Context(("b", "c"), ()),
    ]
    assert find_context(WORDS, SENTENCES, 3)[1] == Context(("a", "b"), ("d", "e", "f"))
    assert find_context(WORDS, SENTENCES, 99)[2] == Context(("a", "b", "c"), ())
    assert find_context(WORDS, SENTENCES, 0) == [Context()] * 3
    assert find_context((), (), 5) == []


class Counted(Sequence[str]):
    """Words that count how many of them are asked for."""

    def __init__(self, n: int) -> None:
        self.words, self.n_asked = [str(number) for number in range(n)], 0

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, place):  # type: ignore[no-untyped-def]
        self.n_asked += len(self.words[place])
        return self.words[place]


def test_context_of_a_long_text_costs_no_more_than_what_is_wanted() -> None:
    words = Counted(10_000)
    find_context(words, [Span(at, at + 10) for at in range(0, 10_000, 10)], 3)
    assert words.n_asked <= 1000 * 2 * 3


def test_nearest_words_are_kept() -> None:
    context = Context(("a", "b", "c"), ("x", "y"))
    assert context.nearest(2) == Context(("b", "c"), ("x", "y"))
    assert context.nearest(1) == Context(("c",), ("x",))
    assert context.nearest(0) == Context()
    assert context.nearest(3) is context


@pytest.mark.parametrize(
    ("window", "n", "expected"),
    [
        (Span(0, 4), 9, Context(("x", "y"), ("z",))),
        (Span(0, 4), 1, Context(("y",), ("z",))),
        (Span(1, 3), 2, Context(("y", "a"), ("d", "z"))),
        (Span(1, 3), 1, Context(("a",), ("d",))),
        (Span(2, 4), 3, Context(("y", "a", "b"), ("z",))),
        (Span(0, 1), 2, Context(("x", "y"), ("b", "c"))),
    ],
)
def test_window_has_words_of_its_sentence_before_those_around_it(window: Span, n: int, expected: Context) -> None:
    sentence = Sentence(("a", "b", "c", "d"), context=Context(("x", "y"), ("z",)))
    assert window_context(sentence, window, n) == expected


@given(st.integers(1, 20), st.integers(0, 8), st.integers(1, 8), st.data())
def test_window_sees_what_a_sentence_in_its_place_would(
    n_words: int, n_beside: int, n: int, data: st.DataObject
) -> None:
    words = [str(number) for number in range(2 * n_beside + n_words)]
    start = data.draw(st.integers(0, n_words - 1))
    end = data.draw(st.integers(start + 1, n_words))
    (around,) = find_context(words, [Span(n_beside, n_beside + n_words)], n)
    sentence = Sentence(tuple(words[n_beside : n_beside + n_words]), context=around)
    assert [window_context(sentence, Span(start, end), n)] == find_context(
        words, [Span(n_beside + start, n_beside + end)], n
    )
