"""The compiled code of the network's parts, and weights in the order in which it reads them.

See `native/network.cpp`. With one sentence at a time, these parts are a hundred small operations of plain torch, which
take far longer to begin than to compute.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from relatum.kernels.backend import allows_compiled
from relatum.kernels.compile import CompileError, Source, can_load, load
from relatum.kernels.linear.structures import Dense, Norm
from relatum.kernels.threads import share_threads

_log = logging.getLogger(__name__)

_KERNELS = Path(__file__).parent.parent
SOURCE = Source(
    _KERNELS / "network/native", "network.cpp", shared=(_KERNELS / "linear/native", _KERNELS / "md_gru/native")
)

TABLE_DTYPES = (torch.float32, torch.bfloat16)
"""The types of numbers of tables, as the code counts them."""

Made = TypeVar("Made")


def is_wanted(values: Tensor) -> bool:
    """Whether compiled code computes what is made of these: on a CPU, without gradients, where it can run."""
    if torch.is_grad_enabled() or not values.is_cpu or torch.compiler.is_compiling():
        return False
    return allows_compiled() and is_available()


@cache
def is_available(source: Source = SOURCE) -> bool:
    """Whether the code can run here; says so where it could and cannot be made after all. The first time it is made."""
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
    """The code, made first where that has not been done."""
    loaded = load(source)
    if not loaded.relatum_network_allowed():
        raise CompileError(f"{source.main} cannot run: the system does not let this process use the CPU's matrix unit")
    for name in ("relatum_dense_packed_bytes", "relatum_pairing_packed_bytes"):
        getattr(loaded, name).restype = ctypes.c_int64
    loaded.relatum_dense_pack.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p]
    loaded.relatum_pairing_pack.argtypes = [ctypes.c_void_p, *[ctypes.c_int] * 3, ctypes.c_void_p]
    share_threads(loaded)
    return loaded


def call(function: str, job: ctypes.Structure) -> None:
    """Do a job, whatever its kind."""
    if getattr(library(), function)(ctypes.byref(job)):
        raise MemoryError(f"{function} found no memory for its buffers")


class Packing(Generic[Made]):
    """What was made of the weights of a module, for as long as they stay the same.

    They are seen to change where they are moved or replaced, or written to in a way that autograd knows of.
    """

    def __init__(self) -> None:
        self._kept: tuple[_Weights, Made] | None = None

    def __reduce__(self) -> tuple[type[Packing[Made]], tuple[()]]:
        return type(self), ()  # a copy is of other weights

    def find(self, module: nn.Module, make: Callable[[], Made]) -> Made:
        """What `make` makes of the module; it is kept where torch counts the changes of all weights."""
        kept = self._kept
        if kept is None or not kept[0].are_same(module):
            weights, made = _Weights(module), make()
            if not weights.are_same(module):
                return made
            kept = self._kept = weights, made
        return kept[1]


class _Weights:
    """Those of a module and of all within it: where they are looked up, where they lie, and how often they changed."""

    def __init__(self, module: nn.Module) -> None:
        inner = list(module.modules())
        self._module = module
        self._places = [(one._parameters, name) for one in inner for name in one._parameters]
        self._part_places = [(one._modules, name) for one in inner for name in one._modules]
        self._parts = [of[name] for of, name in self._part_places]
        # They are held, so that no others come to lie where they do.
        self._held = [None if one is None else one.detach() for one in (of[name] for of, name in self._places)]
        self._states = self._look()

    def are_same(self, module: nn.Module) -> bool:
        if module is not self._module or self._states is None:
            return False
        if [of.get(name) for of, name in self._part_places] != self._parts:  # the very same ones: they have no other ==
            return False
        return self._look() == self._states

    def _look(self) -> list[tuple[int, int] | None] | None:
        try:
            found = [of[name] for of, name in self._places]
            return [None if one is None else (one.data_ptr(), one._version) for one in found]
        except (KeyError, RuntimeError):  # one is gone; or it was made in inference mode, and nobody counts
            return None


class Holder:
    """Keeps alive what structures point to."""

    def __init__(self) -> None:
        self._held: list[Tensor] = []

    def hold(self, values: Tensor) -> int:
        """The address of values, which live as long as this does."""
        self._held.append(values.detach().contiguous())
        return self._held[-1].data_ptr()

    def pack(self, weight: Tensor) -> int:
        """The address of weights, (outputs, inputs), in float32 and in order."""
        weight = weight.detach().float().contiguous()
        packed = torch.empty(library().relatum_dense_packed_bytes(*weight.shape[::-1]), dtype=torch.uint8)
        library().relatum_dense_pack(weight.data_ptr(), weight.shape[1], weight.shape[0], packed.data_ptr())
        return self.hold(packed)

    def dense(self, weight: Tensor, bias: Tensor) -> Dense:
        return Dense(self.pack(weight), self.hold(bias.float()), weight.shape[1], weight.shape[0])

    def norm(self, weight: Tensor, bias: Tensor, epsilon: float) -> Norm:
        return Norm(self.hold(weight), self.hold(bias), epsilon)


@dataclass(frozen=True, slots=True)
class Words:
    """How many words the sentences of a batch have."""

    lengths: NDArray[np.int32]
    n_words: int
    """For how many there is room."""
    is_ragged: bool
    """Whether any sentence has fewer."""
    address: int
    """Of the lengths."""

    @classmethod
    def of(cls, mask: Tensor) -> Words:
        lengths: NDArray[np.int32] = mask.numpy().sum(1, dtype=np.int32)
        return cls(lengths, mask.shape[1], bool((lengths < mask.shape[1]).any()), lengths.ctypes.data)

    def make(self, width: int) -> Tensor:
        """Room for a vector of each word, zero where there is none."""
        shape = len(self.lengths), self.n_words, width
        return torch.zeros(shape) if self.is_ragged else torch.empty(shape)
