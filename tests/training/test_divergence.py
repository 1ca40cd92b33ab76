from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest
import torch

from relatum.config import Config, TrainingConfig
from relatum.data.formats import jsonl
from relatum.data.problems import Problems
from relatum.errors import RelatumError
from relatum.training.bad_batch import UpdateRecord, describe
from relatum.training.corpus import TrainingData
from relatum.training.divergence import BLOCK, LossWatch
from relatum.training.folder import RunRecord
from relatum.training.loop import train
from relatum.training.micro_batches import MicroBatchStep

from .conftest import Silent

CPU = torch.device("cpu")
Start = Callable[[Config], tuple[TrainingData, RunRecord]]
Tiny = Callable[..., Config]


def first_problem(losses: list[float], factor: float = 100.0) -> int | None:
    """The number of the update, from 1, at which something is wrong."""
    watch = LossWatch()
    return next((n for n, loss in enumerate(losses, 1) if watch.check(loss, 1.0, factor)), None)


def test_loss_that_explodes_is_noticed_within_two_blocks() -> None:
    healthy = [1000.0 * 0.99**step for step in range(8 * BLOCK)]
    assert first_problem(healthy) is None
    found = first_problem([*healthy, *([1e5] * 3 * BLOCK)])
    assert found is not None
    assert 8 * BLOCK < found <= 10 * BLOCK


def test_restless_losses_are_not_an_explosion() -> None:
    """Batches of all sizes, then a network that has learned all but one sentence in a thousand."""
    random = Random(0)
    losses = [5000.0 * 0.995**step * random.lognormvariate(0, 1.5) + 1e-4 for step in range(4000)]
    losses += [1e-4 * random.lognormvariate(0, 2) + (300.0 if random.random() < 0.001 else 0.0) for _ in range(4000)]
    assert first_problem(losses) is None


def test_loss_that_rises_from_the_start_is_noticed() -> None:
    assert first_problem([10.0 * 1.02**step for step in range(1000)]) is not None
    assert first_problem([10.0 * 1.02**step for step in range(1000)], factor=1e300) is None


@pytest.mark.parametrize(("loss", "norm"), [(math.nan, 1.0), (math.inf, 1.0), (1.0, math.nan)])
def test_number_that_is_none_is_noticed_at_once(loss: float, norm: float) -> None:
    assert LossWatch().check(loss, norm, 100.0) == f"the loss is {loss} and the norm of its gradients {norm}"


def test_watch_goes_on_from_what_json_holds() -> None:
    losses = [1.0] * 70 + [1e4] * 90
    whole, first = LossWatch(), LossWatch()
    found = [whole.check(loss, 1.0, 100.0) for loss in losses]
    again = [first.check(loss, 1.0, 100.0) for loss in losses[:120]]
    second = LossWatch(**json.loads(json.dumps(asdict(first))))
    assert again + [second.check(loss, 1.0, 100.0) for loss in losses[120:]] == found
    assert sum(problem is not None for problem in found) == 2
    assert "the loss has exploded: 6e+03 in the mean of the last 50 updates, after 1 in the best" in str(found[99])


def test_cures_are_those_that_may_help() -> None:
    config = TrainingConfig(warmup_steps=100, precision="bf16")
    early = describe(Path("bad"), [], UpdateRecord(150, 1.0, 1.0, 5e-4), "x", config)
    assert "lower training.learning_rate (it was 0.0005 at this step)" in early
    assert "training.warmup_steps is 100" in early
    assert "training.clip_norm is 5" in early
    assert 'training.precision = "fp32"' in early
    late = describe(Path("bad"), [], UpdateRecord(900, 1.0, 1.0, 5e-4), "x", TrainingConfig(warmup_steps=100))
    assert "warmup" not in late
    assert "precision" not in late


def test_batch_of_a_loss_that_is_not_a_number_is_saved(start: Start, tiny: Tiny, tmp_path: Path) -> None:
    config = tiny("training.learning_rate=1e30", "training.warmup_steps=0", "training.evaluate_every=12")
    data, record = start(config)
    with pytest.raises(RelatumError, match=r"lower training\.learning_rate .*bad-batch") as caught:
        train(data, record, tmp_path / "run", device=CPU, monitor=Silent())
    folder = tmp_path / "run" / "bad-batch"
    update = json.loads((folder / "update.json").read_text())
    assert str(caught.value).startswith(f"step {update['step']}: {update['problem']}")
    assert update["loss"] in ("nan", "inf") or update["gradient_norm"] in ("nan", "inf")
    assert update["learning_rate"] == 1e30
    lines = [json.loads(line) for line in (folder / "sentences.jsonl").read_text().splitlines()]
    named = str(caught.value).rpartition("The batch had the sentences ")[2].split(", ")
    assert [line["id"] for line in lines] == named
    known = {example.id: example for example in data.train}
    for line in lines:
        assert tuple(line["words"]) == known[line["id"]].sentence.words
        assert len(line["entities"]) == len(known[line["id"]].gold.entities)
    problems = Problems()
    assert len(list(jsonl.read(folder / "sentences.jsonl", problems))) == len(lines)
    problems.raise_if_any()


def test_exploded_loss_stops_the_run(start: Start, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def update(self: MicroBatchStep, batch: list[int], step: int) -> torch.Tensor:
        del self, batch
        return torch.tensor([10.0 if step <= 2 * BLOCK else 1e6, 1.0])

    monkeypatch.setattr(MicroBatchStep, "update", update)
    data, record = start(tiny("training.steps=500", "training.evaluate_every=500"))
    with pytest.raises(RelatumError, match=rf"step {3 * BLOCK}: the loss has exploded"):
        train(data, record, tmp_path / "run", device=CPU, monitor=Silent())
    assert json.loads((tmp_path / "run" / "bad-batch" / "update.json").read_text())["loss"] == 1e6
