"""The specification of an MD-GRU: the form of the cell, its weights, and the directions in which it runs.

Letters in this package: B sentences, N words, D directions, X input width, H width of one direction's state, P slots,
G gates; r, z, λ are the reset, update and lambda gates of appendix A, u and v the input part and the state part of the
candidate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, cast, get_args

if TYPE_CHECKING:
    from torch import Tensor

Direction = Literal["nw", "ne", "sw", "se"]
"""The corner of the table where a network starts: nw is row⁺col⁺ in the paper, se row⁻col⁻."""
Predecessor = Literal["below", "up", "left"]
"""The same cell in the layer below; the cells before it in its column and in its row, seen from the start."""
Reset = Literal["after", "before"]

PREDECESSORS: tuple[Predecessor, ...] = get_args(Predecessor)


@dataclass(frozen=True, slots=True)
class CellSpec:
    """The form of a cell.

    `slots` are the predecessors that have weights and a share in λ, in the order below, up, left; `read` are the
    slots whose states are looked at: the state in any other slot is zero, as in the ablations behind the published
    numbers.
    `reset` says whether r acts on the states after their projection (the paper's choice) or before it.
    """

    slots: tuple[Predecessor, ...] = PREDECESSORS
    read: tuple[Predecessor, ...] = PREDECESSORS
    reset: Reset = "after"

    def __post_init__(self) -> None:
        for what, given in (("slots", self.slots), ("read", self.read)):
            if given != tuple(slot for slot in PREDECESSORS if slot in given):
                raise ValueError(f"{what} = {given}: name each at most once, in the order {', '.join(PREDECESSORS)}")
        if not set(self.read) <= set(self.slots):
            raise ValueError(f"read = {self.read} names what is not among slots = {self.slots}")

    @property
    def n_lambdas(self) -> int:
        """The number of λ gates: two predecessors share one sigmoid, three or more a softmax; one needs no gate."""
        return {0: 0, 1: 0, 2: 1}.get(len(self.slots), len(self.slots))

    @property
    def n_parts(self) -> int:
        """The parts of H values that a projection has: r, z, each λ, and the candidate."""
        return 3 + self.n_lambdas

    def width(self, weights: Weights) -> int:
        """Return H, as the weights have it."""
        return weights.input.shape[2] // self.n_parts

    @property
    def recurrent(self) -> tuple[Predecessor, ...]:
        """The read slots that are in the same layer, so that cells must wait for them."""
        return tuple(slot for slot in self.read if slot != "below")


@dataclass(frozen=True, slots=True)
class Weights:
    """The projections of the input and of the slots' states; parts are in the order r, z, λ…, candidate."""

    input: Tensor
    """(D, X, parts · H)"""
    input_bias: Tensor
    """(D, parts · H)"""
    state: Tensor
    """(D, P · H, parts · H)"""
    state_bias: Tensor
    """(D, parts · H)"""

    def __iter__(self) -> Iterator[Tensor]:
        """Iterate over the tensors, in the order of the fields above."""
        return iter((self.input, self.input_bias, self.state, self.state_bias))


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a cell, and the corners where the networks start."""

    spec: CellSpec
    directions: tuple[Direction, ...]

    def to_text(self) -> str:
        """Write the form as text, since the arguments of an operator are tensors, numbers and text."""
        return "/".join("+".join(part) for part in (self.spec.slots, self.spec.read, self.directions))

    @staticmethod
    @lru_cache(maxsize=64)
    def from_text(text: str) -> Form:
        slots, read, directions = (tuple(part.split("+")) if part else () for part in text.split("/"))
        spec = CellSpec(cast("tuple[Predecessor, ...]", slots), cast("tuple[Predecessor, ...]", read))
        return Form(spec, cast("tuple[Direction, ...]", directions))
