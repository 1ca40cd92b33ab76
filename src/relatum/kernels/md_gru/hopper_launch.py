"""The division of a scan among the programs of a GPU of compute capability 9, and the start of its kernels."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from relatum.kernels.md_gru import gpu
from relatum.kernels.md_gru.gpu import padded_width
from relatum.kernels.md_gru.spec import CellSpec, Form

_ROWS = 64
"""Rows of tables that a program treats at once: as many as the tensor cores take."""
_UNITS = (16, 32, 64)
"""Hidden units that a program may have."""
_MIN_WIDTH, _MAX_WIDTH = 17, 128
_RELEASE = "3.6."
"""The release of Triton: the language of these kernels is experimental, and changes from release to release."""
_SPARE = 3072
"""Bytes of a program's memory that are not ours."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The division of a scan among programs, see `hopper_scan`.

    A group has lanes. A lane has as many rows as the longest table, and goes through one sentence in each round.
    """

    n_groups: int
    n_lanes: int
    n_rounds: int
    n_tiles: int
    units: int
    n_slices: int
    n_programs: int


def serves(width: int, form: Form, dtype: torch.dtype, device: torch.device) -> bool:
    """True if the kernels can compute such states on this device, forward and backward."""
    return (
        dtype in (torch.bfloat16, torch.float16)
        and _MIN_WIDTH <= width <= _MAX_WIDTH
        and are_for(device)
        and all(find_units(width, form, gpu.n_processors(device), gpu.memory(device), way) for way in (False, True))
    )


@lru_cache(maxsize=16)
def are_for(device: torch.device) -> bool:
    """True if the kernels are written for this device and for the installed Triton."""
    return (
        device.type == "cuda"
        and torch.cuda.get_device_capability(device)[0] == 9
        and importlib.util.find_spec("triton") is not None
        and version("triton").startswith(_RELEASE)
    )


@lru_cache(maxsize=64)
def find_units(width: int, form: Form, n_processors: int, memory: int, backward: bool) -> tuple[int, ...]:
    """Return the numbers of units with which a program's weights fit and a group of programs can run at once."""
    return tuple(
        units
        for units in _UNITS
        if units <= padded_width(width)
        and n_bytes(width, form.spec, units, backward) <= memory
        and -(-width // units) * len(form.directions) <= n_processors
    )


@lru_cache(maxsize=1024)
def make_plan(
    n_batch: int, n_words: int, width: int, form: Form, n_processors: int, memory: int, backward: bool
) -> Plan:
    """Return the division that takes the least time, by a rule of thumb."""
    found: dict[Plan, float] = {}
    n_words, n_directions = max(1, n_words), len(form.directions)
    for units in find_units(width, form, n_processors, memory, backward):
        n_slices = -(-width // units)
        most = n_processors // (n_slices * n_directions)
        for n_lanes in range(1, n_batch + 1):
            n_rounds = -(-n_batch // (n_lanes * most))
            n_groups = -(-n_batch // (n_lanes * n_rounds))
            n_tiles = -(-n_lanes * n_words // _ROWS)
            plan = Plan(n_groups, n_lanes, n_rounds, n_tiles, units, n_slices, n_groups * n_directions * n_slices)
            found[plan] = _microseconds(plan, n_words, backward)
            if n_rounds == 1:
                break
    return min(found, key=lambda plan: found[plan])


_FORWARD = {16: ((1.8, 5.0), (2.1, 1.4)), 32: ((2.4, 4.4), (1.9, 3.2)), 64: ((4.4, 4.9), (3.2, 4.4))}
_BACKWARD = {16: ((2.8, 4.7), (3.0, 5.4)), 32: ((2.3, 7.2), (3.4, 6.0)), 64: ((4.0, 12.0), (6.0, 12.0))}
"""Microseconds of a turn, measured on an H200 for states 100 wide; see `_microseconds`."""


def _microseconds(plan: Plan, n_words: int, backward: bool) -> float:
    """Estimate the time of a scan: its turns, which take longer the more rows of a tile are in a table.

    The time of a turn depends on the units of a program, and on its tiles. A program with one tile waits for the other
    programs at every step; a program with several tiles has asked for what it needs a turn before.
    """
    n_steps = (plan.n_rounds + 1) * n_words - 1
    filled = plan.n_lanes * n_words / (plan.n_tiles * _ROWS) * plan.n_rounds * n_words / n_steps
    empty, full = (_BACKWARD if backward else _FORWARD)[plan.units][plan.n_tiles > 1]
    return n_steps * plan.n_tiles * (empty + full * filled)


def n_bytes(width: int, spec: CellSpec, units: int, backward: bool) -> int:
    """Return the bytes a program holds: weights, and one side of a tile's product (neighbours' states or gradients)."""
    inner = len(spec.recurrent) * padded_width(width)
    return 12 * units * (inner + (_ROWS if backward else 0)) + (0 if backward else 2 * _ROWS * inner) + _SPARE


def full_width(width: int) -> int:
    """Return the number of states that are written: the width, rounded up to a multiple of eight."""
    return -(-width // 8) * 8


def order_of_units(width: int) -> list[int]:
    """Return the units in the order in which their values lie in memory.

    Four threads read four of every sixteen units each: what the threads read at once lies together. The units after
    the last whole sixteen are in order.
    """
    whole = width // 16 * 16
    return [one // 16 * 16 + one % 4 * 4 + one % 16 // 4 for one in range(whole)] + list(range(whole, width))


def start_forward(
    plan: Plan,
    projected: Tensor,
    gates: Tensor,
    states: Tensor,
    below: Tensor,
    recurrent: Tensor,
    lengths: Tensor,
    size: torch.Size,
    keep: bool,
    constants: dict[str, Any],
) -> None:
    """Start the kernel; `size` is (sentences, words), `constants` are a layer's constants, see `triton_launch`."""
    from relatum.kernels.md_gru.hopper_scan import forward_kernel

    forward_kernel[(plan.n_programs,)](
        projected,
        gates,
        states,
        states.view(torch.int32),
        below,
        recurrent,
        lengths,
        *_sizes(plan, size),
        **constants,
        **_division(plan),
        KEEP=keep,
    )


def start_backward(
    plan: Plan,
    grad: Tensor,
    gates: Tensor,
    states: Tensor,
    below: Tensor,
    recurrent: Tensor,
    lengths: Tensor,
    size: torch.Size,
    grad_projected: Tensor,
    grad_below: Tensor,
    neighbours: Tensor,
    form: Form,
    constants: dict[str, Any],
) -> None:
    """Start the kernel; `size` is (sentences, words), `constants` are a layer's constants, see `triton_launch`."""
    from relatum.kernels.md_gru.hopper_scan import backward_kernel

    n_columns = len(form.spec.recurrent) * constants["INNER"]
    n_rows = plan.n_groups * len(form.directions) * plan.n_tiles * _ROWS
    owed = torch.zeros(2 * (plan.n_slices + 1) * n_rows * n_columns, dtype=torch.float32, device=grad.device)
    backward_kernel[(plan.n_programs,)](
        grad,
        gates,
        states,
        below,
        recurrent,
        lengths,
        owed,
        grad_projected,
        grad_below,
        neighbours,
        *_sizes(plan, size),
        **constants,
        **_division(plan),
    )


def _sizes(plan: Plan, size: torch.Size) -> tuple[int, ...]:
    return *size, plan.n_groups, plan.n_lanes, plan.n_rounds, plan.n_tiles


def _division(plan: Plan) -> dict[str, Any]:
    """Return the kernels' compile-time constants and launch options that depend on how the work is divided."""
    return {
        "UNITS": plan.units,
        "ONE_TILE": plan.n_tiles == 1,
        "ROWS": _ROWS,
        "SENTENCES": max(32, 1 << (plan.n_lanes * plan.n_rounds - 1).bit_length()),
        "num_warps": 8,
        # Programs that wait for each other must all be running.
        "launch_cooperative_grid": plan.n_slices > 1,
    }
