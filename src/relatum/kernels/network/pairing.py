"""The table of word pairs, made in two steps, in one call of compiled code; see `native/pairing.h`."""

from __future__ import annotations

import ctypes

import numpy as np

from relatum.kernels.arrays import Array, address_of, allocate, name_of, to_float32
from relatum.kernels.linear.structures import Dense
from relatum.kernels.network.cpu import TABLE_DTYPES, Holder, library


class PackedPairing(Holder):
    """The packed weights of both steps: (table width, 2 · width) and (table width, table width + maps)."""

    def __init__(self, first: Array, first_bias: Array, second: Array, second_bias: Array) -> None:
        super().__init__()
        self.table_width, self.width = first.shape[0], first.shape[1] // 2
        self.n_maps, self.dtype = second.shape[1] - self.table_width, second.dtype
        self._kind = TABLE_DTYPES.index(name_of(second.dtype))
        both = np.concatenate([first[:, : self.width], first[:, self.width :]])  # rows, then columns, without a bias
        self._first = self.dense(both, np.concatenate([first_bias, np.zeros_like(first_bias)]))
        depth = second.shape[1]
        second = np.ascontiguousarray(second)
        packed = allocate((library().relatum_pairing_packed_bytes(depth, self.table_width, self._kind),), np.uint8)
        library().relatum_pairing_pack(address_of(second), depth, self.table_width, self._kind, address_of(packed))
        self._second, self._second_bias = self.hold(packed), self.hold(to_float32(second_bias))

    def weights_job(self) -> PairingJob:
        """Return a job for `relatum_pairing` with the weights, but without what depends on the batch."""
        return PairingJob(
            first=self._first,
            second=self._second,
            second_bias=self._second_bias,
            dtype=self._kind,
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
