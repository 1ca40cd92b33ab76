"""What a layer of the MD-GRU costs at least, and what the machine can do at most."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch


@dataclass(frozen=True)
class Cost:
    """Operations of the matrix products (a multiplication and an addition are two), and bytes moved, at least."""

    flop: float
    bytes: float


def layer_cost(n_cells: int, width: int, n_directions: int, n_layers: int, itemsize: int, backward: bool) -> Cost:
    """The cost of some layers, forward or both ways.

    Six parts (r, z, three λ and half a candidate) are projected from the input, which is as wide as all directions
    together, from the states below and from two neighbours. Backward, each product becomes two: one for the gradient of
    what was read, one for that of the weights.
    Bytes are those that must be read or written even if all else stayed in registers: input, states below, states and
    weights; then the same again with the gradients of each.
    """
    parts, input_width, all_states = 6 * width, n_directions * width, n_directions * width
    weights = n_directions * (input_width + 3 * width + 2) * parts
    flop = 2.0 * n_cells * n_directions * parts * (input_width + width + 2 * width)
    values = n_cells * (input_width + 2 * all_states) + weights
    if backward:
        flop *= 3
        read = n_cells * (input_width + 3 * all_states) + weights
        written = n_cells * (input_width + all_states) + weights
        values += read + written
    return Cost(n_layers * flop, n_layers * float(values * itemsize))


@dataclass(frozen=True)
class Ceilings:
    """What this machine reaches with a large matrix product, and with a large copy, in a second."""

    flop: float
    bytes: float

    @classmethod
    def measure(cls, device: torch.device, dtype: torch.dtype) -> Ceilings:
        cuda = device.type == "cuda"
        values = torch.zeros((1 << 30 if cuda else 1 << 27) // dtype.itemsize, device=device, dtype=dtype)
        copy = torch.empty_like(values)
        n_bytes = 2.0 * values.nbytes / least_seconds(lambda: copy.copy_(values), device)
        flop = 0.0
        for n in (2048, 4096, 8192) if cuda else (256, 512, 1024):
            left, right = (torch.randn(n, n, device=device, dtype=dtype) for _ in range(2))
            seconds = least_seconds(partial(torch.mm, left, right, out=torch.empty_like(left)), device)
            flop = max(flop, 2.0 * n**3 / seconds)
            if seconds > 0.1:  # types that a CPU has no instructions for
                break
        return cls(flop, n_bytes)


def least_seconds(work: Callable[[], object], device: torch.device) -> float:
    """The shortest of several times: a ceiling is what a machine does when nothing disturbs it."""
    first = milliseconds(work, device, 1) / 1000
    calls = min(20, max(1, round(0.02 / max(first, 1e-9))))
    return min(first, *(milliseconds(work, device, calls) / 1000 for _ in range(3 if first > 0.5 else 8)))


def milliseconds(work: Callable[[], object], device: torch.device, calls: int) -> float:
    """Of one call among so many in a row; on a GPU by its own clock."""
    if device.type == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        for _ in range(calls):
            work()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / calls
    begun = time.perf_counter()
    for _ in range(calls):
        work()
    return 1000 * (time.perf_counter() - begun) / calls
