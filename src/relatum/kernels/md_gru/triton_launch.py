"""The division of a scan among the programs of a GPU, and the start of its kernels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from relatum.kernels.md_gru import gpu
from relatum.kernels.md_gru import hopper_launch as hopper
from relatum.kernels.md_gru.gpu import padded_width
from relatum.kernels.md_gru.spec import CellSpec, Form

VALUES = 8
"""Values of a unit in a cell: r, z, three λ, v, u, and nothing."""
_SHAPES = ((64, (16, 32, 64, 128)), (32, (16,)))
"""Rows of tables that a program treats at once, and the hidden units that it may have then.

The first shape is what tensor cores like best; the second leaves room for the weights of states over 128 wide, in half
precision. In float32 these do not fit, and with still fewer rows and units the kernels spill what they should hold.
"""
_SPLIT_SHAPES = (_SHAPES[0], (32, (8,)))
"""The shapes for split products, which hold both sides twice; the second is for states of 65 to 128 values."""
_N_WARPS = 8
"""The warps of a program. Rows times units must be at least the program's threads: else several threads would ask for
the same number while it is being written, and might see it come at different times."""
_FILLED = 4096
"""The number of 64-bit integers that a program fills."""
_CLEARED = 16
"""The number of cells that a program looks at, to clear the ones outside the tables."""
_SPARE = 2048
"""Bytes of a program's memory that are not ours."""


def scan_forward(
    projected: Tensor, cells: Tensor, recurrent: Tensor, mask: Tensor, below: int, form: Form, keep: bool
) -> tuple[Tensor, Tensor]:
    """Return the states, zero outside the tables, and the open gates, undefined there (no cells without `keep`).

    `projected` is (cells + 1, D, H · VALUES), and so are the gates; the states are (cells + 1, D, H), not contiguous.
    The states below begin in the column `below` of `cells`, or are zero for −1.
    """
    from relatum.kernels.md_gru.triton_scan import forward_kernel

    width = recurrent.shape[2] // VALUES
    gates = torch.empty_like(projected) if keep else projected.new_empty(0, *projected.shape[1:])
    device = projected.device
    if hopper.serves(width, form, projected.dtype, device):
        own = hopper.make_plan(*mask.shape, width, form, gpu.n_processors(device), gpu.memory(device), False)
        states, lengths = _unwritten(projected, mask, width, hopper.full_width(width), True)
        hopper.start_forward(
            own,
            projected,
            gates if keep else projected,
            states,
            cells[:, max(below, 0) :],
            recurrent,
            lengths,
            mask.shape,
            keep,
            _layer_constants(form, below, cells, width),
        )
        return states[..., :width], gates
    plan = _plan(*mask.shape, width, form, projected.dtype, device, _is_exact(cells))
    states, lengths = _unwritten(projected, mask, width, width, plan.cooperates)
    forward_kernel[(plan.n_programs,)](
        projected,
        gates if keep else projected,
        states,
        cells[:, max(below, 0) :],
        recurrent,
        lengths,
        *mask.shape,
        plan.n_groups,
        plan.per_group,
        plan.n_tiles,
        **_constants(plan, form, below, cells, width),
        KEEP=keep,
        FAST=cells.is_cuda and cells.dtype.itemsize == 2,
    )
    return states[..., :width], gates


