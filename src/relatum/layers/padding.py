"""Sentences of different lengths as one padded batch, in few operations, however many sentences there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import torch
from torch import Tensor


@dataclass(frozen=True)
class Padding:
    """The positions of the words and the cells of sentences in a batch that is padded to `n_words`.

    Words are numbered from 1 on, one sentence after the other; cells likewise, row by row. 0 is padding.
    """

    table: Tensor
    """The result of `measure`."""
    n_words: int

    @cached_property
    def mask(self) -> Tensor:
        """(batch, words), true where there is a word."""
        return self._places < self.table[0].unsqueeze(-1)

    @cached_property
    def words(self) -> Tensor:
        """(batch, words): the number of the word at each position."""
        numbers: Tensor = (self.table[1].unsqueeze(-1) + self._places) * self.mask
        return numbers

    @cached_property
    def cells(self) -> Tensor:
        """(batch, words, words): the number of the cell at each position."""
        lengths, _, first_cells = self.table.unsqueeze(-1)
        rows = first_cells + self._places * lengths
        numbers: Tensor = (rows.unsqueeze(2) + self._places) * (self.mask.unsqueeze(2) & self.mask.unsqueeze(1))
        return numbers

    @cached_property
    def _places(self) -> Tensor:
        return torch.arange(self.n_words, device=self.table.device)

    @classmethod
    def of(cls, lengths: Sequence[int], n_words: int, device: torch.device) -> Padding:
        return cls(torch.tensor(measure(lengths), device=device), n_words)

    def pad_words(self, sentences: Sequence[Tensor], fill: float = 0) -> Tensor:
        """Pad tensors (words, …), one for each sentence, to one tensor (batch, words, …)."""
        return _gather(sentences, self.words, fill)

    def pad_cells(self, tables: Sequence[Tensor], fill: float = 0) -> Tensor:
        """Pad tensors (words, words, …), one for each sentence, to one tensor (batch, words, words, …)."""
        return _gather([table.flatten(0, 1) for table in tables], self.cells, fill)


def measure(lengths: Sequence[int]) -> list[list[int]]:
    """Return the lengths of the sentences, the number of each sentence's first word and of its first cell."""
    words = accumulate(lengths[:-1], initial=1)
    cells = accumulate((length**2 for length in lengths[:-1]), initial=1)
    return [list(lengths), list(words), list(cells)]


def _gather(parts: Sequence[Tensor], places: Tensor, fill: float) -> Tensor:
    """Return the rows at the given places of the concatenated parts, counted from 1; `fill` at place 0."""
    nothing = parts[0].new_full((1, *parts[0].shape[1:]), fill)
    rows = torch.cat((nothing, *parts)).index_select(0, places.flatten())
    return rows.view(*places.shape, *rows.shape[1:])
