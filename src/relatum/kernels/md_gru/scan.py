"""From inputs to states by scanning anti-diagonals: all that is the same however a diagonal is computed.

Cells of an anti-diagonal do not depend on each other. What depends on the input or on the layer below is projected in
one large product before the scan; inside stay the product with the states of the two neighbours, and the gates. The
backward pass is written by hand: it visits the diagonals in the opposite order, keeps no graph of small operations, and
leaves the gradient of the recurrent weights to one large product at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from relatum.kernels.md_gru.geometry import Geometry, make_geometry
from relatum.kernels.md_gru.spec import CellSpec, Direction, Weights


@dataclass(frozen=True, slots=True)
class Buffers:
    """The tensors that a scan works on, packed: (D, cells, B, …). Gates and candidates are transformed in place."""

    gates: Tensor
    """r, z, λ… and, where reset comes after the projection, v: as projected, then opened, then their gradients."""
    candidate: Tensor
    """u, then the candidate, then its gradient before the tanh."""
    states: Tensor
    """(D, slots, B, H): see `geometry`; zero before the scan."""
    below: Tensor | None
    mask: Tensor
    recurrent: Tensor
    """(D, sides · H, parts · H): the weights of the neighbours that are read."""
    reset_first: Tensor | None
    """(D, read slots · H, H): the weights of the candidate where reset comes before the projection."""


@dataclass(frozen=True, slots=True)
class Gradients:
    """The gradient of the states, which a backward scan is given, and the gradients that it fills."""

    states: Tensor
    below: Tensor | None
    """The gradient of the states below by way of λ, and by way of the candidate where reset comes first."""
    reset_first: Tensor | None
    """The gradient of `Buffers.reset_first`, which the scan adds to."""


class Steps(Protocol):
    """A way to compute the diagonals, forward and backward."""

    def advance(self, buffers: Buffers, geometry: Geometry, spec: CellSpec) -> None:
        """Turn what was projected into gates and candidates, in place, and fill the states."""

    def retreat(self, buffers: Buffers, grads: Gradients, geometry: Geometry, spec: CellSpec) -> None:
        """Turn gates and candidates into the gradients of what was projected, in place."""


def scan(
    inputs: Tensor,
    below: Tensor | None,
    mask: Tensor,
    weights: Weights,
    directions: Sequence[Direction],
    spec: CellSpec,
    steps: Steps,
) -> Tensor:
    """See `op.md_gru`."""
    n_batch, n_words = mask.shape
    width, n_directions = spec.width(weights), len(directions)
    geometry = make_geometry(n_words, inputs.device, bool(spec.recurrent))
    order, inverse = geometry.order(directions)
    own = (spec.n_parts - 1) * width  # where the candidate's columns begin

    def rows(slots: Sequence[str]) -> Tensor:
        """Return the rows of the state's projection that belong to the slots."""
        parts = weights.state.split(width, 1) if spec.slots else ()
        kept = [part for slot, part in zip(spec.slots, parts, strict=True) if slot in slots]
        return torch.cat(kept, 1) if kept else weights.state[:, :0]

    packed = _reorder(inputs.flatten(1, 2).movedim(0, 1).expand(n_directions, -1, -1, -1), order, inverse)
    from_input = torch.baddbmm(weights.input_bias.unsqueeze(1), packed.flatten(1, 2), weights.input)
    read = tuple(slot for slot in spec.read if slot != "below" or below is not None)
    packed_below = None
    from_below = weights.state_bias.unsqueeze(1)
    if below is not None and "below" in read:
        packed_below = _reorder(below.flatten(1, 2).permute(2, 1, 0, 3), order, inverse)
        projection = rows(("below",))
        if spec.reset == "before":  # its part in the candidate waits for r
            projection = torch.cat((projection[..., :own], torch.zeros_like(projection[..., own:])), -1)
        from_below = torch.baddbmm(from_below, packed_below.flatten(1, 2), projection)
    shape = (n_directions, n_words**2, n_batch, -1)
    recurrent = rows(spec.recurrent)
    states = _scan(
        from_input.view(shape),
        from_below.expand(-1, from_input.shape[1], -1).view(shape),
        packed_below,
        (mask.unsqueeze(2) & mask.unsqueeze(1)).flatten(1).T[order].unsqueeze(-1),
        recurrent[..., :own] if spec.reset == "before" else recurrent,
        rows(read)[..., own:] if spec.reset == "before" else None,
        geometry,
        spec,
        steps,
        torch.is_grad_enabled(),
    )
    table = _reorder(states, inverse, order).permute(2, 1, 0, 3)
    return table.reshape(n_batch, n_words, n_words, n_directions, width)


