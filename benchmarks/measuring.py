"""Layers of the MD-GRU checked and timed, one backend in turn with the others."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.cases import BASE, DIRECTIONS, Case, complaint, errors
from benchmarks.cost import Ceilings, layer_cost, milliseconds
from relatum.errors import RelatumError
from relatum.kernels.backend import select, use_backend
from relatum.kernels.md_gru import CellSpec
from relatum.training.provenance import device_name

DTYPES = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
    "tf32": torch.float32,
    "float64": torch.float64,
}
"""On a GPU, tf32 is float32 whose products are computed from 19 of the 32 bits, as in training."""
ODD = (7, 1, 5)
"""The lengths of sentences that are compared with the definition, which takes long."""
CHECKED_CELLS = {"cuda": 1 << 17, "cpu": 1 << 12}
"""How many cells are compared with double precision at most; there are fewer sentences where they have more."""
VALUES = 40
"""Values that a backend keeps for a unit of a cell in training, about; until one has been seen at work."""
SAMPLE_MS = 20.0
"""Calls in a row are timed together until they take that long."""


@dataclass(frozen=True)
class Row:
    """One measurement; times are medians, ratios are times of the plain wavefront to ours.

    On a GPU they are those of recorded calls, as training makes them; `started_…` are those of calls whose kernels are
    started one by one. `gflop` and `least_mib` count forward and backward; `fraction` and `bytes_fraction` are the
    shares of the measured ceilings that they reach, `forward_fraction` that of forward alone.
    """

    device: str
    backend: str
    dtype: str
    batch: int
    n: int
    width: int
    layers: int
    forward_ms: float
    forward_backward_ms: float
    peak_mib: int | None
    started_forward_ms: float | None
    started_forward_backward_ms: float | None
    forward_ratio: float | None
    ratio: float | None
    gflop: float
    least_mib: float
    forward_fraction: float
    fraction: float
    bytes_fraction: float
    commit: str | None


@dataclass(frozen=True)
class Setting:
    """What is measured by several backends."""

    batch: int
    width: int
    dtype: str
    n: int
    layers: int
    device: torch.device

    def __str__(self) -> str:
        return f"batch {self.batch}, n {self.n}, width {self.width}, {self.dtype}"

    @property
    def n_cells(self) -> int:
        return self.batch * self.n**2

    def case(self, lengths: Sequence[int]) -> Case:
        return Case.make(lengths, self.width, self.layers, self.device, DTYPES[self.dtype])


@dataclass
class Run:
    """The backends that are still right, what was seen of them, and what was left out."""

    backends: list[str]
    repeats: int
    deadline: float
    commit: str | None
    ceilings: dict[str, Ceilings] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    wrong: dict[tuple[str, str, int], str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    seen: dict[tuple[str, str, int], Row] = field(default_factory=dict)

    def check(self, setting: Setting, lengths: Sequence[int], base: str) -> Iterator[str]:
        """Compare all backends with `base` in double precision, and say what was found; the wrong ones are noted."""
        case = setting.case(lengths)
        dtype, times = DTYPES[setting.dtype], 3 if setting.device.type == "cuda" else 1
        truth = case.doubled().results(base)
        with products(setting):
            plain = errors(case, BASE, truth, times)
            if base != BASE:
                far = complaint(errors(case.doubled(), BASE, truth, 1), {}, torch.float64)
                if far is not None:
                    sys.exit(f"{BASE} in float64: {far}; nothing can be measured against it")
            for backend in self.fitting(setting):
                found = plain if backend == BASE else errors(case, backend, truth, times)
                wrong = complaint(found, plain, dtype)
                what = f"{backend} in {setting.dtype}, width {setting.width}, lengths up to {max(lengths)}"
                if wrong is not None:
                    self.wrong[backend, setting.dtype, setting.width] = wrong
                    yield f"{what}: WRONG, {wrong}; no time is printed"
                elif base != BASE and backend != BASE:
                    yield f"{what}: error {max(found.values()):.1e}, of {BASE} {max(plain.values()):.1e}"

    def fitting(self, setting: Setting) -> list[str]:
        """The backends that can run this, and have not been wrong."""
        return [
            backend
            for backend in self.backends
            if (backend, setting.dtype, setting.width) not in self.wrong and refusal(backend, setting) is None
        ]

    def measure(self, setting: Setting) -> list[Row]:
        """Rows of all backends, timed in turns."""
        device, fitting = setting.device, []
        for backend in self.fitting(setting):
            why = self.too_much(backend, setting)
            if why is None:
                fitting.append(backend)
            else:
                self.left_out.append(f"{backend}, {setting}: {why}")
        if not fitting:
            return []
        case = setting.case([setting.n] * setting.batch)
        works: dict[str, list[Timed]] = {}
        peaks: dict[str, int | None] = {}
        with products(setting):
            for backend in fitting:
                try:
                    with use_backend(backend):
                        works[backend] = self.works(case, device)
                        peaks[backend] = peak_mib(case.both, device)
                except torch.OutOfMemoryError:
                    self.left_out.append(f"{backend}, {setting}: it does not fit into memory")
            for number in range(self.repeats):
                if number and time.monotonic() > self.deadline:
                    break
                for backend, ways in works.items():
                    with use_backend(backend):
                        for work in ways:
                            work.sample(device)
        medians = {backend: [work.median for work in ways] for backend, ways in works.items()}
        rows = [self.row(setting, backend, medians, peaks[backend]) for backend in medians]
        for row in rows:
            self.seen[row.backend, row.dtype, row.width] = row
        self.rows += rows
        return rows

    @staticmethod
    def works(case: Case, device: torch.device) -> list[Timed]:
        """Forward, forward and backward; on a GPU first recorded, then as they are."""
        plain = [Timed.make(work, device) for work in (case.infer, case.both)]
        if device.type != "cuda":
            return plain
        replays = [record(work) for work in (case.infer, case.both)]
        return [*(Timed.make(replay, device) for replay in replays), *plain]

    def too_much(self, backend: str, setting: Setting) -> str | None:
        """Why this should not be tried, judging by what was seen of the backend: time or memory; None if nothing is."""
        before = self.seen.get((backend, setting.dtype, setting.width))
        left = self.deadline - time.monotonic()
        growth = setting.n_cells / (before.batch * before.n**2) if before else 0.0
        seconds = growth * before.forward_backward_ms / 1000 if before else 0.0
        if left <= 0:
            return "the time is over (--seconds)"
        if left < 4 * seconds:
            return f"it would take {4 * seconds:.0f} s or more, and {left:.0f} s are left (--seconds)"
        if before and before.peak_mib is not None:
            wanted = growth * before.peak_mib * 2**20
        else:
            values = setting.n_cells * setting.width * len(DIRECTIONS) * VALUES * setting.layers
            wanted = float(values * DTYPES[setting.dtype].itemsize)
        free = free_memory(setting.device)
        return f"it wants about {wanted / 2**30:.1f} GiB, {free / 2**30:.1f} are free" if wanted > free else None

    def row(self, setting: Setting, backend: str, medians: dict[str, list[float]], peak: int | None) -> Row:
        itemsize, ceilings = DTYPES[setting.dtype].itemsize, self.ceilings[setting.dtype]
        sizes = setting.n_cells, setting.width, len(DIRECTIONS), setting.layers, itemsize
        one_way, both_ways = layer_cost(*sizes, backward=False), layer_cost(*sizes, backward=True)
        forward, both, *started = medians[backend]
        plain = medians.get(BASE)
        return Row(
            device_name(setting.device),
            backend,
            setting.dtype,
            setting.batch,
            setting.n,
            setting.width,
            setting.layers,
            round(forward, 4),
            round(both, 4),
            peak,
            round(started[0], 4) if started else None,
            round(started[1], 4) if started else None,
            None if plain is None else round(plain[0] / forward, 2),
            None if plain is None else round(plain[1] / both, 2),
            round(both_ways.flop / 1e9, 3),
            round(both_ways.bytes / 2**20, 2),
            round(one_way.flop / (forward / 1000) / ceilings.flop, 4),
            round(both_ways.flop / (both / 1000) / ceilings.flop, 4),
            round(both_ways.bytes / (both / 1000) / ceilings.bytes, 4),
            self.commit,
        )


@contextmanager
def products(setting: Setting) -> Iterator[None]:
    """Within the block, float32 is multiplied as the setting says."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if setting.dtype == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def refusal(backend: str, setting: Setting) -> str | None:
    """Why a backend cannot run this; None if it can."""
    try:
        with use_backend(backend):
            select(setting.device.type, CellSpec(), DTYPES[setting.dtype])
    except RelatumError as error:
        return str(error)
    return None


