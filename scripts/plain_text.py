"""Sentences without annotation, for the scripts that make training data."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from relatum.config import TextConfig
from relatum.data.splitting import make_splitter

_NUMBERS_AND_TIMES = frozenset(
    """half one two three four five six seven eight nine ten eleven twelve dozen hundred thousand million billion first
    second third fourth fifth last next past now today tomorrow yesterday tonight day night morning afternoon evening
    week weekend month quarter year decade century monday tuesday wednesday thursday friday saturday sunday spring
    summer autumn winter january february march april may june july august september october november december once
    twice both early late mid percent pct""".split()
)
"""Words that may name a number or a time."""
_OPENINGS = frozenset(
    """a all also although an and any as at because both but by each even for he her here his however if in instead it
    its many more most no not of on once only or other our she since so some such that the their then there therefore
    these they this those though thus to under using we when where whether which while who with without you""".split()
)
"""First words of sentences that name nothing."""
_SPLITTER = make_splitter(TextConfig().words, TextConfig().sentences)


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a gzip file, without spaces around them."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(str.strip, file)


def split_sentences(text: str) -> list[list[str]]:
    """Split a text into sentences of words, as relatum does."""
    words, ranges = _SPLITTER.split(text)
    return [[text[start:end] for start, end in words[first:last]] for first, last in ranges]


def split_words(text: str) -> list[tuple[int, int]]:
    """Return where the words of a text begin and end."""
    return [(start, end) for start, end in _SPLITTER.split(text)[0]]


def keep_usual_lengths(sentences: Iterable[list[str]]) -> Iterator[list[str]]:
    """Yield the sentences of 5 to 60 words."""
    return (words for words in sentences if 5 <= len(words) <= 60)


def without_entities(words: list[str]) -> dict[str, Any]:
    """Return the record of a sentence that has no entities."""
    return {"tokens": words, "entities": [], "relations": []}


def neutral_sentences(folder: Path) -> Iterator[list[str]]:
    """Yield sentences that name nothing, of news and of abstracts in turns."""
    news = (sentence for line in read_lines(folder / "reuters.txt.gz") for sentence in split_sentences(line)[1:3])
    science = (sentence for line in read_lines(folder / "acl-abstracts.txt.gz") for sentence in split_sentences(line))
    for pair in zip(keep_usual_lengths(news), keep_usual_lengths(science), strict=False):
        yield from filter(_names_nothing, pair)


def _names_nothing(words: list[str]) -> bool:
    """Return True if only the first word has a capital letter, and no word has a digit or tells a number or a time."""
    text = "".join(words[1:])
    is_plain = words[0].lower() in _OPENINGS and text == text.lower() and not any(map(str.isdigit, text))
    return is_plain and _NUMBERS_AND_TIMES.isdisjoint(word.lower().removesuffix("s") for word in words)
