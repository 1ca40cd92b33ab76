"""A bidirectional LSTM over the characters of words, in one call of compiled code; see `native/characters.h`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from relatum.kernels.arrays import Array, address_of, allocate, multiply_in_order
from relatum.kernels.network.cpu import Holder, call
from relatum.kernels.threads import count_threads

_LANES = 16
"""Gates are padded to a multiple of this number, which is itself a multiple of the lanes of any vector."""


class PackedCharacters(Holder):
    """The weights of an LSTM, as `nn.LSTM.all_weights` has them, with what each character adds to the gates."""

    def __init__(self, embedding: Array, directions: Sequence[Sequence[Array]]) -> None:
        super().__init__()
        self.width = directions[0][1].shape[1]
        self._padded = -(-self.width // _LANES) * _LANES
        self._n_characters = len(embedding)
        projected, recurrent = [], []
        for of_input, of_state, input_bias, state_bias in directions:
            projected.append(self._spread(multiply_in_order(embedding, of_input.T) + (input_bias + state_bias)))
            recurrent.append(self._spread(of_state.T))
        self._projected, self._recurrent = self.hold(np.stack(projected)), self.hold(np.stack(recurrent))

    def _spread(self, gates: Array) -> Array:
        """Pad every gate to whole vectors."""
        padded = np.pad(gates.reshape(len(gates), 4, -1), ((0, 0), (0, 0), (0, self._padded - self.width)))
        return padded.reshape(len(gates), -1)

    def read(
        self, characters: NDArray[np.int64], lengths: NDArray[np.int64], table: Array | None = None, first: int = 0
    ) -> Array:
        """Return a table, (rows, 2 · width), with the last states of both directions for each word.

        The characters of the words follow each other; a word without characters gets zeros. The states are written to
        the rows of `table` from row `first`, or to a new table if `table` is None.
        """
        if table is None:
            table = allocate((len(lengths), 2 * self.width))
        characters, n_words = np.ascontiguousarray(characters), len(lengths)
        n_rows, width = table.shape
        if first + n_words > n_rows or width != 2 * self.width or not table.flags.c_contiguous:
            raise ValueError(f"no room for {n_words} words at row {first} of {tuple(table.shape)}")
        job = _CharactersJob(
            address_of(characters),
            address_of(lengths),
            self._projected,
            self._recurrent,
            address_of(table) + first * width * 4,
            n_words,
            len(characters),
            self._n_characters,
            self.width,
            self._padded,
            count_threads(),
        )
        call("relatum_characters", job)
        return table


class _CharactersJob(ctypes.Structure):
    """The structure `CharactersJob` of `native/characters.h`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("characters", "lengths", "projected", "recurrent", "vectors")),
        *((name, ctypes.c_int32) for name in ("n_words", "n_given", "n_characters", "width", "padded", "n_threads")),
    )
