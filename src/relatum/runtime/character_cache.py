"""A cache of the character vectors of words, so that a word that comes again is read once."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import chain
from sys import getsizeof
from threading import Lock
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor

from relatum.models.collate import send
from relatum.models.inputs import Vectors
from relatum.models.model import Model
from relatum.runtime.packing import states_of

LIMIT = 50_000
"""The most words that are kept."""
MAX_BYTES = 16 * 2**20
"""The most memory for the words themselves, which may be long; their vectors are all of one size."""
_FIRST_ROWS = 1024

Read = Callable[[Sequence[str], Tensor, int], None]
"""Writes the vectors of words into the rows of a table, from a given row on."""


class CharacterVectorCache:
    """A cache of the vectors that a network computes for single words, valid until its weights change.

    The vectors are rows of one tensor on the device of the weights; row 0 is zero and belongs to the empty word. If the
    words of a batch do not fit, in number or in bytes, the cache is emptied first. Several threads may use the cache at
    once: rows that have been handed out are never written again.

    A change of weights is noticed if they are moved, or written to in a way that autograd knows of. The replay of a
    CUDA graph is not such a way, so the cache must not be used with a network in training.
    """

    def __init__(self, limit: int = LIMIT, max_bytes: int = MAX_BYTES) -> None:
        self._limit, self._max_bytes = limit, max_bytes
        self._n_bytes = 0
        self._lock = Lock()
        self._rows: dict[str, int] = {}
        self._vectors: Tensor | None = None
        self._states: tuple[list[int], list[int]] | None = None
        self._held: list[Tensor] = []
        _in_use.add(self)

    def unlock(self) -> None:
        """Take a new lock in a forked child, where the thread that held the old one does not exist."""
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[CharacterVectorCache], tuple[int, int]]:
        # A copy is of another network, and a lock cannot be copied.
        return CharacterVectorCache, (self._limit, self._max_bytes)

    def __len__(self) -> int:
        return max(0, len(self._rows) - 1)

    def clear(self) -> None:
        with self._lock:
            self._vectors = None

    def vectors(self, sentences: Sequence[Sequence[str]], model: Model, read: Read) -> Vectors | None:
        """Return the vectors of the words of sentences, on the model's device; None if it reads no characters.

        `read` writes the vectors of words that are not in the cache.
        """
        reader = model.network.embedder.characters
        if reader is None:
            return None
        words = list(chain.from_iterable(sentences))
        table, rows = self.find(words, reader.weights, reader.width, read)
        mask = np.arange(max(map(len, sentences))) < np.array([[len(sentence)] for sentence in sentences])
        padded = np.zeros(mask.shape, dtype=np.int64)
        padded[mask] = rows
        return Vectors(table, send(torch.from_numpy(padded), model.device))

    def find(self, words: Sequence[str], weights: Sequence[Tensor], width: int, read: Read) -> tuple[Tensor, list[int]]:
        """Return vectors (rows, width) and the row of each word.

        `read` writes the vectors of new words, each of them once; `weights` are all the weights that it uses.
        """
        with self._lock:
            if self._vectors is None or self._states is None or states_of(weights) != self._states:
                self._forget(weights)
            new = self._new(words)
            n_bytes = sum(map(getsizeof, new))
            if new and (len(self) + len(new) > self._limit or self._n_bytes + n_bytes > self._max_bytes):
                self._forget(weights)
                new = self._new(words)
                n_bytes = sum(map(getsizeof, new))
            n_rows = len(self._rows)
            table = self._make_room(n_rows + len(new), weights[0], width)
            if new:
                read(new, table, n_rows)
                self._rows.update(zip(new, range(n_rows, n_rows + len(new)), strict=True))
                self._n_bytes += n_bytes
            return table, list(map(self._rows.__getitem__, words))

    def _new(self, words: Sequence[str]) -> list[str]:
        return [word for word in dict.fromkeys(words) if word not in self._rows]

    def _forget(self, weights: Sequence[Tensor]) -> None:
        self._rows, self._vectors, self._n_bytes = {"": 0}, None, 0
        self._states = states_of(weights)
        self._held = [weight.detach() for weight in weights]  # so that no others come to lie where they do

    def _make_room(self, n_rows: int, like: Tensor, width: int) -> Tensor:
        """Return the table with at least `n_rows` rows, copied into new memory if it has fewer."""
        table = self._vectors
        if table is None or n_rows > table.shape[0]:
            with torch.inference_mode():
                grown = like.new_zeros(max(_FIRST_ROWS, 2 * len(self._rows), n_rows), width)
                if table is not None:
                    grown[: len(self._rows)] = table[: len(self._rows)]
            table = self._vectors = grown
        return table


_in_use: WeakSet[CharacterVectorCache] = WeakSet()


def _unlock_all() -> None:
    for words in _in_use:
        words.unlock()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_unlock_all)
