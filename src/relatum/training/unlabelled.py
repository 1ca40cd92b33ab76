"""Sentences of plain text, which a model learns from by what its teachers find in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from random import Random
from typing import TypeVar

from relatum.config import Config
from relatum.data.plain_text import read_lines
from relatum.data.problems import Problems
from relatum.errors import RelatumError
from relatum.folders import expand_user
from relatum.training.examples import make_examples
from relatum.types import Document, Example

T = TypeVar("T")

SHORTEST, LONGEST = 4, 60
"""The words of the sentences that are taken; a passage may be as long as the model reads."""
_LONGEST_WORD = 64
"""Characters of a word; longer ones are no words, and cost memory for all words of a batch."""
_MORE = 4
"""This many times the sentences asked for are split, so that few of them are of the same document."""


def draw_unlabelled(file: str, labelled: Iterable[Example], config: Config) -> list[Example]:
    """Draw sentences from all of a text file, by the seed, as examples without annotations.

    Left out are sentences that are too short or too long, and copies of each other or of a labelled sentence, in
    whatever way it was split into words.
    """
    path = expand_user(file)
    if not file or not path.exists():
        raise RelatumError(f"training.unlabelled: no such file {path}; name a text file with a document on each line")
    n, random = config.training.unlabelled_sentences, Random(f"{config.training.seed}/unlabelled")
    lines = _draw((line for line in map(str.strip, read_lines([path])) if line), _MORE * n, random)
    if lines and _is_record(lines[0]):
        raise RelatumError(f"training.unlabelled: {path}: found JSON; expected plain text, a document on each line")
    random.shuffle(lines)
    seen = {_key(example) for example in labelled}
    found: list[Example] = []
    for number, line in enumerate(lines, 1):
        for example in make_examples([Document(f"unlabelled-{number}", line)], config, Problems(), str(path)):
            key = _key(example)
            if _is_usable(example.sentence.words, config) and key not in seen:
                seen.add(key)
                found.append(example)
        if len(found) >= _MORE * n:
            break
    if not found:
        raise RelatumError(
            f"training.unlabelled: {path} has no new sentence of {SHORTEST} to {LONGEST} words; name a text with more"
        )
    return _draw(found, n, random)


def _is_record(line: str) -> bool:
    """True for a line of JSON, as corpora with annotations have them."""
    try:
        return line.startswith("{") and isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _key(example: Example) -> str:
    return "".join(example.sentence.words).casefold()


def _is_usable(words: Sequence[str], config: Config) -> bool:
    longest = config.extraction.max_words if config.text.unit == "passage" else LONGEST
    return SHORTEST <= len(words) <= longest and max(map(len, words)) <= _LONGEST_WORD


def _draw(items: Iterable[T], n: int, random: Random) -> list[T]:
    """Draw at most `n` of any number of items, all of which are as likely."""
    drawn: list[T] = []
    for number, item in enumerate(items):
        if number < n:
            drawn.append(item)
        elif (place := random.randrange(number + 1)) < n:
            drawn[place] = item
    return drawn