def scan_back(
    grad: Tensor,
    gates: Tensor,
    states: Tensor,
    cells: Tensor,
    recurrent: Tensor,
    mask: Tensor,
    below: int,
    form: Form,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the projections' gradients, the cells' gradients by way of λ, and the states of the neighbours."""
    from relatum.kernels.md_gru.triton_scan import backward_kernel

    width, n_sides = states.shape[2], len(form.spec.recurrent)
    n_cells = len(cells)
    grad_projected, grad_cells = torch.empty_like(gates[:n_cells]), torch.zeros_like(cells)
    neighbours = grad.new_empty(n_cells, len(form.directions), n_sides * width)
    for values in (grad_projected, neighbours):
        _clear(values, mask)
    device = states.device
    if hopper.serves(width, form, states.dtype, device):
        hopper.start_backward(
            hopper.make_plan(*mask.shape, width, form, gpu.n_processors(device), gpu.memory(device), True),
            grad,
            gates,
            states,
            cells[:, max(below, 0) :],
            recurrent,
            mask.sum(1, dtype=torch.int32),
            mask.shape,
            grad_projected,
            grad_cells[:, max(below, 0) :],
            neighbours,
            form,
            _layer_constants(form, below, cells, width),
        )
        return grad_projected, grad_cells, neighbours
    plan = _plan(*mask.shape, width, form, states.dtype, device, _is_exact(cells))
    total = torch.promote_types(states.dtype, torch.float32)
    size = plan.n_groups * len(form.directions) * 2 * plan.n_tiles * plan.rows * n_sides
    owed = torch.zeros(size * plan.n_slices * padded_width(width), dtype=total, device=states.device)
    direct = torch.empty(size * width, dtype=total, device=states.device)
    backward_kernel[(plan.n_programs,)](
        grad,
        gates,
        states,
        cells[:, max(below, 0) :],
        recurrent,
        mask.sum(1, dtype=torch.int32),
        owed,
        direct,
        grad_projected,
        grad_cells[:, max(below, 0) :],
        neighbours,
        *mask.shape,
        plan.n_groups,
        plan.per_group,
        plan.n_tiles,
        **_constants(plan, form, below, cells, width),
    )
    return grad_projected, grad_cells, neighbours


def _unwritten(projected: Tensor, mask: Tensor, width: int, n_written: int, cooperates: bool) -> tuple[Tensor, Tensor]:
    """Return states for the kernels to fill, (cells + 1, D, H padded to a power of two), and the sentences' lengths.

    If programs wait for each other, all bits of what is to be written are set. The rest is zero, as is the last cell.
    """
    from relatum.kernels.md_gru.triton_scan import fill_kernel

    n_cells, n_directions = projected.shape[:2]
    states = projected.new_empty(n_cells, n_directions, padded_width(width))
    unwritten = _all_bits(n_written if cooperates else 0, n_directions, states.shape[2], states.dtype, states.device)
    lengths = torch.empty(len(mask), dtype=torch.int32, device=mask.device)
    per_program = max(1, _FILLED // len(unwritten))
    fill_kernel[(max(-(-n_cells // per_program), len(mask)),)](
        states.view(torch.int64),
        unwritten,
        mask.contiguous().view(torch.uint8),
        lengths,
        *mask.shape,
        WORDS=len(unwritten),
        CELLS=per_program,
    )
    return states, lengths


def _clear(values: Tensor, mask: Tensor) -> None:
    """Set the values of all cells outside the tables to zero; the kernels write the values of all other cells."""
    from relatum.kernels.md_gru.triton_scan import clear_kernel

    n_bytes = values.shape[1:].numel() * values.dtype.itemsize
    words = values.flatten(1).view(torch.int16 if n_bytes % 4 else torch.int32)
    clear_kernel[(max(1, -(-len(words) // _CLEARED)),)](
        words, mask.contiguous().view(torch.uint8), *mask.shape, WORDS=words.shape[1], CELLS=_CLEARED, BLOCK=128
    )


@lru_cache(maxsize=64)
def _all_bits(n_set: int, n_directions: int, n_states: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the states of a cell, in each direction with every bit of the first `n_set` set and the others zero.

    They are returned as 64-bit integers: these are fewer than the states, and so are filled faster.
    """
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    with torch.inference_mode(False):  # it may serve training later
        one = (-(torch.arange(n_states, device=device) < n_set).to(whole)).view(torch.int64)
        return one.repeat(n_directions)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The division of a scan among programs, see `triton_scan`."""

    n_groups: int
    per_group: int
    n_tiles: int
    rows: int
    units: int
    n_slices: int
    n_programs: int
    resident: bool
    split: bool = False
    """True if a product in float32 is made of three in TF32, of the upper and the lower bits, which is exact enough."""

    @property
    def cooperates(self) -> bool:
        return self.resident and self.n_slices > 1


@lru_cache(maxsize=1024)
def _plan(
    n_batch: int, n_words: int, width: int, form: Form, dtype: torch.dtype, device: torch.device, exact: bool = True
) -> _Plan:
    size = n_batch, n_words, width, form, dtype, device
    can_split = exact and dtype == torch.float32 and device.type == "cuda"
    ways = [(*shape, True) for shape in _SPLIT_SHAPES] if can_split else []
    for rows, choice, split in [*ways, *((*shape, False) for shape in _SHAPES)]:
        kept = [plan for units in choice if (plan := _divide(*size, rows, units, split)) is not None]
        if kept:  # a tile of twice as many units takes about half as long again
            return min(kept, key=lambda plan: plan.n_tiles * (plan.units + 16))
    return _alone(*size)


def _divide(
    n_batch: int,
    n_words: int,
    width: int,
    form: Form,
    dtype: torch.dtype,
    device: torch.device,
    rows: int,
    units: int,
    split: bool,
) -> _Plan | None:
    """Return a plan of programs that keep their weights; None if these do not fit, or too few could run at once."""
    n_slices, n_directions = -(-width // units), len(form.directions)
    n_groups = gpu.n_processors(device) // (n_slices * n_directions)
    # Programs that wait for each other must all be running, which an interpreter does not do.
    alone = n_slices > 1 and device.type != "cuda"
    fits = _n_bytes(width, form.spec, dtype, rows, units, split) <= gpu.memory(device) - _SPARE
    if units > padded_width(width) or not fits or not n_groups or alone:
        return None
    wanted = -(-n_batch // max(1, rows // max(1, n_words)))
    per_group = -(-n_batch // min(wanted, n_groups))
    n_groups = -(-n_batch // per_group)
    n_tiles = -(-per_group * max(1, n_words) // rows)
    return _Plan(n_groups, per_group, n_tiles, rows, units, n_slices, n_groups * n_directions * n_slices, True, split)


def _alone(n_batch: int, n_words: int, width: int, form: Form, dtype: torch.dtype, device: torch.device) -> _Plan:
    """Return a plan with a program for each sentence and direction, which reads the weights at every step."""
    rows, units = _find_shape(width, form.spec, dtype, device) or (_SHAPES[-1][0], _SHAPES[-1][1][0])
    n_tiles = -(-max(1, n_words) // rows)
    return _Plan(n_batch, 1, n_tiles, rows, units, -(-width // units), n_batch * len(form.directions), False)


def fits(width: int, spec: CellSpec, dtype: torch.dtype, device: torch.device) -> bool:
    """True if a program's memory holds what it must, with the fewest rows and hidden units that there may be."""
    return device.type != "cuda" or _find_shape(width, spec, dtype, device) is not None


def _find_shape(width: int, spec: CellSpec, dtype: torch.dtype, device: torch.device) -> tuple[int, int] | None:
    """Return the first rows, and the fewest units for them, that a program's memory holds; None if there are none."""
    for rows, (units, *_) in _SHAPES:
        if _n_bytes(width, spec, dtype, rows, units) <= gpu.memory(device) - _SPARE:
            return rows, units
    return None


def _n_bytes(width: int, spec: CellSpec, dtype: torch.dtype, rows: int, units: int, split: bool = False) -> int:
    """Return the bytes a program holds: its weights, and what the rows of a tile owe their neighbours, on its way out.

    Split products hold both sides twice.
    """
    n_inner, n_values = len(spec.recurrent) * padded_width(width), VALUES * units
    if split:
        return 8 * (n_inner * n_values + rows * max(n_inner, n_values))
    return n_inner * n_values * dtype.itemsize + rows * n_inner * 4


def _constants(plan: _Plan, form: Form, below: int, cells: Tensor, width: int) -> dict[str, Any]:
    """Return the kernels' compile-time constants and launch options."""
    import triton.language as tl

    constants = {
        **_layer_constants(form, below, cells, width),
        "ROWS": plan.rows,
        "UNITS": plan.units,
        "SENTENCES": padded_width(plan.per_group),
        "RESIDENT": plan.resident,
        "COOPERATE": plan.cooperates,
        "ONE_TILE": plan.n_tiles == 1,
        "TOTAL": tl.float64 if cells.dtype == torch.float64 else tl.float32,
        "PRECISION": "tf32x3" if plan.split else ("ieee" if _is_exact(cells) else "tf32"),
        "num_warps": _N_WARPS,
        "num_stages": 1,
    }
    return {**constants, "launch_cooperative_grid": True} if plan.cooperates else constants


def _is_exact(cells: Tensor) -> bool:
    return not cells.is_cuda or not torch.backends.cuda.matmul.allow_tf32


def _layer_constants(form: Form, below: int, cells: Tensor, width: int) -> dict[str, Any]:
    """Return the kernels' compile-time constants that do not depend on how the work is divided."""
    spec = form.spec
    slots = {slot: number for number, slot in enumerate(spec.slots)}
    return {
        "WIDTH": width,
        "OF_CELL": cells.shape[1],
        "N_DIRECTIONS": len(form.directions),
        "SOUTH": sum((one[0] == "s") << number for number, one in enumerate(form.directions)),
        "EAST": sum((one[1] == "e") << number for number, one in enumerate(form.directions)),
        "N_LAMBDAS": spec.n_lambdas,
        "BELOW": slots.get("below", -1),
        "UP": slots.get("up", -1),
        "LEFT": slots.get("left", -1),
        "READS_BELOW": below >= 0,
        "READS_UP": "up" in spec.recurrent,
        "READS_LEFT": "left" in spec.recurrent,
        "INNER": padded_width(width),
    }
