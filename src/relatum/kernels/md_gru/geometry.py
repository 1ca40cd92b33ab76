"""The order in which a wavefront visits the cells of a table, and where it finds their predecessors.

Cells on one anti-diagonal do not depend on each other, so a table of N × N takes 2N − 1 steps. Cells are *packed* in
that order: diagonal by diagonal, and by row within one. States lie in a buffer with one zero cell before and one after
every diagonal, so that the predecessors of a whole diagonal are two slices of the diagonal before it, edges included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from relatum.kernels.md_gru.spec import Direction, Predecessor


@dataclass(frozen=True, slots=True)
class Diagonal:
    """One step of the wavefront: ranges of packed cells, and of the buffer of states."""

    cells: slice
    states: slice
    up: slice
    left: slice

    def of(self, slot: Predecessor) -> slice:
        return self.up if slot == "up" else self.left


@dataclass(frozen=True, slots=True)
class Geometry:
    """The wavefront over a table of `n_words` × `n_words`."""

    n_words: int
    diagonals: tuple[Diagonal, ...]
    n_slots: int
    """The length of the buffer of states."""
    states: Tensor
    """(cells,): the position of each packed cell in the buffer."""
    up: Tensor
    left: Tensor
    rows: Tensor
    columns: Tensor
    """(cells,): row and column of each packed cell, for a network that starts at the first word of both."""

    def of(self, slot: Predecessor) -> Tensor:
        """Return the position of each packed cell's neighbour in the buffer of states."""
        return self.up if slot == "up" else self.left

    def order(self, directions: Sequence[Direction]) -> tuple[Tensor, Tensor]:
        """Return where in the flattened table each direction finds its packed cells, (D, cells), and the reverse."""
        last = self.n_words - 1
        orders = []
        for direction in directions:
            rows = self.rows if direction[0] == "n" else last - self.rows
            columns = self.columns if direction[1] == "w" else last - self.columns
            orders.append(rows * self.n_words + columns)
        order = torch.stack(orders)
        return order, torch.argsort(order, 1)


@lru_cache(maxsize=64)
def make_geometry(n_words: int, device: torch.device, recurrent: bool = True) -> Geometry:
    """Return the geometry of a table; the most recent geometries are cached.

    If no cell waits for another, all cells are one step.
    """
    if not recurrent:
        every, cells = slice(0, n_words**2), torch.arange(n_words**2, device=device)
        step = Diagonal(every, every, every, every)
        return Geometry(n_words, (step,), n_words**2, cells, cells, cells, cells // n_words, cells % n_words)
    diagonals = []
    rows: list[int] = []
    columns: list[int] = []
    place = 3  # two zero cells stand for the diagonal before the first, and one before it
    before = 1
    for d in range(2 * n_words - 1):
        first, last = max(0, d - n_words + 1), min(d, n_words - 1)
        length = last - first + 1
        # While diagonals grow, the row above the first cell and the column before the last are outside the table.
        up = before - 1 if d < n_words else before
        diagonals.append(
            Diagonal(
                slice(len(rows), len(rows) + length),
                slice(place, place + length),
                slice(up, up + length),
                slice(up + 1, up + 1 + length),
            )
        )
        rows += range(first, last + 1)
        columns += (d - i for i in range(first, last + 1))
        before, place = place, place + length + 2

    def places(slot: str) -> Tensor:
        ranges = (getattr(diagonal, slot) for diagonal in diagonals)
        return torch.tensor([place for range_ in ranges for place in range(range_.start, range_.stop)], device=device)

    return Geometry(
        n_words,
        tuple(diagonals),
        place,
        places("states"),
        places("up"),
        places("left"),
        torch.tensor(rows, device=device),
        torch.tensor(columns, device=device),
    )
