"""Sentences without annotation, for the scripts that make training data."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from relatum.config import TextConfig
from relatum.data.splitting import make_splitter

_SPLITTER = make_splitter(TextConfig().words, TextConfig().sentences)


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a gzip file, without spaces around them."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from map(str.strip, file)


def split_sentences(text: str) -> list[list[str]]:
    """Split a text into sentences of words, as relatum does."""
    words, ranges = _SPLITTER.split(text)
    return [[text[start:end] for start, end in words[first:last]] for first, last in ranges]


def keep_usual_lengths(sentences: Iterable[list[str]]) -> Iterator[list[str]]:
    """Yield the sentences of 5 to 60 words."""
    return (words for words in sentences if 5 <= len(words) <= 60)


def without_entities(words: list[str]) -> dict[str, Any]:
    """Return the record of a sentence that has no entities."""
    return {"tokens": words, "entities": [], "relations": []}
