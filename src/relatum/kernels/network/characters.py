"""A bidirectional LSTM over the characters of words, in one call of compiled code; see `native/characters.h`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from relatum.errors import RelatumError
from relatum.kernels.network.cpu import Holder, call

_LANES = 16
"""Gates are padded to a multiple of so many, which is one of the lanes of any vector."""


class PackedCharacters(Holder):
    """The weights of an LSTM, as `nn.LSTM.all_weights` has them, with what each character adds to the gates."""

    def __init__(self, embedding: Tensor, directions: Sequence[Sequence[Tensor]]) -> None:
        super().__init__()
        self.width = directions[0][1].shape[1]
        self._padded = -(-self.width // _LANES) * _LANES
        self._n_characters = len(embedding)
        projected, recurrent = [], []
        for of_input, of_state, input_bias, state_bias in directions:
            projected.append(self._spread(embedding @ of_input.mT + (input_bias + state_bias)))
            recurrent.append(self._spread(of_state.mT))
        self._projected, self._recurrent = self.hold(torch.stack(projected)), self.hold(torch.stack(recurrent))

    def _spread(self, gates: Tensor) -> Tensor:
        """Every gate with room for whole vectors."""
        return pad(gates.unflatten(1, (4, -1)), (0, self._padded - self.width)).flatten(1)

    def read(self, characters: NDArray[np.int64], lengths: NDArray[np.int64]) -> Tensor:
        """(words, 2 · width): the last states of both directions, of words one after the other, none without any."""
        lowest, highest = characters.min(), characters.max()
        if highest >= self._n_characters or lowest < 0:
            raise RelatumError(f"a character of the number {highest}: the embedding has {self._n_characters}")
        starts = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(lengths, out=starts[1:])
        characters = np.ascontiguousarray(characters)
        vectors = torch.empty(len(lengths), 2 * self.width)
        job = _CharactersJob(
            characters=characters.ctypes.data,
            starts=starts.ctypes.data,
            projected=self._projected,
            recurrent=self._recurrent,
            vectors=vectors.data_ptr(),
            n_words=len(lengths),
            n_characters=self._n_characters,
            width=self.width,
            padded=self._padded,
            n_threads=torch.get_num_threads(),
        )
        call("relatum_characters", job)
        return vectors


class _CharactersJob(ctypes.Structure):
    """As in `native/characters.h`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("characters", "starts", "projected", "recurrent", "vectors")),
        *((name, ctypes.c_int32) for name in ("n_words", "n_characters", "width", "padded", "n_threads")),
    )
