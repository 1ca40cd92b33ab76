"""The compiled code of the network's parts, and weights in the order in which it reads them.

See `native/network.cpp`. With one sentence at a time, these parts are a hundred small operations of plain torch, which
take far longer to begin than to compute.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import DTypeLike, NDArray

from relatum.errors import RelatumError
from relatum.kernels.arrays import Array, address_of, allocate, to_float32
from relatum.kernels.compile import CompileError, Source, can_load, load
from relatum.kernels.linear.structures import Dense, Norm
from relatum.kernels.linear.tiles import pack_tiles
from relatum.kernels.sources import NETWORK, READING
from relatum.kernels.threads import share_threads

_log = logging.getLogger(__name__)

SOURCE = NETWORK

TABLE_DTYPES = ("float32", "bfloat16")
"""The types of the numbers in tables; compiled code knows a type by its index here."""


@cache
def is_available(source: Source = SOURCE) -> bool:
    """True if the compiled library is usable. Compiles it on first call and warns if that fails."""
    if not can_load(source)[0]:
        return False
    try:
        library(source)
    except CompileError as error:
        _log.warning("the network is computed in plain torch, which is slower: %s", error)
        return False
    return True


@cache
def library(source: Source = SOURCE) -> ctypes.CDLL:
    """Return the compiled library; compile it first if that has not been done."""
    loaded = load(source, READING if source == SOURCE else ())
    if not loaded.relatum_network_allowed():
        raise CompileError(f"{source.main} cannot run: the system does not let this process use the CPU's matrix unit")
    for name in ("relatum_dense_packed_bytes", "relatum_pairing_packed_bytes"):
        getattr(loaded, name).restype = ctypes.c_int64
    loaded.relatum_dense_pack.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
    loaded.relatum_pairing_pack.argtypes = [ctypes.c_void_p, *[ctypes.c_int] * 3, ctypes.c_void_p]
    share_threads(loaded)
    return loaded


def call(function: str, job: ctypes.Structure) -> None:
    """Run a compiled function on its job; raise an error if it fails."""
    failure = getattr(library(), function)(ctypes.byref(job))
    if failure == 2:
        raise RelatumError(f"{function} was given what does not fit, or the number of something that there is not")
    if failure:
        raise MemoryError(f"{function} found no memory for its buffers")


class Holder:
    """An owner of the arrays that structures point to, which keeps them alive."""

    def __init__(self) -> None:
        self._held: list[Array] = []

    def hold(self, values: Array) -> int:
        """Return the address of values, and keep the values alive as long as this object."""
        self._held.append(np.ascontiguousarray(values))
        return address_of(self._held[-1])

    def pack(self, weight: Array) -> int:
        """Pack weights, (outputs, inputs), in float32 and in the order in which they are read; return their address."""
        weight = np.ascontiguousarray(to_float32(weight))
        packed = allocate((library().relatum_dense_packed_bytes(*weight.shape[::-1]),), np.uint8)
        library().relatum_dense_pack(address_of(weight), weight.shape[1], weight.shape[0], address_of(packed))
        return self.hold(packed)

    def dense(self, weight: Array, bias: Array) -> Dense:
        return Dense(self.pack(weight), self.hold(to_float32(bias)), weight.shape[1], weight.shape[0])

    def split_dense(self, weight: Array, bias: Array) -> Dense:
        """Return a layer whose products are each made of several products in bfloat16, see `kernels/linear`."""
        tiles = self.hold(pack_tiles(to_float32(weight)))
        return Dense(tiles, self.hold(to_float32(bias)), weight.shape[1], weight.shape[0])

    def norm(self, weight: Array, bias: Array, epsilon: float) -> Norm:
        return Norm(self.hold(weight), self.hold(bias), epsilon)


@dataclass(frozen=True, slots=True)
class Words:
    """The numbers of words in the sentences of a batch."""

    lengths: NDArray[np.int32]
    n_words: int
    """The number of words that there is room for in each sentence."""
    is_ragged: bool
    """True if any sentence has fewer than `n_words` words."""
    address: int
    """The address of the lengths."""

    @classmethod
    def of(cls, n_words: Sequence[int]) -> Words:
        """Describe a batch that is padded to its longest sentence, given the number of words of each sentence."""
        lengths = np.array(n_words, np.int32)
        longest = max(n_words)
        return cls(lengths, longest, min(n_words) < longest, address_of(lengths))

    def shape(self, n_axes: int, width: int) -> tuple[int, ...]:
        """Return the shape of an array with a vector for each word, or with two axes for each cell."""
        return (len(self.lengths), *[self.n_words] * n_axes, width)

    def make(self, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> Array:
        """Allocate an array that is zero where there is no word."""
        made = allocate(shape, dtype)
        if self.is_ragged:
            made.fill(0)
        return made
