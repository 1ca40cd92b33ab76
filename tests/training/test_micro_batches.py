from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from relatum.config import Config
from relatum.errors import RelatumError
from relatum.models.inputs import ModelInputs
from relatum.models.network import TableSequenceNetwork
from relatum.runtime.cuda_graphs import Recorder
from relatum.training.batches import Batches, cut_long
from relatum.training.checkpoints import list_checkpoints, read_checkpoint
from relatum.training.corpus import TrainingData
from relatum.training.folder import RunRecord
from relatum.training.graphed_step import GraphedStep
from relatum.training.loop import TrainingStopped, train
from relatum.training.micro_batches import MicroBatchStep
from relatum.training.optimisation import Optimiser
from relatum.training.processes import Processes
from relatum.training.setup import learned_parts, make_model
from relatum.training.stopping import Stopping

from .conftest import Silent
from .test_graphed_step import Pretended

CPU = torch.device("cpu")
Start = Callable[[Config], tuple[TrainingData, RunRecord]]
Tiny = Callable[..., Config]


class Limited:
    """Memory that holds so many table cells at once; it notes how many each forward pass had."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, n_cells: int, error: Callable[[], RuntimeError] = torch.OutOfMemoryError
    ) -> None:
        self.n_cells = n_cells
        self.tried: list[int] = []
        forward = TableSequenceNetwork.forward

        def limited(network: TableSequenceNetwork, inputs: ModelInputs, **named: bool) -> object:
            if network.training:
                rows, words = inputs.mask.shape
                self.tried.append(rows * words**2)
                if rows * words**2 > self.n_cells:
                    raise error()
            return forward(network, inputs, **named)

        monkeypatch.setattr(TableSequenceNetwork, "forward", limited)


class Run:
    """A tiny network, mostly in double precision, and its updates; the same each time it is made."""

    def __init__(
        self,
        start: Start,
        config: Config,
        recorder: Recorder | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        data, _ = start(config)
        torch.set_default_dtype(dtype)
        try:
            self.model, _ = make_model(data, config, CPU)
        finally:
            torch.set_default_dtype(torch.float32)
        examples, _ = cut_long(data.train, self.model.encoder, config)
        self.lengths = [len(example.sentence) for example in examples]
        self.network, self.said = self.model.network.train(), list[str]()
        self.learned, groups = learned_parts(self.model)
        self.optimiser = Optimiser(self.network.parameters(), config.training, groups)
        batches = Batches(self.model, examples)
        updates = GraphedStep(self.model, self.optimiser, config.training, self.said.append, recorder)
        self.updates = MicroBatchStep(
            self.model,
            self.optimiser,
            config.training,
            batches,
            self.lengths,
            updates,
            Processes(CPU, Stopping()),
            self.said.append,
        )

    def gradients(self) -> dict[str, Tensor]:
        return {name: one.grad for name, one in self.learned.named_parameters() if one.grad is not None}


BATCH = [4, 0, 9, 2, 7, 5, 1]


@pytest.mark.parametrize("loss", ["sum", "mean"])
@pytest.mark.parametrize("part_cells", [1, 500, 1200])
def test_gradients_of_parts_add_up_to_those_of_the_batch(
    start: Start, tiny: Tiny, monkeypatch: pytest.MonkeyPatch, loss: str, part_cells: int
) -> None:
    settings = ["model.dropout=0.0", f"training.loss={loss}", "training.clip_norm=1e9"]
    settings += ["training.entity_weight=0.7", "training.diagonal_loss=false"]
    whole = Run(start, tiny(*settings))
    parted = Run(start, tiny(*settings, f"training.part_cells={part_cells}"))
    wanted = whole.updates.update(BATCH, 1)
    memory = Limited(monkeypatch, 10**9)
    found = parted.updates.update(BATCH, 1)
    assert len(memory.tried) > 1
    assert max(memory.tried) <= max(part_cells, max(parted.lengths[index] for index in BATCH) ** 2)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=0.0)
    gradients = parted.gradients()
    assert gradients.keys() == whole.gradients().keys()
    for name, gradient in whole.gradients().items():
        torch.testing.assert_close(gradients[name], gradient, rtol=1e-9, atol=1e-12, msg=name)


@pytest.mark.parametrize("tuning", ["full", "lora"])
def test_gradients_of_a_tuned_encoder_add_up(
    start: Start, tiny: Tiny, tmp_path: Path, tiny_bert: Path, tuning: str
) -> None:
    folder = tmp_path / "bert"
    shutil.copytree(tiny_bert, folder)
    settings = json.loads((folder / "config.json").read_text())
    settings |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(settings))
    overrides = ["model.dropout=0.0", "encoder.kind=huggingface", f"encoder.name={folder}", f"encoder.tuning={tuning}"]
    overrides += ["encoder.n_layers=1", "training.clip_norm=1e9"]
    whole = Run(start, tiny(*overrides), dtype=torch.float32)
    parted = Run(start, tiny(*overrides, "training.part_cells=300"), dtype=torch.float32)
    assert len(parted.updates._divide(BATCH)) > 2
    torch.testing.assert_close(parted.updates.update(BATCH, 1), whole.updates.update(BATCH, 1), rtol=1e-5, atol=0.0)
    wanted, found = whole.gradients(), parted.gradients()
    assert wanted.keys() == found.keys()
    assert any(name.startswith("encoder.") and gradient.any() for name, gradient in wanted.items())
    for name, gradient in wanted.items():
        assert (found[name] - gradient).norm() <= 1e-4 * max(1.0, float(gradient.norm())), name


def test_parts_are_whole_where_the_batch_fits(start: Start, tiny: Tiny) -> None:
    """And then the sentences keep their order, by which the random numbers of dropout are drawn."""
    run = Run(start, tiny())
    assert run.updates._divide(BATCH) == [BATCH]
    run.updates.part_cells = len(BATCH) * max(run.lengths[index] for index in BATCH) ** 2
    assert run.updates._divide(BATCH) == [BATCH]
    run.updates.part_cells -= 1
    parts = run.updates._divide(BATCH)
    assert len(parts) == 2
    assert sorted(index for part in parts for index in part) == sorted(BATCH)


def test_memory_that_runs_out_halves_the_parts(start: Start, tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, short = Run(start, tiny("model.dropout=0.0")), Run(start, tiny("model.dropout=0.0"))
    wanted = whole.updates.update(BATCH, 1)
    n_cells = len(BATCH) * max(short.lengths[index] for index in BATCH) ** 2
    memory = Limited(monkeypatch, n_cells // 3)
    torch.testing.assert_close(short.updates.update(BATCH, 1), wanted, rtol=1e-12, atol=0.0)
    assert short.updates.part_cells is not None
    assert len(short.said) == 2
    assert f"out of memory: {n_cells:,} table cells do not fit on the device at once" in short.said[0]
    assert f"parts of at most {n_cells // 2:,} cells" in short.said[0]
    assert f"--set training.part_cells={short.updates.part_cells}" in short.said[1]
    memory.tried.clear()
    short.updates.update(BATCH, 2)
    assert max(memory.tried) <= n_cells // 3, "it fails once and not again"
    assert len(short.said) == 2


def test_sentence_that_does_not_fit_alone_is_an_error(
    start: Start, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(start, tiny())
    longest = max(run.lengths[index] for index in BATCH)
    Limited(monkeypatch, longest**2 - 1)
    with pytest.raises(
        RelatumError, match=rf"a sentence of {longest} words does not fit on the device; lower training\.max_cells"
    ):
        run.updates.update(BATCH, 1)


def test_recordings_are_given_up_before_parts_get_smaller(
    start: Start, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Pretended()
    run = Run(start, tiny("training.part_cells=1000"), recorder)
    recordings = run.updates._step._graphs
    recordings[((torch.float32, torch.Size([1])),)] = ((torch.zeros(1),), lambda: torch.zeros(2))
    forward = TableSequenceNetwork.forward

    def short(network: TableSequenceNetwork, inputs: ModelInputs) -> object:
        if recordings:
            raise torch.OutOfMemoryError
        return forward(network, inputs)

    monkeypatch.setattr(TableSequenceNetwork, "forward", short)
    run.updates.update(BATCH, 1)
    assert recorder.n_released == 1
    assert run.updates.part_cells == 1000
    (said,) = run.said
    assert "none is recorded" in said


def test_run_ends_with_the_memory_there_is_and_remembers_it(
    start: Start, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, record = start(tiny("model.dropout=0.0"))
    train(data, record, tmp_path / "whole", device=CPU, monitor=Silent())
    memory = Limited(monkeypatch, 2500)
    monitor = Silent()
    monkeypatch.setattr("relatum.training.loop._PATIENCE", -1.0)

    monitor.on_advance = lambda step: os.kill(os.getpid(), signal.SIGINT) if step == 6 else None
    with pytest.raises(TrainingStopped):
        train(data, record, tmp_path / "short", device=CPU, monitor=monitor)
    told = [said for said in monitor.said if "out of memory" in said]
    assert told
    memory.tried.clear()
    resumed = Silent()
    train(data, record, tmp_path / "short", device=CPU, monitor=resumed, resume=True)
    assert max(memory.tried) <= 2500, "a run that goes on does not fail again"
    assert not [said for said in resumed.said if "out of memory" in said]
    result = json.loads((tmp_path / "short" / "result.json").read_text())
    assert result["part_cells"] <= 2500
    assert set(told) <= set(result["messages"])
    one, two = (
        read_checkpoint(list_checkpoints(tmp_path / name / "checkpoints")[0]).record["progress"]["evaluations"]
        for name in ("whole", "short")
    )
    assert [e["loss"] for e in two] == pytest.approx([e["loss"] for e in one], rel=1e-5)


def test_parted_run_goes_on_to_the_same_weights(
    start: Start, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With dropout: parts draw other random numbers than whole batches, and the same ones after a stop."""
    Limited(monkeypatch, 2500)
    monkeypatch.setattr("relatum.training.loop._PATIENCE", -1.0)
    data, record = start(tiny())
    train(data, record, tmp_path / "whole", device=CPU, monitor=Silent())

    monitor = Silent()
    monitor.on_advance = lambda step: os.kill(os.getpid(), signal.SIGTERM) if step == 6 else None
    with pytest.raises(TrainingStopped):
        train(data, record, tmp_path / "broken", device=CPU, monitor=monitor)
    train(data, record, tmp_path / "broken", device=CPU, monitor=Silent(), resume=True)
    one, two = (read_checkpoint(list_checkpoints(tmp_path / n / "checkpoints")[0]) for n in ("whole", "broken"))
    for name, tensor in one.tensors.items():
        assert torch.equal(two.tensors[name], tensor), name


def test_memory_of_a_cpu_that_runs_out_is_noticed_and_no_other_error(
    start: Start, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RuntimeError, match="DefaultCPUAllocator") as full:
        torch.empty(2**60, dtype=torch.uint8)
    made = Run(start, tiny())
    memory = Limited(monkeypatch, 1000, lambda: RuntimeError(str(full.value)))
    made.updates.update(BATCH, 1)
    assert len(memory.tried) > 2
    assert made.updates.part_cells is not None
    assert "out of memory" in made.said[0]
    for first in (1000, 0):  # in a batch that is divided, and in one that is not
        other = Run(start, tiny(f"training.part_cells={first}") if first else tiny())
        Limited(monkeypatch, -1, lambda: RuntimeError("the shapes do not fit"))
        with pytest.raises(RuntimeError, match="the shapes do not fit"):
            other.updates.update(BATCH, 1)