class _Reorder(torch.autograd.Function):
    """A reordering of cells, with an order per direction; the gradient is put back by reading, not by adding up."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, order: Tensor, inverse: Tensor) -> Tensor:
        ctx.inverse = inverse
        return _take(table, order)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _take(grad, ctx.inverse), None, None


def _take(table: Tensor, order: Tensor) -> Tensor:
    return torch.stack([cells.index_select(0, own) for cells, own in zip(table, order, strict=True)])


class _Scan(torch.autograd.Function):
    """The scan from projections to states, all packed: (D, cells, B, …)."""

    @staticmethod
    def forward(
        ctx: Any,
        from_input: Tensor,
        from_below: Tensor,
        below: Tensor | None,
        mask: Tensor,
        recurrent: Tensor,
        reset_first: Tensor | None,
        geometry: Geometry,
        spec: CellSpec,
        steps: Steps,
        keep: bool,
    ) -> Tensor:
        width = from_input.shape[-1] // spec.n_parts
        own = from_input.shape[-1] - width
        candidate = from_input[..., own:].clone(memory_format=torch.contiguous_format)
        if reset_first is None:
            # A projection of the layer below is ours to write over, unless autograd has it; the bare bias never is.
            mine = below is not None and not keep
            gates = from_below if mine else from_below.clone(memory_format=torch.contiguous_format)
            gates[..., :own] += from_input[..., :own]
        else:
            gates = from_input[..., :own] + from_below[..., :own]
            candidate = candidate + from_below[..., own:]
        states = gates.new_zeros(gates.shape[0], geometry.n_slots, gates.shape[2], width)
        steps.advance(Buffers(gates, candidate, states, below, mask, recurrent, reset_first), geometry, spec)
        ctx.save_for_backward(gates, candidate, states, below, mask, recurrent, reset_first)
        ctx.rest = geometry, spec, steps
        return states.index_select(1, geometry.states)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        gates, candidate, states, below, mask, recurrent, reset_first = ctx.saved_tensors
        geometry, spec, steps = cast("tuple[Geometry, CellSpec, Steps]", ctx.rest)
        # The buffers become gradients in place; the saved ones stay, in case the graph is used again.
        gates, candidate = gates.clone(), candidate.clone()
        grads = Gradients(
            grad.contiguous(),
            None if below is None else torch.empty_like(below),
            None if reset_first is None else torch.zeros_like(reset_first),
        )
        steps.retreat(Buffers(gates, candidate, states, below, mask, recurrent, reset_first), grads, geometry, spec)
        grad_recurrent = None
        if spec.recurrent:
            neighbours = torch.cat([states.index_select(1, geometry.of(slot)) for slot in spec.recurrent], -1)
            grad_recurrent = neighbours.flatten(1, 2).mT @ gates.flatten(1, 2)
        own = (spec.n_parts - 1) * states.shape[-1]
        grad_input = torch.cat((gates[..., :own], candidate), -1)
        from_below = gates if reset_first is None else grad_input
        return grad_input, from_below, grads.below, None, grad_recurrent, grads.reset_first, None, None, None, None


_reorder = cast("Callable[..., Tensor]", _Reorder.apply)
_scan = cast("Callable[..., Tensor]", _Scan.apply)
