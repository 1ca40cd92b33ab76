"""The wavefront on a GPU: two kernels a diagonal, one product and one for all that the gates do.

The same steps as `wavefront`, whose large products outside the scan it shares. Only reset after the projection is here;
the other form is left to the wavefront.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from relatum.kernels.graphs import Recorder
from relatum.kernels.md_gru.geometry import Geometry
from relatum.kernels.md_gru.scan import Buffers, Gradients
from relatum.kernels.md_gru.spec import CellSpec

_ROWS = 4
"""Rows of a block: with their hidden units, enough work for four warps."""


class TritonSteps:
    """See `scan.Steps`; the scan over a table is recorded for each shape, since its kernels are many and short."""

    def __init__(self) -> None:
        self._recorder = Recorder()

    def advance(self, buffers: Buffers, geometry: Geometry, spec: CellSpec) -> None:
        assert buffers.reset_first is None
        tensors = _tensors(buffers)

        def work(own: Sequence[Tensor | None]) -> None:
            _advance(_buffers(own), geometry, spec)

        if buffers.gates.is_cuda:
            self._recorder.run(("advance", spec), work, tensors, written=(0, 1, 2))
        else:
            work(tensors)

    def retreat(self, buffers: Buffers, grads: Gradients, geometry: Geometry, spec: CellSpec) -> None:
        assert buffers.reset_first is None
        tensors = *_tensors(buffers), grads.states, grads.below

        def work(own: Sequence[Tensor | None]) -> None:
            *of_buffers, states, below = own
            assert states is not None
            _retreat(_buffers(of_buffers), Gradients(states, below, None), geometry, spec)

        if buffers.gates.is_cuda:
            self._recorder.run(("retreat", spec), work, tensors, written=(0, 1, 7))
        else:
            work(tensors)


def _tensors(buffers: Buffers) -> tuple[Tensor | None, ...]:
    """The buffers in a row, as a recording wants them."""
    return buffers.gates, buffers.candidate, buffers.states, buffers.below, buffers.mask, buffers.recurrent


def _buffers(tensors: Sequence[Tensor | None]) -> Buffers:
    gates, candidate, states, below, mask, recurrent = tensors
    assert gates is not None
    assert candidate is not None
    assert states is not None
    assert mask is not None
    assert recurrent is not None
    return Buffers(gates, candidate, states, below, mask, recurrent, None)


def _advance(buffers: Buffers, geometry: Geometry, spec: CellSpec) -> None:
    import triton

    from relatum.kernels.md_gru.triton_gates import forward_kernel

    gates, candidate, states, below = buffers.gates, buffers.candidate, buffers.states, buffers.below
    n_directions, n_cells, n_batch, _ = gates.shape
    width, n_sides = candidate.shape[-1], len(spec.recurrent)
    # (D, H, sides · parts · H): a state times this is its part in all gates of both cells that read it.
    weights = buffers.recurrent.unflatten(1, (n_sides, width)).permute(0, 2, 1, 3).flatten(2)
    flat_states = states.flatten(1, 2)
    space = gates.new_empty(n_directions * (geometry.n_words + 1) * n_batch * weights.shape[-1])
    constants = _constants(spec, width)
    for diagonal in geometry.diagonals:
        n_rows = (diagonal.cells.stop - diagonal.cells.start) * n_batch
        above = diagonal.up.start * n_batch
        shape = n_directions, n_rows + n_batch, weights.shape[-1]
        projected = space[: shape[0] * shape[1] * shape[2]].view(shape)
        torch.bmm(flat_states[:, above : above + shape[1]], weights, out=projected)
        forward_kernel[triton.cdiv(n_rows, _ROWS), n_directions](
            gates,
            candidate,
            states,
            below if below is not None else states,
            projected,
            buffers.mask,
            n_batch,
            n_rows,
            diagonal.cells.start * n_batch,
            diagonal.states.start * n_batch,
            above,
            n_cells * n_batch,
            geometry.n_slots * n_batch,
            **constants,
            READS_BELOW=below is not None,
        )


def _retreat(buffers: Buffers, grads: Gradients, geometry: Geometry, spec: CellSpec) -> None:
    import triton

    from relatum.kernels.md_gru.triton_gates import backward_kernel

    gates, candidate, states, below = buffers.gates, buffers.candidate, buffers.states, buffers.below
    n_directions, n_cells, n_batch, _ = gates.shape
    width, n_sides = candidate.shape[-1], len(spec.recurrent)
    weights = buffers.recurrent.mT.contiguous()
    flat_gates = gates.flatten(1, 2)
    size = n_directions * geometry.n_words * n_batch * n_sides * width
    spaces = gates.new_empty(size), gates.new_empty(size)
    constants = _constants(spec, width)
    after, n_after, state_after = spaces[0], 0, 0
    for step, diagonal in enumerate(reversed(geometry.diagonals)):
        n_rows = (diagonal.cells.stop - diagonal.cells.start) * n_batch
        cell = diagonal.cells.start * n_batch
        shape = n_directions, n_rows, n_sides * width
        through = spaces[step % 2][: shape[0] * shape[1] * shape[2]].view(shape)
        distance = diagonal.states.start * n_batch - state_after
        backward_kernel[triton.cdiv(n_rows, _ROWS), n_directions](
            gates,
            candidate,
            states,
            below if below is not None else states,
            buffers.mask,
            grads.states,
            grads.below if grads.below is not None else states,
            after,
            through,
            n_batch,
            n_rows,
            n_after,
            cell,
            diagonal.up.start * n_batch,
            distance,
            distance - n_batch,
            n_cells * n_batch,
            geometry.n_slots * n_batch,
            **constants,
            READS_BELOW=below is not None,
        )
        through.baddbmm_(flat_gates[:, cell : cell + n_rows], weights)
        after, n_after, state_after = through, n_rows, diagonal.up.start * n_batch


def _constants(spec: CellSpec, width: int) -> dict[str, Any]:
    """What the kernels are compiled for."""
    slots = {slot: number for number, slot in enumerate(spec.slots)}
    return {
        "WIDTH": width,
        "N_LAMBDAS": spec.n_lambdas,
        "BELOW": slots.get("below", -1),
        "UP": slots.get("up", -1),
        "LEFT": slots.get("left", -1),
        "READS_UP": "up" in spec.recurrent,
        "READS_LEFT": "left" in spec.recurrent,
        "ROWS": _ROWS,
        "COLUMNS": max(16, 1 << (width - 1).bit_length()),
        "num_warps": 4,
    }
