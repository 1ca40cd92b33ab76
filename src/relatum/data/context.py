"""The words that stand around a sentence in its text, for encoders that read them with it."""

from __future__ import annotations

from collections.abc import Sequence

from relatum.types import Context, Sentence, Span


def find_context(words: Sequence[str], sentences: Sequence[Span], n: int) -> list[Context]:
    """Return at most n words on each side of each sentence of a text; sentences are ranges of all its words."""
    return [Context(tuple(words[max(0, start - n) : start]), tuple(words[end : end + n])) for start, end in sentences]


def window_context(sentence: Sentence, window: Span, n: int) -> Context:
    """Return at most n words on each side of a window: first words of its sentence, then words around the sentence."""
    if window == (0, len(sentence)):
        return sentence.context.nearest(n)
    before, after = sentence.context
    beside = sentence.words[max(0, window.start - n) : window.start], sentence.words[window.end : window.end + n]
    return Context((*before, *beside[0]), (*beside[1], *after)).nearest(n)
