"""Words and characters as indices; what was not there when a model was made is unknown, for good."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

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
        """The number of indices, those of padding and unknown included."""
        return len(self.entries) + FIRST

    def index(self, entry: str) -> int:
        """The index of a word or character; a word in lower case where the vocabulary has it so."""
        return self._index.get(entry.lower() if self.lower else entry, UNKNOWN)

    def indices(self, entries: Iterable[str]) -> list[int]:
        if self.lower:
            return [self.index(entry) for entry in entries]
        find = self._index.get  # every step asks for some thousand characters
        return [find(entry, UNKNOWN) for entry in entries]

    def unknown_share(self, sentences: Iterable[Sequence[str]]) -> tuple[int, int]:
        """How many words of the sentences are unknown, and how many there are."""
        indices = [self.index(word) for words in sentences for word in words]
        return indices.count(UNKNOWN), len(indices)


def find_characters(sentences: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Every character of the words, sorted."""
    return tuple(sorted({character for words in sentences for word in words for character in word}))
