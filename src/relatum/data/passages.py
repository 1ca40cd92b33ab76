"""Documents whose sentences are read together, so that relations across sentences are learned and found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from relatum.data.documents import iter_examples
from relatum.data.splitting import find_final_stops, find_owned_stop
from relatum.types import Annotation, Document, Example, Sentence, Span


def iter_passages(document: Document, full: Annotation | None = None) -> Iterator[Example]:
    """Yield the whole document as one example that knows its sentences; nothing for a document without words.

    The document must be split and aligned. `full` is all that was annotated, if the document has less.
    """
    sentences = document.sentences or ()
    if not sentences:
        return
    whole = Span(sentences[0].start, sentences[-1].end)
    starts = tuple(sentence.start - whole.start for sentence in sentences)
    for example in iter_examples(replace(document, sentences=(whole,)), full=full):
        yield replace(example, sentence=replace(example.sentence, starts=starts))


def count_sentences(examples: Sequence[Example]) -> int:
    """Return the number of sentences of examples, some of which may be passages."""
    return sum(max(1, len(example.sentence.starts)) for example in examples)


def describe_number(examples: Sequence[Example], unit: Literal["sentence", "passage"]) -> str:
    """Say how many sentences, or how many passages of how many sentences, the examples are."""
    sentences = f"{count_sentences(examples):,} sentences"
    return f"{len(examples):,} passages with {sentences}" if unit == "passage" else sentences


def find_all_final_stops(sentence: Sentence) -> set[int]:
    """Return the words that `find_final_stops` finds in a sentence, or in each sentence of a passage."""
    found: set[int] = set()
    for start, end in sentence.ranges:
        found.update(start + stop for stop in find_final_stops(sentence.words[start:end]))
    return found


def find_all_owned_stops(sentence: Sentence) -> set[int]:
    """Return the words that `find_owned_stop` finds in a sentence, or in each sentence of a passage."""
    found: set[int] = set()
    for start, end in sentence.ranges:
        stop = find_owned_stop(sentence.words[start:end])
        if stop is not None:
            found.add(start + stop)
    return found
