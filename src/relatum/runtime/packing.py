"""Packed weights, made once and again when weights change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Generic, TypeVar

from torch import Tensor, nn

Packed = TypeVar("Packed")


class Packing(Generic[Packed]):
    """A cache of what was made of a module's weights, for as long as the weights stay the same.

    A change is noticed if weights are moved or replaced, or written to in a way that autograd knows of.
    """

    def __init__(self) -> None:
        self._kept: tuple[_Weights, Packed] | None = None

    def __reduce__(self) -> tuple[type[Packing[Packed]], tuple[()]]:
        return type(self), ()  # a copy is of other weights

    def find(self, module: nn.Module, make: Callable[[], Packed]) -> Packed:
        """Return what `make` makes of the module; cached if torch counts the changes of all weights."""
        kept = self._kept
        if kept is None or not kept[0].are_same(module):
            weights, packed = _Weights(module), make()
            if not weights.are_same(module):
                return packed
            kept = self._kept = weights, packed
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
