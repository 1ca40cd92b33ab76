"""The table of word pairs, made in two steps, in one call of compiled code; see `native/pairing.h`."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from relatum.kernels.linear.structures import Dense
from relatum.kernels.network.cpu import TABLE_DTYPES, Holder, library


class PackedPairing(Holder):
    """The packed weights of both steps: (table width, 2 · width) and (table width, table width + maps)."""

    def __init__(self, first: Tensor, first_bias: Tensor, second: Tensor, second_bias: Tensor) -> None:
        super().__init__()
        self.table_width, self.width = first.shape[0], first.shape[1] // 2
        self.n_maps, self.dtype = second.shape[1] - self.table_width, second.dtype
        kind = TABLE_DTYPES.index(second.dtype)
        both = torch.cat(first.detach().split(self.width, 1))  # rows, then columns, which have no bias
        self._first = self.dense(both, torch.cat((first_bias, torch.zeros_like(first_bias))))
        depth = second.shape[1]
        second = second.detach().contiguous()
        packed = torch.empty(library().relatum_pairing_packed_bytes(depth, self.table_width, kind), dtype=torch.uint8)
        library().relatum_pairing_pack(second.data_ptr(), depth, self.table_width, kind, packed.data_ptr())
        self._second, self._second_bias = self.hold(packed), self.hold(second_bias.float())

    def weights_job(self) -> PairingJob:
        """Return a job for `relatum_pairing` with the weights, but without what depends on the batch."""
        return PairingJob(
            first=self._first,
            second=self._second,
            second_bias=self._second_bias,
            dtype=TABLE_DTYPES.index(self.dtype),
            width=self.width,
            table_width=self.table_width,
            n_maps=self.n_maps,
        )


class PairingJob(ctypes.Structure):
    """The structure `PairingJob` of `native/pairing.h`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("sequence", "lengths", "maps")),
        ("first", Dense),
        *((name, ctypes.c_void_p) for name in ("second", "second_bias", "table")),
        *((name, ctypes.c_int32) for name in ("dtype", "n_sentences", "n_words", "width", "table_width", "n_maps")),
        *((name, ctypes.c_int32) for name in ("n_threads", "wide_maps")),
    )