@dataclass
class Timed:
    """A call, how many of it are timed together, and how long one took each time."""

    work: Callable[[], object]
    n_calls: int
    samples: list[float] = field(default_factory=list)

    @classmethod
    def make(cls, work: Callable[[], object], device: torch.device) -> Timed:
        """After calls until all is compiled and kept."""
        milliseconds(work, device, 1)
        once = milliseconds(work, device, 1)
        if once < 1000:
            once = min(once, milliseconds(work, device, 1))
        return cls(work, min(50, max(1, round(SAMPLE_MS / max(once, 1e-3)))))

    def sample(self, device: torch.device) -> None:
        self.samples.append(milliseconds(self.work, device, self.n_calls))

    @property
    def median(self) -> float:
        return statistics.median(self.samples)


def record(work: Callable[[], Tensor | tuple[Tensor, ...]]) -> Callable[[], object]:
    """A CUDA graph of a call that was made before; it must give the very states that the call gives."""
    wanted = work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = work()
    graph.replay()
    one, other = (states if isinstance(states, Tensor) else states[0] for states in (found, wanted))
    if not torch.equal(one, other):
        sys.exit("a recorded call gives other states than one that was not; its time means nothing")
    return graph.replay


def peak_mib(work: Callable[[], object], device: torch.device) -> int | None:
    """The most memory that was in use during a call, what it was given included; unknown on a CPU."""
    if device.type != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() >> 20


def free_memory(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.empty_cache()
        return float(torch.cuda.mem_get_info()[0])
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return float("inf")
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable")), float("inf"))
