"""Recorded work: the rules on the CPU with a recording that is none, and the real one where there is a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import Tensor

from relatum.kernels import graphs
from relatum.kernels.graphs import Recorder, Work


class FakeGraph:
    """Does the work again each time it is replayed, on the tensors that it was recorded with."""

    def __init__(self, work: Work, own: Sequence[Tensor | None]) -> None:
        self.work, self.own = work, own
        self.n_replays = 0

    def replay(self) -> None:
        self.n_replays += 1
        self.work(self.own)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[FakeGraph]:
    """The recordings that were made."""
    made: list[FakeGraph] = []

    def record(work: Work, tensors: Sequence[Tensor | None]) -> graphs._Recording:
        own = tuple(None if one is None else one.clone() for one in tensors)
        made.append(FakeGraph(work, own))
        return graphs._Recording(made[-1], own)  # type: ignore[arg-type]

    monkeypatch.setattr(graphs, "_record", record)
    return made


def add(own: Sequence[Tensor | None]) -> None:
    """The second becomes itself plus the first; the third is scratch."""
    first, second, third, _ = own
    assert first is not None
    assert second is not None
    assert third is not None
    second += first
    third.fill_(7)


def run(recorder: Recorder, n: int, seed: int = 0, name: str = "add", dtype: torch.dtype = torch.float32) -> None:
    """Run the work on new tensors and check what it did to them."""
    first, second = (torch.arange(n * 2, dtype=dtype) + seed).view(2, n)
    third = torch.zeros(3)
    expected_first, expected_second = first.clone(), first + second
    recorder.run(name, add, (first, second, third, None), written=(1,))
    assert torch.equal(first, expected_first)
    assert torch.equal(second, expected_second)


def test_work_is_recorded_when_its_shape_has_come_often(recorded: list[FakeGraph]) -> None:
    recorder = Recorder(10_000)
    for seed in range(2):
        run(recorder, 4, seed)
    assert recorded == []
    for seed in range(2, 6):
        run(recorder, 4, seed)
    assert [graph.n_replays for graph in recorded] == [4]


def test_each_name_shape_and_type_has_its_own_recording(recorded: list[FakeGraph]) -> None:
    recorder = Recorder(10_000)
    for seed in range(4):
        run(recorder, 4, seed)
        run(recorder, 5, seed)
        run(recorder, 4, seed, name="sum")
        run(recorder, 4, seed, dtype=torch.float64)
    assert [graph.n_replays for graph in recorded] == [2, 2, 2, 2]


def test_what_is_only_read_or_scratch_is_not_copied_back(recorded: list[FakeGraph]) -> None:
    recorder = Recorder(10_000)
    scratch = torch.zeros(3)
    for _ in range(3):
        scratch.zero_()
        recorder.run("add", add, (torch.ones(2), torch.ones(2), scratch, None), written=(1,))
    assert len(recorded) == 1
    assert scratch.tolist() == [0, 0, 0]


def test_recordings_take_no_more_than_their_room_and_the_rest_runs_as_it_stands(recorded: list[FakeGraph]) -> None:
    """Two rows of 4 and three of scratch are 44 bytes, so that two recordings fit into 100 and three do not."""
    recorder = Recorder(100)
    for seed in range(5):
        for name in ("one", "two", "three"):
            run(recorder, 4, seed, name)
        run(recorder, 400, seed)
    assert [graph.n_replays for graph in recorded] == [3, 3]


def test_recording_that_runs_out_of_memory_is_the_last_that_is_tried(
    recorded: list[FakeGraph], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, record, n_tried = Recorder(10_000), graphs._record, 0
    for seed in range(3):
        run(recorder, 4, seed)

    def fail(work: Work, tensors: Sequence[Tensor | None]) -> graphs._Recording:
        del work, tensors
        nonlocal n_tried
        n_tried += 1
        raise torch.OutOfMemoryError

    monkeypatch.setattr(graphs, "_record", fail)
    for seed in range(5):
        run(recorder, 5, seed)
    monkeypatch.setattr(graphs, "_record", record)
    for seed in range(5):
        run(recorder, 6, seed)
        run(recorder, 4, seed)
    assert n_tried == 1
    assert [graph.n_replays for graph in recorded] == [6]


def test_threads_take_turns_with_a_recording(recorded: list[FakeGraph]) -> None:
    recorder = Recorder(10_000)
    for seed in range(3):
        run(recorder, 64, seed)
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(run, recorder, 64, seed) for seed in range(200)]:
            done.result()
    assert [graph.n_replays for graph in recorded] == [201]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device")
def test_recorded_scan_equals_the_wavefront_on_a_gpu_in_training_and_after_inference() -> None:
    from relatum.kernels.backend import use_backend
    from relatum.kernels.md_gru import CellSpec, Weights, md_gru

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, device="cuda", requires_grad=True)

    spec, width, n = CellSpec(), 17, 6
    weights = Weights(
        random(2, 5, spec.n_parts * width),
        random(2, spec.n_parts * width),
        random(2, 3 * width, spec.n_parts * width),
        random(2, spec.n_parts * width),
    )
    mask = torch.arange(n, device="cuda") < torch.tensor([[n], [3]], device="cuda")
    for _ in range(4):
        inputs, below = random(2, n, n, 5), random(2, n, n, 2, width)
        with torch.inference_mode(), use_backend("triton"):
            alone = md_gru(inputs, below, mask, weights, ("nw", "se"), spec)
        results = []
        for backend in ("triton", "wavefront"):
            with use_backend(backend):
                states = md_gru(inputs, below, mask, weights, ("nw", "se"), spec)
            results.append((states, *torch.autograd.grad(states.square().sum(), (inputs, below, weights.state))))
        torch.testing.assert_close(alone, results[0][0], rtol=0, atol=0)
        for found, expected in zip(*results, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
