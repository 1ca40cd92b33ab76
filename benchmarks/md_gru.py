"""How long one layer of the MD-GRU takes with each backend; no time is printed unless it computes the right thing.

Rows go to a JSON file with `--out`. Times on a CPU depend on what else it does: compare them within one run only.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path

import torch
from torch import Tensor

from relatum.kernels.backend import explain, use_backend
from relatum.kernels.md_gru import CellSpec, Direction, Weights, md_gru

DIRECTIONS: tuple[Direction, ...] = ("nw", "se")
INPUT_WIDTH, WIDTH = 200, 100
"""The paper's sizes: tables of width 200, two networks of 100."""


@dataclass(frozen=True)
class Row:
    """One measurement; times are medians in milliseconds, memory is the peak on the device."""

    device: str
    backend: str
    dtype: str
    batch: int
    n: int
    layers: int
    forward_ms: float
    forward_backward_ms: float
    peak_mib: int | None


@dataclass(frozen=True)
class Case:
    """Random values for a layer that has one below it; every third sentence is shorter than the others."""

    inputs: Tensor
    below: Tensor
    mask: Tensor
    weights: Weights

    @classmethod
    def make(cls, batch: int, n: int, width: int, input_width: int, device: str, dtype: torch.dtype) -> Case:
        generator = torch.Generator().manual_seed(0)
        spec, n_directions = CellSpec(), len(DIRECTIONS)
        parts, slots = spec.n_parts * width, len(spec.slots) * width

        def random(*shape: int) -> Tensor:
            values = torch.randn(*shape, generator=generator, dtype=torch.float64) / sqrt(shape[-2])
            return values.to(device, dtype).requires_grad_()

        lengths = torch.tensor([max(1, n - n // 3) if number % 3 == 2 else n for number in range(batch)])
        weights = Weights(
            random(n_directions, input_width, parts),
            random(n_directions, parts),
            random(n_directions, slots, parts),
            random(n_directions, parts),
        )
        mask = (torch.arange(n) < lengths.unsqueeze(1)).to(device)
        return cls(random(batch, n, n, input_width), random(batch, n, n, n_directions, width), mask, weights)

    def forward(self) -> Tensor:
        return md_gru(self.inputs, self.below, self.mask, self.weights, DIRECTIONS, CellSpec())

    def both(self) -> list[Tensor]:
        """The states, and the gradients of a sum of their squares."""
        states = self.forward()
        weights = self.weights
        leaves = [self.inputs, self.below, weights.input, weights.input_bias, weights.state, weights.state_bias]
        return [states.detach(), *torch.autograd.grad(states.square().sum(), leaves)]


def is_right(backend: str, device: str) -> bool:
    """Whether states and gradients equal the reference's in double precision, often enough for it to be recorded."""
    case = Case.make(3, 7, 17, 5, device, torch.float64)
    with use_backend("reference"):
        expected = case.both()
    with use_backend(backend):
        return all(
            torch.allclose(found, wanted, rtol=1e-9, atol=1e-11)
            for _ in range(4)
            for found, wanted in zip(case.both(), expected, strict=True)
        )


def measure(work: Callable[[], object], device: str, repeats: int) -> float:
    """The median time in milliseconds, after as many calls as it takes to be compiled and recorded."""

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    times = []
    for number in range(repeats + 4):
        wait()
        start = time.perf_counter()
        work()
        wait()
        if number >= 4:
            times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    cuda = torch.cuda.is_available()
    parser.add_argument("--n", type=int, nargs="+", default=[16, 32, 64, 128] if cuda else [8, 16, 32])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 24] if cuda else [1, 4])
    parser.add_argument("--repeats", type=int, default=10 if cuda else 3)
    parser.add_argument("--out", type=Path, help="a JSON file for the rows")
    options = parser.parse_args()
    device = "cuda" if cuda else "cpu"
    torch.set_float32_matmul_precision("high" if cuda else "highest")
    backends = [one.name for one in explain(device) if one.available and one.name != "reference"]
    for backend in backends:
        if not is_right(backend, device):
            sys.exit(f"{backend}: its states or gradients differ from the reference's, so its speed means nothing")
    name = torch.cuda.get_device_name() if cuda else f"CPU, {torch.get_num_threads()} threads"
    print(f"{name}; float32, one layer, {len(DIRECTIONS)} directions of width {WIDTH}; states and gradients are right")
    print(f"{'backend':12}{'batch':>7}{'n':>6}{'forward ms':>14}{'with backward ms':>20}{'peak MiB':>11}")
    rows = []
    for n in options.n:
        for batch in options.batch:
            case = Case.make(batch, n, WIDTH, INPUT_WIDTH, device, torch.float32)
            for backend in backends:
                if cuda:
                    torch.cuda.reset_peak_memory_stats()
                with use_backend(backend):
                    with torch.no_grad():
                        forward = measure(case.forward, device, options.repeats)
                    both = measure(case.both, device, options.repeats)
                peak = torch.cuda.max_memory_allocated() >> 20 if cuda else None
                rows.append(Row(name, backend, "float32", batch, n, 1, round(forward, 3), round(both, 3), peak))
                print(f"{backend:12}{batch:7}{n:6}{forward:14.2f}{both:20.2f}{peak if cuda else '':>11}", flush=True)
    if options.out:
        record = {"what": __doc__.splitlines()[0], "rows": [asdict(row) for row in rows]}
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
