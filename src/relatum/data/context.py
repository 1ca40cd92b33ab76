"""The words that stand around a sentence in its text, for encoders that read them with it."""

from __future__ import annotations

from collections.abc import Sequence

from relatum.types import Context, Sentence, Span


def find_context(words: Sequence[str], sentences: Sequence[Span], n: int) -> list[Context]:
    """Return at most n words on each side of each sentence of a text; sentences are ranges of all its words."""
    contexts = []
    for start, end in sentences:
        before = tuple(words[max(0, start - n) : start])
        after = tuple(words[end : end + n])
        contexts.append(Context(before, after))
    return contexts


def window_context(sentence: Sentence, window: Span, n: int) -> Context:
    """Return at most n words on each side of a window: first words of its sentence, then words around the sentence."""
    if window == (0, len(sentence)):
        return sentence.context.nearest(n)
    before = (*sentence.context.before, *sentence.words[max(0, window.start - n) : window.start])
    after = (*sentence.words[window.end : window.end + n], *sentence.context.after)
    return Context(before, after).nearest(n)
