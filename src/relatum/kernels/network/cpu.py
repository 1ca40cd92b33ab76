"""The compiled code of the network's parts, and weights in the order in which it reads them.

See `native/network.cpp`. With one sentence at a time, these parts are a hundred small operations of plain torch, which
take far longer to begin than to compute.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from relatum.errors import RelatumError
from relatum.kernels.backend import allows_compiled
from relatum.kernels.compile import CompileError, Source, can_load, load
from relatum.kernels.linear.cpu import pack
from relatum.kernels.linear.structures import Dense, Norm
from relatum.kernels.sources import NETWORK, READING
from relatum.kernels.threads import share_threads

_log = logging.getLogger(__name__)

SOURCE = NETWORK

TABLE_DTYPES = (torch.float32, torch.bfloat16)
"""The dtypes of tables; compiled code knows a dtype by its index here."""

Made = TypeVar("Made")


def is_wanted(values: Tensor) -> bool:
    """True if compiled code is to compute with these values: on a CPU, without gradients, if it may and can run."""
    if torch.is_grad_enabled() or not values.is_cpu or torch.compiler.is_compiling():
        return False
    return allows_compiled() and is_available()


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


class Packing(Generic[Made]):
    """A cache of what was made of a module's weights, for as long as the weights stay the same.

    A change is noticed if weights are moved or replaced, or written to in a way that autograd knows of.
    """

    def __init__(self) -> None:
        self._kept: tuple[_Weights, Made] | None = None

    def __reduce__(self) -> tuple[type[Packing[Made]], tuple[()]]:
        return type(self), ()  # a copy is of other weights

    def find(self, module: nn.Module, make: Callable[[], Made]) -> Made:
        """Return what `make` makes of the module; cached if torch counts the changes of all weights."""
        kept = self._kept
        if kept is None or not kept[0].are_same(module):
            weights, made = _Weights(module), make()
            if not weights.are_same(module):
                return made
            kept = self._kept = weights, made
        return kept[1]


class _Weights:
    """The weights of a module and its submodules: where to look them up, their addresses, and counts of changes."""

    def __init__(self, module: nn.Module) -> None:
        inner = list(module.modules())
        self._module = module
        # Only where there is something: most of the time goes into fetching these from memory.
        self._places = [one._parameters for one in inner if one._parameters]
        self._part_places = [one._modules for one in inner if one._modules]
        self._parts = self._find_parts()
        # They are held, so that no others come to lie where they do.
        self._held = [one.detach() for one in self._find()]
        self._states = states_of(self._find())

    def are_same(self, module: nn.Module) -> bool:
        if module is not self._module or self._states is None:
            return False
        # The very same parts: they have no other ==.
        return self._find_parts() == self._parts and states_of(self._find()) == self._states

    def _find_parts(self) -> list[nn.Module | None]:
        return list(chain.from_iterable(map(_values, self._part_places)))

    def _find(self) -> list[Tensor]:
        return [one for one in chain.from_iterable(map(_values, self._places)) if one is not None]


_values: Callable[[dict[str, Any]], Iterable[Any]] = dict.values
_n_writes: Callable[[Tensor], int] = attrgetter("_version")


def states_of(weights: Sequence[Tensor]) -> tuple[list[int], list[int]] | None:
    """Return the addresses of weights and how often each was written to; None if that is not known of every weight.

    Nobody counts the changes of a tensor that was made in inference mode.
    """
    try:
        return list(map(Tensor.data_ptr, weights)), list(map(_n_writes, weights))
    except RuntimeError:
        return None


class Holder:
    """An owner of the tensors that structures point to, which keeps them alive."""

    def __init__(self) -> None:
        self._held: list[Tensor] = []

    def hold(self, values: Tensor) -> int:
        """Return the address of values, and keep the values alive as long as this object."""
        self._held.append(values.detach().contiguous())
        return self._held[-1].data_ptr()

    def pack(self, weight: Tensor) -> int:
        """Pack weights, (outputs, inputs), in float32 and in the order in which they are read; return their address."""
        weight = weight.detach().float().contiguous()
        packed = torch.empty(library().relatum_dense_packed_bytes(*weight.shape[::-1]), dtype=torch.uint8)
        library().relatum_dense_pack(weight.data_ptr(), weight.shape[1], weight.shape[0], packed.data_ptr())
        return self.hold(packed)

    def dense(self, weight: Tensor, bias: Tensor) -> Dense:
        return Dense(self.pack(weight), self.hold(bias.float()), weight.shape[1], weight.shape[0])

    def split_dense(self, weight: Tensor, bias: Tensor) -> Dense:
        """Return a layer whose products are each made of several products in bfloat16, see `kernels/linear`."""
        tiles = self.hold(pack(weight.detach().float()).tiles)
        return Dense(tiles, self.hold(bias.float()), weight.shape[1], weight.shape[0])

    def norm(self, weight: Tensor, bias: Tensor, epsilon: float) -> Norm:
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
    def of(cls, mask: Tensor) -> Words:
        lengths: NDArray[np.int32] = mask.numpy().sum(1, dtype=np.int32)
        n_words = mask.shape[1]
        return cls(lengths, n_words, min(lengths.tolist(), default=0) < n_words, address_of(lengths))

    def shape(self, n_axes: int, width: int) -> tuple[int, ...]:
        """Return the shape of a tensor with a vector for each word, or with two axes for each cell."""
        return (len(self.lengths), *[self.n_words] * n_axes, width)

    def make(self, shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
        """Allocate a tensor that is zero where there is no word."""
        return torch.zeros(shape, dtype=dtype) if self.is_ragged else torch.empty(shape, dtype=dtype)


def address_of(values: NDArray[Any]) -> int:
    """Return the address of an array's values; the array's own way to tell it takes several times as long."""
    address: int = values.__array_interface__["data"][0]
    return address
