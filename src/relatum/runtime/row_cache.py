"""A cache of the vectors of words, as rows of a table, so that a word that comes again is read once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from sys import getsizeof
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from relatum.kernels.arrays import Array, allocate
from relatum.kernels.threads import ForkLock

LIMIT = 50_000
"""The most words that are kept."""
MAX_BYTES = 16 * 2**20
"""The most memory for the words themselves, which may be long; their vectors are all of one size."""
FIRST_ROWS = 1024

Table = TypeVar("Table")


class RowCache(Generic[Table]):
    """The rows of words in a table; row 0 is zero and belongs to the empty word.

    If the words of a batch do not fit, in number or in bytes, the cache is emptied first. Several threads may use the
    cache at once: rows that have been handed out are never written again.
    """

    def __init__(self, limit: int = LIMIT, max_bytes: int = MAX_BYTES) -> None:
        self._limit, self._max_bytes = limit, max_bytes
        self._n_bytes = 0
        self._lock = ForkLock()
        self._rows: dict[str, int] = {}
        self._vectors: Table | None = None
        self._state: object = None
        self._held: object = None

    def __reduce__(self) -> tuple[type[RowCache[Table]], tuple[int, int]]:
        # A copy is of another network.
        return type(self), (self._limit, self._max_bytes)

    def __len__(self) -> int:
        return max(0, len(self._rows) - 1)

    def clear(self) -> None:
        with self._lock:
            self._vectors = None

    def find_rows(
        self,
        words: Sequence[str],
        state: object,
        hold: Callable[[], object],
        grow: Callable[[Table | None, int, int], Table],
        read: Callable[[Sequence[str], Table, int], None],
    ) -> tuple[Table, list[int]]:
        """Return the table and the row of each word.

        Everything is read anew if the `state` of the weights is another than before, or None; what `hold` returns is
        kept as long as vectors of this state are. `grow` returns a table with at least so many rows, of which the first
        are taken from another table; `read` writes the vectors of new words, each of them once, from a row on.
        """
        with self._lock:
            if self._vectors is None or self._state is None or state != self._state:
                self._forget(state, hold)
            new = self._new(words)
            n_bytes = sum(map(getsizeof, new))
            if new and (len(self) + len(new) > self._limit or self._n_bytes + n_bytes > self._max_bytes):
                self._forget(state, hold)
                new = self._new(words)
                n_bytes = sum(map(getsizeof, new))
            n_rows = len(self._rows)
            table = self._make_room(n_rows + len(new), grow)
            if new:
                read(new, table, n_rows)
                self._rows.update(zip(new, range(n_rows, n_rows + len(new)), strict=True))
                self._n_bytes += n_bytes
            return table, list(map(self._rows.__getitem__, words))

    def _new(self, words: Sequence[str]) -> list[str]:
        return [word for word in dict.fromkeys(words) if word not in self._rows]

    def _forget(self, state: object, hold: Callable[[], object]) -> None:
        self._rows, self._vectors, self._n_bytes = {"": 0}, None, 0
        self._state, self._held = state, hold()

    def _make_room(self, n_rows: int, grow: Callable[[Table | None, int, int], Table]) -> Table:
        """Return the table with at least `n_rows` rows, copied into new memory if it has fewer."""
        table = self._vectors
        if table is None or n_rows > len(table):  # type: ignore[arg-type]  # arrays and tensors have a length
            table = self._vectors = grow(table, len(self._rows), max(FIRST_ROWS, 2 * len(self._rows), n_rows))
        return table


class ArrayRowCache(RowCache[Array]):
    """Rows of an array, for weights that never change."""

    def find(
        self, words: Sequence[str], width: int, read: Callable[[Sequence[str], Array, int], None]
    ) -> tuple[Array, list[int]]:
        def grow(table: Array | None, n_used: int, n_rows: int) -> Array:
            grown = allocate((n_rows, width))
            grown.fill(0)
            if table is not None:
                grown[:n_used] = table[:n_used]
            return grown

        return self.find_rows(words, "the same", lambda: None, grow, read)


def pad_word_rows(sentences: Sequence[Sequence[str]], rows: Sequence[int]) -> NDArray[np.int64]:
    """Return (batch, words): the row of each word, given one after the other; row 0 where there is no word."""
    mask = np.arange(max(map(len, sentences))) < np.array([[len(sentence)] for sentence in sentences])
    padded = np.zeros(mask.shape, dtype=np.int64)
    padded[mask] = rows
    return padded


def join_words(sentences: Sequence[Sequence[str]]) -> list[str]:
    return list(chain.from_iterable(sentences))
