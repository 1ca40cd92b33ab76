"""Random layers of the MD-GRU for measuring, and whether a backend computes them right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import sqrt

import torch
from torch import Tensor

from relatum.kernels.backend import use_backend
from relatum.kernels.md_gru import CellSpec, Direction, Weights, md_gru

DIRECTIONS: tuple[Direction, ...] = ("nw", "se")
"""The paper's; the input of a layer is as wide as the states of all of them."""
BASE = "wavefront"
FACTOR = 2.0
"""How many times the error of the plain wavefront in the same type of numbers another backend may have."""
EXACT = 1e-10
"""The most that double precision may differ from the definition, relative to the size of the values."""


@dataclass(frozen=True)
class Case:
    """Values for some layers, the lowest of which has states below it as well."""

    inputs: Tensor
    below: Tensor
    mask: Tensor
    layers: tuple[Weights, ...]
    grad: Tensor
    """Of the states of the highest layer."""

    @classmethod
    def make(cls, lengths: Sequence[int], width: int, n_layers: int, device: torch.device, dtype: torch.dtype) -> Case:
        generator = torch.Generator(device).manual_seed(0)
        spec, n, n_directions = CellSpec(), max(lengths), len(DIRECTIONS)
        parts, input_width = spec.n_parts * width, n_directions * width

        def random(*shape: int, scale: float = 1.0) -> Tensor:
            values = torch.randn(*shape, generator=generator, dtype=dtype, device=device)
            return values.mul_(scale).requires_grad_()

        layers = tuple(
            Weights(
                random(n_directions, input_width, parts, scale=1 / sqrt(input_width)),
                random(n_directions, parts, scale=0.1),
                random(n_directions, len(spec.slots) * width, parts, scale=1 / sqrt(len(spec.slots) * width)),
                random(n_directions, parts, scale=0.1),
            )
            for _ in range(n_layers)
        )
        table = len(lengths), n, n
        mask = torch.arange(n, device=device) < torch.tensor(lengths, device=device).unsqueeze(1)
        states = *table, n_directions, width
        return cls(random(*table, input_width), random(*states, scale=0.5), mask, layers, random(*states).detach())

    def doubled(self) -> Case:
        """The very same values in double precision."""

        def to(tensor: Tensor) -> Tensor:
            return tensor.detach().double().requires_grad_()

        layers = tuple(Weights(*map(to, weights)) for weights in self.layers)
        return Case(to(self.inputs), to(self.below), self.mask, layers, self.grad.double())

    @property
    def leaves(self) -> dict[str, Tensor]:
        """All that has a gradient."""
        found = {"inputs": self.inputs, "below": self.below}
        for number, weights in enumerate(self.layers, 1):
            found |= {f"{one.name} weights of layer {number}": getattr(weights, one.name) for one in fields(weights)}
        return found

    def forward(self) -> Tensor:
        states = self.below
        for weights in self.layers:
            states = md_gru(self.inputs, states, self.mask, weights, DIRECTIONS, CellSpec())
        return states

    def infer(self) -> Tensor:
        with torch.no_grad():
            return self.forward()

    def both(self) -> tuple[Tensor, ...]:
        """The states and the gradients of all leaves."""
        states = self.forward()
        return states.detach(), *torch.autograd.grad(states, list(self.leaves.values()), self.grad)

    def results(self, backend: str) -> dict[str, Tensor]:
        """All that a backend computes; states without gradients may come another way than those with."""
        with use_backend(backend):
            return {
                "states without gradients": self.infer(),
                **dict(zip(("states", *(f"gradient of {name}" for name in self.leaves)), self.both(), strict=True)),
            }


def errors(case: Case, backend: str, truth: dict[str, Tensor], times: int) -> dict[str, float]:
    """The root of the mean square error relative to that of the values, the worst of some times; infinite for NaN."""
    worst = dict.fromkeys(truth, 0.0)
    for _ in range(times):
        for name, found in case.results(backend).items():
            right = truth[name]
            error = float((found.double() - right).square().mean().sqrt() / right.square().mean().sqrt())
            worst[name] = max(worst[name], min(float("inf"), error))  # in this order, not a number is infinite
    return worst


def complaint(found: dict[str, float], plain: dict[str, float], dtype: torch.dtype) -> str | None:
    """What is wrong with the errors of a backend, given those of the plain wavefront; None if nothing is."""
    for name, error in found.items():
        allowed = EXACT if dtype == torch.float64 else FACTOR * plain[name]
        if not error <= allowed:
            return f"the {name} have an error of {error:.1e}, {allowed:.1e} is allowed"
    return None
