"""Words and characters as indices; words and characters that were not there when a model was made stay unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

PADDING = 0
UNKNOWN = 1
FIRST = 2
"""The index of the first entry of a vocabulary."""


@dataclass(frozen=True)
class Vocabulary:
    """Entries and their indices, from `FIRST` on."""

    entries: tuple[str, ...]
    lower: bool = False
    _index: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        index = {entry: place for place, entry in enumerate(self.entries, FIRST)}
        if len(index) < len(self.entries):
            raise ValueError("an entry stands twice in a vocabulary")
        object.__setattr__(self, "_index", index)

    def __len__(self) -> int:
        """The number of indices, including the indices of padding and unknown."""
        return len(self.entries) + FIRST

    def index(self, entry: str) -> int:
        """Return the index of a word or character, which is looked up in lower case if `lower` is true."""
        return self._index.get(entry.lower() if self.lower else entry, UNKNOWN)

    def indices(self, entries: Iterable[str]) -> list[int]:
        if self.lower:
            return [self.index(entry) for entry in entries]
        find = self._index.get  # every step asks for some thousand characters
        return [find(entry, UNKNOWN) for entry in entries]

    def spell(self, text: str) -> NDArray[np.int64]:
        """Return the indices of all characters of a text, by one table look-up for all instead of a search for each."""
        if self.lower:  # of some characters the lower case is two
            return np.array(self.indices(text), dtype=np.int64)
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        indices: NDArray[np.int64] = self._by_point[np.minimum(points, len(self._by_point) - 1)]
        return indices

    @cached_property
    def _by_point(self) -> NDArray[np.int64]:
        """The index of every code point up to the last known character; the last entry is for all that follow."""
        points = {ord(entry): index for entry, index in self._index.items() if len(entry) == 1}
        table = np.full(max(points, default=-1) + 2, UNKNOWN, dtype=np.int64)
        table[list(points)] = list(points.values())
        return table

    def unknown_share(self, sentences: Iterable[Sequence[str]]) -> tuple[int, int]:
        """Count the unknown words of the sentences, and all their words."""
        indices = [self.index(word) for words in sentences for word in words]
        return indices.count(UNKNOWN), len(indices)


def find_characters(sentences: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Every character of the words, sorted."""
    return tuple(sorted({character for words in sentences for word in words for character in word}))
