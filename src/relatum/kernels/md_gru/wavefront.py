"""The diagonals in plain torch, on any device: all cells, sentences and directions of one at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from relatum.kernels.md_gru import gates as cell
from relatum.kernels.md_gru.geometry import Diagonal, Geometry
from relatum.kernels.md_gru.scan import Buffers, Gradients
from relatum.kernels.md_gru.spec import CellSpec


class Wavefront:
    """The steps of a scan in plain torch, see `scan.Steps`."""

    def advance(self, buffers: Buffers, geometry: Geometry, spec: CellSpec) -> None:
        gates, candidate, states, mask = buffers.gates, buffers.candidate, buffers.states, buffers.mask
        width = candidate.shape[-1]
        for diagonal in geometry.diagonals:
            here = gates[:, diagonal.cells], candidate[:, diagonal.cells]
            previous = _previous(diagonal, buffers, spec)
            if spec.recurrent:
                neighbours = torch.cat([states[:, diagonal.of(slot)] for slot in spec.recurrent], -1)
                here[0].flatten(1, 2).baddbmm_(neighbours.flatten(1, 2), buffers.recurrent)
            if buffers.reset_first is None:
                new = cell.forward_after(*here, previous, mask[:, diagonal.cells], spec.n_lambdas, width)
            else:
                cell.open_gates(here[0], spec.n_lambdas, width)
                kept = _kept(here[0][..., :width], previous)
                here[1].flatten(1, 2).baddbmm_(kept.flatten(1, 2), buffers.reset_first).tanh_()
                new = cell.update(*here, previous, mask[:, diagonal.cells], spec.n_lambdas, width)
            states[:, diagonal.states] = new

    def retreat(self, buffers: Buffers, grads: Gradients, geometry: Geometry, spec: CellSpec) -> None:
        gates, candidate, states, mask = buffers.gates, buffers.candidate, buffers.states, buffers.mask
        width = candidate.shape[-1]
        grad_states = torch.zeros_like(states).index_copy_(1, geometry.states, grads.states)
        for diagonal in reversed(geometry.diagonals):
            here = gates[:, diagonal.cells], candidate[:, diagonal.cells]
            previous = _previous(diagonal, buffers, spec)
            grad_here = torch.where(mask[:, diagonal.cells], grad_states[:, diagonal.states], 0)
            if buffers.reset_first is None or grads.reset_first is None:
                owed = cell.backward_after(*here, previous, grad_here, spec.n_lambdas, width)
            else:
                activation, owed = cell.backward_update(*here, previous, grad_here, spec.n_lambdas, width)
                r = here[0][..., :width]
                flat = activation.flatten(1, 2)
                grads.reset_first.baddbmm_(_kept(r, previous).flatten(1, 2).mT, flat)
                grad_kept = (flat @ buffers.reset_first.mT).view(*r.shape[:-1], -1).split(width, -1)
                parts = iter(grad_kept)
                grad_r = torch.zeros_like(r)
                for slot, (state, through_mix) in enumerate(zip(previous, owed, strict=True)):
                    if state is not None and through_mix is not None:
                        part = next(parts)
                        grad_r += part * state
                        owed[slot] = through_mix + part * r
                r.copy_(grad_r * r * (1 - r))
                here[1].copy_(activation)
            if grads.below is not None:
                grads.below[:, diagonal.cells] = _known(owed[spec.slots.index("below")])
            if spec.recurrent:
                through = (
                    (here[0].flatten(1, 2) @ buffers.recurrent.mT).view(*grad_here.shape[:-1], -1).split(width, -1)
                )
                for neighbour, part in zip(spec.recurrent, through, strict=True):
                    grad_states[:, diagonal.of(neighbour)] += part + _known(owed[spec.slots.index(neighbour)])


def _previous(diagonal: Diagonal, buffers: Buffers, spec: CellSpec) -> list[Tensor | None]:
    """Return the states in the slots of a diagonal's cells; None for a slot that is not read or has no state."""
    found: dict[str, Tensor | None] = {"below": None if buffers.below is None else buffers.below[:, diagonal.cells]}
    for slot in spec.recurrent:
        found[slot] = buffers.states[:, diagonal.of(slot)]
    return [found[slot] if slot in spec.read else None for slot in spec.slots]


def _known(grad: Tensor | None) -> Tensor:
    """Return the gradient of a slot that is read; such a slot always has a gradient."""
    assert grad is not None
    return grad


def _kept(r: Tensor, previous: Sequence[Tensor | None]) -> Tensor:
    """Return the states that are read, multiplied by the reset gate."""
    parts = [r * state for state in previous if state is not None]
    return torch.cat(parts, -1) if parts else r[..., :0]
