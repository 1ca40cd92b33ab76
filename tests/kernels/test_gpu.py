"""The Triton kernels on a GPU, where programs run at once and wait for each other: states and every gradient.

Run with `PYTHONPATH=src python -m pytest --noconftest -v tests/kernels/test_gpu.py`; it needs torch, Triton and pytest,
and takes minutes, most of them for compiling. What could wait forever if it were wrong runs in a process of its own.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, combinations
from pathlib import Path

import pytest
import torch
from torch import Tensor

from relatum.errors import ConfigError
from relatum.kernels.backend import select, use_backend
from relatum.kernels.md_gru import (
    CellSpec,
    Direction,
    Predecessor,
    Weights,
    gpu,
    hopper_launch,
    md_gru,
    triton,
    triton_launch,
)
from relatum.kernels.md_gru.spec import Form

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"),
]

DEVICE = "cuda"
ON_HOPPER = torch.cuda.is_available() and hopper_launch.are_for(torch.device(DEVICE))
INPUT_WIDTH = 24
N_COMPILERS = min(8, os.cpu_count() or 1)
ALL: tuple[Predecessor, ...] = ("below", "up", "left")
SUBSETS = tuple(chain.from_iterable(combinations(ALL, size) for size in range(4)))
TWO: tuple[Direction, ...] = ("nw", "se")
THREE = CellSpec()
SLACK = 1e-6
"""Added to twice the error of plain torch: gradients on their way carry a tag in their last two bits, 2⁻²² of them, and
a table of one word has so few values that plain torch may by chance have all of them right."""


def ragged(n_words: int, n_batch: int) -> tuple[int, ...]:
    """Lengths of which every third is the longest; there is an empty sentence in most batches."""
    return tuple(n_words if number % 3 == 0 else 7 * (number - 1) % (n_words + 1) for number in range(n_batch))


@dataclass(frozen=True)
class Case:
    """What the kernels are compiled for, and a batch."""

    lengths: tuple[int, ...]
    width: int
    dtype: torch.dtype = torch.float32
    tf32: bool = False
    directions: tuple[Direction, ...] = TWO
    spec: CellSpec = THREE
    with_below: bool = True

    def __str__(self) -> str:
        dtype = "tf32" if self.tf32 else str(self.dtype).removeprefix("torch.")
        return f"{max(self.lengths)}x{len(self.lengths)}-width{self.width}-{dtype}-{'+'.join(self.directions)}"

    @property
    def form(self) -> Form:
        return Form(self.spec, self.directions)


PREDECESSORS = [
    Case((7, 3, 5, 0, 7), 20, dtype, spec=CellSpec(slots, read))
    for dtype in (torch.float32, torch.bfloat16)
    for slots in SUBSETS
    for read in SUBSETS
    if set(read) <= set(slots) and {"up", "left"} & {*read}
]
HALF = Case(ragged(33, 24), 100, torch.bfloat16)
SINGLE = Case(ragged(33, 24), 100)
MANY = Case(ragged(7, 200), 100, torch.float16)
LONG = Case(ragged(130, 3), 120, torch.bfloat16)
WIDE = Case(ragged(33, 24), 200, torch.bfloat16, directions=("se",))
SHAPES = [
    HALF,
    SINGLE,
    MANY,
    LONG,
    WIDE,
    Case(ragged(40, 70), 256, torch.float16),
    Case((1,), 16),
    Case(ragged(7, 3), 50, directions=("nw", "ne", "sw", "se")),
    Case(ragged(64, 3), 64, torch.float16, directions=("ne", "sw")),
    Case((65,), 100, tf32=True, directions=("se",)),
    Case(ragged(33, 3), 50, tf32=True),
    Case(ragged(33, 200), 16),
    Case(ragged(20, 200), 100, torch.bfloat16),
    Case(ragged(19, 100), 100, torch.bfloat16),
    Case(ragged(22, 180), 100, torch.bfloat16),
    Case((130,), 128),
    Case(ragged(65, 24), 64, torch.bfloat16, with_below=False),
    Case(ragged(9, 5), 32, torch.bfloat16, with_below=False),
    Case(ragged(40, 70), 128, torch.bfloat16),
    Case(ragged(20, 200), 24, torch.bfloat16),
]


@dataclass(frozen=True)
class Layer:
    """Values that want gradients; what lies outside the sentences is noise."""

    case: Case
    inputs: Tensor
    below: Tensor | None
    mask: Tensor
    weights: Weights

    @staticmethod
    def make(case: Case) -> Layer:
        generator = torch.Generator().manual_seed(0)
        batch, n, d, width = len(case.lengths), max(case.lengths), len(case.directions), case.width
        columns, rows = case.spec.n_parts * width, len(case.spec.slots) * width

        def random(*shape: int, scale: float = 1.0) -> Tensor:
            values = scale * torch.randn(shape, generator=generator)
            return values.to(DEVICE, case.dtype).requires_grad_()

        weights = Weights(
            random(d, INPUT_WIDTH, columns, scale=INPUT_WIDTH**-0.5),
            random(d, columns),
            random(d, rows, columns, scale=width**-0.5),
            random(d, columns),
        )
        mask = torch.arange(n) < torch.tensor(case.lengths).unsqueeze(1)
        below = random(batch, n, n, d, width) if case.with_below else None
        return Layer(case, random(batch, n, n, INPUT_WIDTH), below, mask.to(DEVICE), weights)

    def to(self, dtype: torch.dtype) -> Layer:
        def moved(tensor: Tensor) -> Tensor:
            return tensor.detach().to(dtype).requires_grad_()

        below = None if self.below is None else moved(self.below)
        return replace(self, inputs=moved(self.inputs), below=below, weights=Weights(*map(moved, self.weights)))

    def states(self, backend: str = "triton") -> Tensor:
        torch.set_float32_matmul_precision("high" if self.case.tf32 else "highest")
        with use_backend(backend):
            return md_gru(self.inputs, self.below, self.mask, self.weights, self.case.directions, self.case.spec)

    def noise(self) -> Tensor:
        """The gradient of the states."""
        shape = *self.inputs.shape[:3], len(self.case.directions), self.case.width
        noise = torch.randn(shape, generator=torch.Generator().manual_seed(1))
        return noise.to(DEVICE, self.case.dtype).to(self.inputs.dtype)

    def results(self, backend: str = "triton", grad: Tensor | None = None) -> dict[str, Tensor]:
        """The states, and the gradients with respect to everything."""
        leaves = dict(zip(("inputs", "input", "input_bias", "state", "state_bias"), self._leaves(), strict=True))
        if self.below is not None:
            leaves["below"] = self.below
        states = self.states(backend)
        grads = torch.autograd.grad(
            states, list(leaves.values()), self.noise() if grad is None else grad, materialize_grads=True
        )
        return {"states": states.detach(), **dict(zip(leaves, grads, strict=True))}

    def _leaves(self) -> Iterator[Tensor]:
        yield self.inputs
        yield from self.weights


def error(found: Tensor, exact: Tensor) -> float:
    """The largest one, relative to the largest value; a number even where something is not."""
    difference = (found.double() - exact).abs().nan_to_num(torch.inf).max().item()
    return difference / max(exact.abs().max().item(), 1e-30)


def assert_right(case: Case) -> None:
    """The error is at most twice that of the plain wavefront in the same type, next to one in double precision."""
    layer = Layer.make(case)
    exact = layer.to(torch.float64).results("wavefront")
    plain, found = layer.results("wavefront"), layer.results()
    errors = {name: (error(found[name], exact[name]), error(plain[name], exact[name])) for name in exact}
    wrong = {name: both for name, both in errors.items() if not both[0] <= 2 * both[1] + SLACK}
    assert not wrong, f"errors of Triton and of plain torch: {errors}"
    outside = ~(layer.mask.unsqueeze(1) & layer.mask.unsqueeze(2))
    for name in {"states", "inputs", "below"} & found.keys():
        assert not found[name][outside].any(), f"{name} outside the tables"


def in_process(job: str, limit: float) -> None:
    """Do a job of this file in another process, which may take so many seconds."""
    done = subprocess.run([sys.executable, __file__, job], capture_output=True, text=True, timeout=limit)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("done")


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    """Several processes compile what the tests need, which takes one process several times as long."""
    commands = [[sys.executable, __file__, f"compile {number}"] for number in range(N_COMPILERS)]
    running = [subprocess.Popen(one, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for one in commands]
    try:
        for process in running:
            _, said = process.communicate(timeout=300)
            assert process.returncode == 0, said
    finally:
        for process in running:
            process.kill()


def compile_share(number: int) -> None:
    for case in [*SHAPES, *PREDECESSORS][number::N_COMPILERS]:
        Layer.make(case).results()


@pytest.mark.parametrize("case", SHAPES, ids=str)
def test_error_is_at_most_twice_that_of_plain_torch(case: Case) -> None:
    assert_right(case)


@pytest.mark.parametrize(
    "case",
    PREDECESSORS,
    ids=lambda case: "-".join((*("+".join(one) for one in (case.spec.slots, case.spec.read)), str(case.dtype)[6:])),
)
def test_every_set_of_predecessors_is_right(case: Case) -> None:
    assert_right(case)


def test_cases_divide_the_work_in_every_way() -> None:
    """In the kernels for all GPUs: whether programs wait for each other, have several tiles, and how many rows."""
    device = torch.device(DEVICE)
    cases = [case for case in SHAPES if not hopper_launch.serves(case.width, case.form, case.dtype, device)]
    plans = [
        triton_launch._plan(len(case.lengths), max(case.lengths), case.width, case.form, case.dtype, device)
        for case in cases
    ]
    assert {(plan.cooperates, plan.n_tiles > 1) for plan in plans} == {
        (together, several) for together in (False, True) for several in (False, True)
    }
    assert {plan.rows for plan in plans} == {rows for rows, _ in triton_launch._SHAPES}


@pytest.mark.skipif(not ON_HOPPER, reason="this GPU has not the kernels")
@pytest.mark.parametrize("backward", [False, True])
def test_cases_divide_the_work_in_every_way_on_a_hopper(backward: bool) -> None:
    device = torch.device(DEVICE)
    every = (*SHAPES, *PREDECESSORS)
    cases = [case for case in every if hopper_launch.serves(case.width, case.form, case.dtype, device)]
    numbers = gpu.n_processors(device), gpu.memory(device)
    plans = [
        hopper_launch.make_plan(len(case.lengths), max(case.lengths), case.width, case.form, *numbers, backward)
        for case in cases
    ]
    assert {plan.n_slices > 1 for plan in plans} == {False, True}
    assert {plan.n_tiles > 1 for plan in plans} == {False, True}
    assert {plan.n_rounds > 1 for plan in plans} == {False, True}
    assert {plan.n_lanes > 1 for plan in plans} == {False, True}
    assert len({plan.units for plan in plans}) > 1


@pytest.mark.skipif(not ON_HOPPER, reason="this GPU has no other kernels")
@pytest.mark.parametrize("case", [HALF, MANY], ids=str)
def test_kernels_fallow_fewer_layers_gpus_are_right_on_a_hopper(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hopper_launch, "serves", lambda *_: False)
    triton._find_layout.cache_clear()  # weights are in another order
    try:
        assert_right(case)
    finally:
        triton._find_layout.cache_clear()


@pytest.mark.parametrize("case", [HALF, SINGLE, MANY, LONG, WIDE], ids=str)
def test_results_are_the_same_every_time(case: Case) -> None:
    """To the last bit: a program that did not wait for another would show."""
    layer = Layer.make(case)
    expected = layer.results()
    for _ in range(20):
        found = layer.results()
        assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_sentence_alone_has_the_states_that_it_has_in_a_batch() -> None:
    layer = Layer.make(SINGLE)
    assert layer.below is not None
    number, length = next((number, length) for number, length in enumerate(SINGLE.lengths) if 1 < length < 30)
    own = slice(number, number + 1), slice(length), slice(length)
    alone = replace(layer, inputs=layer.inputs[own], below=layer.below[own], mask=layer.mask[own[:2]])
    torch.testing.assert_close(alone.states(), layer.states()[own], rtol=0, atol=1e-5)


def test_noise_in_padding_that_is_not_a_number_stays_there() -> None:
    layer = Layer.make(HALF)
    assert layer.below is not None
    expected = layer.results()
    outside = ~(layer.mask.unsqueeze(1) & layer.mask.unsqueeze(2))
    inputs, below, grad = layer.inputs.detach().clone(), layer.below.detach().clone(), layer.noise()
    inputs[outside], below[outside], grad[outside] = torch.nan, torch.nan, torch.nan
    poisoned = replace(layer, inputs=inputs.requires_grad_(), below=below.requires_grad_())
    assert torch.equal(poisoned.states(), expected["states"])
    found = layer.results(grad=grad)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_not_a_number_reaches_the_cells_after_it_and_nobody_waits_for_it() -> None:
    in_process("nan", 120)


def check_nan() -> None:
    """With all bits set, as states have them that are not written yet."""
    for case in (HALF, SINGLE):
        layer = Layer.make(case)
        assert layer.below is not None
        assert case.lengths[0] > 3
        n = max(case.lengths)
        rows, columns = torch.arange(n, device=DEVICE).unsqueeze(1), torch.arange(n, device=DEVICE)
        after = torch.stack(((rows >= 1) & (columns >= 2), (rows <= 1) & (columns <= 2)), -1)
        before = ((rows <= 1) & (columns <= 2)) | ((rows >= 1) & (columns >= 2))
        bits = torch.int32 if case.dtype == torch.float32 else torch.int16
        expected = layer.results()
        inputs, below, grad = layer.inputs.detach().clone(), layer.below.detach().clone(), layer.noise()
        for values in (inputs, below, grad):
            values.view(bits)[0, 1, 2] = -1
            assert values[0, 1, 2].isnan().all()
        for poisoned in (
            replace(layer, inputs=inputs.requires_grad_()),
            replace(layer, below=below.requires_grad_()),
        ):
            found = poisoned.results()
            bad = found["states"].isnan()
            assert torch.equal(bad[0].all(-1), after)
            assert torch.equal(bad[0].any(-1), after)
            assert not bad[1:].any()
            assert torch.equal(found["states"].where(~bad, 0), expected["states"].where(~bad, 0))
            assert found["state"].isnan().any()
        found = layer.results(grad=grad)
        bad = found["inputs"].isnan()
        assert torch.equal(bad[0].all(-1), before)
        assert torch.equal(bad[0].any(-1), before)
        assert not bad[1:].any()


def test_layers_on_two_streams_do_not_disturb_each_other() -> None:
    in_process("streams", 120)


def check_streams() -> None:
    layers = [Layer.make(HALF), Layer.make(SINGLE), Layer.make(MANY)]
    expected = [layer.results() for layer in layers]
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    found: list[tuple[int, dict[str, Tensor]]] = []
    for number in range(12):
        with torch.cuda.stream(streams[number % 2]):
            found.append((number % 3, layers[number % 3].results()))
    torch.cuda.synchronize()
    for which, results in found:
        assert all(torch.equal(results[name], expected[which][name]) for name in results)


def test_what_inference_has_cached_serves_training() -> None:
    in_process("inference", 120)


def check_inference() -> None:
    """In a process that has cached nothing."""
    layer = Layer.make(HALF)
    with torch.inference_mode():
        states = layer.states()
    first, second = layer.results(), layer.results()
    assert torch.equal(states, first["states"])
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_graph_can_be_used_twice() -> None:
    layer = Layer.make(HALF)
    total = layer.states().float().square().sum()
    first = torch.autograd.grad(total, layer.weights.state, retain_graph=True)[0]
    assert torch.equal(torch.autograd.grad(total, layer.weights.state)[0], first)


def test_autocast_gives_gradients_in_the_type_of_the_parameters() -> None:
    layer = Layer.make(HALF)
    single = layer.to(torch.float32)
    with torch.autocast(DEVICE, torch.bfloat16):
        found = single.results(grad=layer.noise())
    expected = layer.results()
    assert found["states"].dtype == torch.bfloat16
    assert torch.equal(found["states"], expected["states"])
    for name in expected.keys() - {"states"}:
        assert found[name].dtype == torch.float32
        assert torch.equal(found[name], expected[name].float())


def test_table_of_512_words_is_right_in_inference() -> None:
    layer = Layer.make(Case((512,), 100, torch.bfloat16, with_below=False))
    with torch.no_grad():
        exact = layer.to(torch.float64).states("wavefront")
        plain, found = (error(layer.states(backend), exact) for backend in ("wavefront", "triton"))
    assert found <= 2 * plain + SLACK


def test_backend_is_chosen_where_it_can_run_and_refused_where_not() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert select(DEVICE, CellSpec(), dtype) == "triton"
    assert select(DEVICE, CellSpec(), torch.float64) == "wavefront"
    assert select(DEVICE, CellSpec(reset="before"), torch.float32) == "wavefront"
    with pytest.raises(ConfigError, match="double precision"):
        Layer.make(replace(HALF, dtype=torch.float64)).states()


if __name__ == "__main__":
    job, *number = sys.argv[1].split()
    checks = {"nan": check_nan, "streams": check_streams, "inference": check_inference}
    checks.get(job, lambda: compile_share(int(number[0])))()
    torch.cuda.synchronize()
    print(f"{Path(__file__).name} {job}: done")
