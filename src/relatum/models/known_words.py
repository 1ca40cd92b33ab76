"""Vectors of words that come again, kept so that each word is read once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock

import torch
from torch import Tensor

LIMIT = 50_000
"""How many words are kept."""
_FIRST_ROWS = 1024


class KnownWords:
    """What a network says of words one by one, for as long as its weights are the same.

    The vectors are rows of one tensor where the weights are; row 0 is zero, and that of no characters. When there is no
    room for the words of a batch, all others are forgotten. Several threads may ask at once: rows that have been handed
    out are never written again.

    Weights are seen to change where they are moved, or written to in a way that autograd knows of. A recorded CUDA
    graph is not such a way, so that a network in training is not to be asked through this.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._lock = Lock()
        self._rows: dict[str, int] = {}
        self._vectors: Tensor | None = None
        self._states: list[tuple[int, int]] = []
        self._held: list[Tensor] = []

    def __reduce__(self) -> tuple[type[KnownWords], tuple[int]]:
        return KnownWords, (self._limit,)  # a copy is of another network, and a lock cannot be copied

    def __len__(self) -> int:
        return max(0, len(self._rows) - 1)

    def find(
        self, words: Sequence[str], weights: Sequence[Tensor], read: Callable[[Sequence[str]], Tensor]
    ) -> tuple[Tensor, list[int]]:
        """Vectors (rows, width), and the row of each word; `read` makes those of new words, all of them different.

        The weights are all that it reads them with.
        """
        with self._lock:
            if self._vectors is None or not self._are_same(weights):
                self._forget(weights)
            new = self._new(words)
            if new and len(self) + len(new) > self._limit:
                self._forget(weights)
                new = self._new(words)
            if new or self._vectors is None:
                with torch.inference_mode():
                    self._vectors = self._with_more(read(new))
                self._rows.update(zip(new, range(len(self._rows), len(self._rows) + len(new)), strict=True))
            return self._vectors, [self._rows[word] for word in words]

    def _new(self, words: Sequence[str]) -> list[str]:
        return [word for word in dict.fromkeys(words) if word not in self._rows]

    def _are_same(self, weights: Sequence[Tensor]) -> bool:
        return [_state(weight) for weight in weights] == self._states and _UNKNOWN not in self._states

    def _forget(self, weights: Sequence[Tensor]) -> None:
        self._rows, self._vectors = {"": 0}, None
        self._states = [_state(weight) for weight in weights]
        self._held = [weight.detach() for weight in weights]  # so that no others come to lie where they do

    def _with_more(self, vectors: Tensor) -> Tensor:
        """The table with more rows, in new memory where there is no room."""
        n_rows, n_more = len(self._rows), len(vectors)
        table = self._vectors
        if table is None or n_rows + n_more > len(table):
            room = max(_FIRST_ROWS, 2 * n_rows, n_rows + n_more)
            grown = vectors.new_zeros(room, vectors.shape[1])
            if table is not None:
                grown[:n_rows] = table[:n_rows]
            table = grown
        table[n_rows : n_rows + n_more] = vectors
        return table


_UNKNOWN = (-1, -1)


def _state(weight: Tensor) -> tuple[int, int]:
    """Where the values lie, and how often they have been written to; that is not known of all."""
    return _UNKNOWN if weight.is_inference() else (weight.data_ptr(), weight._version)
