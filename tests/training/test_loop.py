from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from relatum.config import Config, load_config
from relatum.errors import RelatumError
from relatum.evaluation.metrics import Scores
from relatum.models.checkpoint import load_model
from relatum.models.model import Model
from relatum.monitor import Monitor
from relatum.training import loop
from relatum.training.checkpoints import list_checkpoints, read_checkpoint
from relatum.training.corpus import TrainingData, load_training_data
from relatum.training.folder import RunFolder, RunRecord
from relatum.training.loop import TrainingStopped, score, train
from relatum.training.micro_batches import MicroBatchStep
from relatum.training.run import Run
from relatum.types import Annotation

from .conftest import TINY, Silent

CPU = torch.device("cpu")
Start = Callable[[Config], tuple[TrainingData, RunRecord]]
Tiny = Callable[..., Config]


def final_state(run: Path) -> dict[str, torch.Tensor]:
    return dict(read_checkpoint(list_checkpoints(run / "checkpoints")[0]).tensors)


def assert_same_run(one: Path, two: Path) -> None:
    """Bit-equal weights, optimiser, random numbers, best model and history."""
    first, second = final_state(one), final_state(two)
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name
    assert (one / "model" / "model.safetensors").read_bytes() == (two / "model" / "model.safetensors").read_bytes()
    histories = [json.loads((run / "result.json").read_text())["history"] for run in (one, two)]
    logs = [[json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()] for run in (one, two)]
    assert histories == logs
    for history in histories:
        for evaluation in history:
            del evaluation["seconds"]
    assert histories[0] == histories[1]


def run_once(start: Start, config: Config, path: Path, monitor: Monitor | None = None) -> Run:
    data, record = start(config)
    return train(data, record, path, device=CPU, monitor=monitor or Silent())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, small_corpus: Path) -> Path:
    """A run that nobody interrupted."""
    path = tmp_path_factory.mktemp("whole") / "run"
    data = load_training_data(small_corpus, load_config(None, TINY))
    record = RunRecord(load_config(None, TINY), str(small_corpus), None, None, "cpu", "", data.fingerprint())
    train(data, record, path, device=CPU, monitor=Silent())
    return path


def test_run_leaves_a_model_a_log_and_a_result(start: Start, tiny: Tiny, tmp_path: Path, silent: Silent) -> None:
    result = run_once(start, tiny(), tmp_path / "run", silent)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        ".lock",
        "checkpoints",
        "curves.png",
        "log.jsonl",
        "model",
        "predictions",
        "report.html",
        "result.json",
        "run.json",
        "summary.txt",
    }
    record = json.loads((tmp_path / "run" / "result.json").read_text())
    assert record == json.loads(json.dumps(result.result.to_dict()))
    assert [evaluation["step"] for evaluation in record["history"]] == [4, 8, 12]
    assert [evaluation.step for evaluation, _ in silent.evaluations] == [4, 8, 12]
    best = max(record["history"], key=lambda one: (one["score"], 0 if one["score"] else one["step"]))
    assert record["best"] == {"step": best["step"], "score": best["score"]}
    assert result.dev is not None
    assert record["dev"] == best["dev"] == result.dev.to_dict()
    assert result.test is not None
    assert record["test"] == result.test.to_dict()
    assert record["config"] == tiny().to_dict()
    assert record["seed"] == 0
    assert record["data"]["parts"]["train"]["sentences"] > 16
    assert record["versions"]["torch"] == torch.__version__
    card = (tmp_path / "run" / "model" / "README.md").read_text()
    assert f"| test | entities | {100 * result.test.entities.micro.precision:.2f}" in card
    assert "relatum train …" in card
    assert "training.steps = 12" in card


def test_saved_model_is_the_one_that_was_scored(start: Start, tiny: Tiny, tmp_path: Path) -> None:
    result = run_once(start, tiny("training.save_dtype=float16"), tmp_path / "run")
    data, _ = start(tiny())
    assert score(load_model(result.model), data.dev) == result.dev


def test_dev_is_scored_with_the_moving_average_that_is_saved(
    start: Start, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights that dev chooses by are those of the model that is kept, not the last ones of the training."""
    scored: list[dict[str, torch.Tensor]] = []

    def remember(model: Model, *others: Any) -> Scores:
        scored.append({name: value.detach().clone() for name, value in model.network.state_dict().items()})
        return score(model, *others)

    monkeypatch.setattr(loop, "score", remember)
    run = tmp_path / "run"
    run_once(start, tiny("training.ema_decay=0.9", "training.steps=4"), run)
    in_training, *saved = scored
    assert len(saved) == 2, "the model on disk, on dev and on test"
    for kept in saved:
        assert all(torch.equal(value, kept[name]) for name, value in in_training.items())
    last = final_state(run)["network/entity_scorer.weight"]
    assert not torch.equal(in_training["entity_scorer.weight"], last), "the average is not the last weights"


def test_same_seed_gives_the_same_weights_and_another_gives_others(
    start: Start, tiny: Tiny, tmp_path: Path, whole: Path
) -> None:
    for name, seed in (("same", 0), ("other", 1)):
        torch.manual_seed(77)  # whatever was drawn before must not matter
        run_once(start, tiny(f"training.seed={seed}"), tmp_path / name)
    assert_same_run(whole, tmp_path / "same")
    one, other = final_state(whole), final_state(tmp_path / "other")
    assert not torch.equal(one["network/entity_scorer.weight"], other["network/entity_scorer.weight"])


class Losses(Silent):
    """A monitor that remembers the losses it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.losses: list[float] = []

    def advance(self, step: int, loss: float) -> None:
        super().advance(step, loss)
        self.losses.append(loss)


@pytest.mark.parametrize("kind", ["sum", "mean"])
def test_loss_that_is_shown_is_a_smoothed_mean_per_word(
    start: Start, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(loop, "_PATIENCE", -1.0)  # losses are read after every update
    update, seen = MicroBatchStep.update, list[tuple[int, float]]()

    def noted(self: MicroBatchStep, batch: list[int], step: int) -> torch.Tensor:
        result = update(self, batch, step)
        n_words = sum(self._lengths[index] for index in batch)
        seen.append((n_words, result[0].item() * (1 if kind == "sum" else n_words)))
        return result

    monkeypatch.setattr(MicroBatchStep, "update", noted)
    monitor = Losses()
    run_once(start, tiny(f"training.loss={kind}"), tmp_path / "run", monitor)
    for number, shown in enumerate(monitor.losses, 1):
        weights = [0.98 ** (number - place) for place in range(1, number + 1)]
        total = sum(weight * loss for weight, (_, loss) in zip(weights, seen, strict=False))
        n_words = sum(weight * words for weight, (words, _) in zip(weights, seen, strict=False))
        assert shown == pytest.approx(total / n_words)
    assert len(monitor.losses) == 12
    for (evaluation, _), begin in zip(monitor.evaluations, (0, 4, 8), strict=True):
        words, losses = zip(*seen[begin : begin + 4], strict=True)
        assert evaluation.loss == pytest.approx(sum(losses) / sum(words))


@pytest.mark.parametrize(("number", "stop_at"), [(signal.SIGINT, 2), (signal.SIGTERM, 8)])
def test_stopped_run_goes_on_to_the_same_weights(
    start: Start,
    tiny: Tiny,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    whole: Path,
    number: signal.Signals,
    stop_at: int,
) -> None:
    monkeypatch.setattr(loop, "_PATIENCE", -1.0)  # losses are read after every update
    data, record = start(tiny())
    monitor = Silent()
    monitor.on_advance = lambda step: os.kill(os.getpid(), number) if step == stop_at else None
    with pytest.raises(TrainingStopped, match=rf"stopped after step {stop_at}; .*relatum train --resume \S+broken"):
        train(data, record, tmp_path / "broken", device=CPU, monitor=monitor)
    assert not (tmp_path / "broken" / "result.json").exists()
    torch.manual_seed(99)
    resumed = Silent()
    train(data, record, tmp_path / "broken", device=CPU, monitor=resumed, resume=True)
    assert resumed.steps[0] == stop_at
    assert f"going on after step {stop_at}" in resumed.said
    assert_same_run(whole, tmp_path / "broken")


def test_stopped_run_in_half_precision_goes_on_to_the_same_weights(
    start: Start, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path
) -> None:
    monkeypatch.setattr(loop, "_PATIENCE", -1.0)
    data, record = start(tiny("training.precision=bf16", "training.steps=8"))
    train(data, record, tmp_path / "half", device=CPU, monitor=Silent())
    monitor = Silent()
    monitor.on_advance = lambda step: os.kill(os.getpid(), signal.SIGINT) if step == 6 else None
    with pytest.raises(TrainingStopped):
        train(data, record, tmp_path / "broken", device=CPU, monitor=monitor)
    train(data, record, tmp_path / "broken", device=CPU, monitor=Silent(), resume=True)
    assert_same_run(tmp_path / "half", tmp_path / "broken")
    tensors = read_checkpoint(list_checkpoints(tmp_path / "half" / "checkpoints")[0]).tensors
    assert all(tensor.dtype == torch.float32 for name, tensor in tensors.items() if not name.startswith("random/"))
    half, full = (json.loads((run / "log.jsonl").read_text().splitlines()[0]) for run in (tmp_path / "half", whole))
    assert half["loss"] != full["loss"], "the precision makes no difference"
    assert half["loss"] == pytest.approx(full["loss"], rel=0.01)


KILLED = """
import sys, torch
from pathlib import Path
torch.set_num_threads(1)
from relatum.training.corpus import load_training_data
from relatum.training.folder import RunFolder
from relatum.training.loop import train
from relatum.cli.monitor import TerminalMonitor
run = Path(sys.argv[1])
record = RunFolder(run).read()
data = load_training_data(Path(record.data), record.config)
train(data, record, run, device=torch.device("cpu"), monitor=TerminalMonitor(), resume=True)
"""


def test_killed_run_goes_on_to_the_same_weights(start: Start, tiny: Tiny, tmp_path: Path, whole: Path) -> None:
    data, record = start(tiny())
    broken = tmp_path / "broken"
    RunFolder(broken).create(record)
    with subprocess.Popen([sys.executable, "-c", KILLED, str(broken)], stderr=subprocess.PIPE, text=True) as process:
        log = broken / "log.jsonl"
        until = time.monotonic() + 300
        while not log.exists() or not log.read_text():
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.003)
        process.kill()
        process.communicate()
    assert not (broken / "result.json").exists()
    monitor = Silent()
    train(data, record, broken, device=CPU, monitor=monitor, resume=True)
    assert not any("damaged" in said for said in monitor.said)
    assert_same_run(whole, broken)


def test_run_killed_before_its_first_checkpoint_starts_again(
    start: Start, tiny: Tiny, tmp_path: Path, whole: Path
) -> None:
    data, record = start(tiny())
    folder = RunFolder(tmp_path / "broken")
    folder.create(record)
    folder.best(4).mkdir(parents=True)  # a model that no checkpoint names
    (folder.best(4) / "config.json").write_text("{}")
    train(data, record, folder.path, device=CPU, monitor=Silent(), resume=True)
    assert_same_run(whole, folder.path)


@pytest.mark.parametrize("instant", ["score", "rename", "result"])
def test_run_killed_while_it_ends_can_be_finished(
    start: Start, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path, instant: str
) -> None:
    data, record = start(tiny())

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if instant == "score":
            patch.setattr(loop, "load_model", stop)
        else:
            patch.setattr(RunFolder, "finish" if instant == "rename" else "write_result", stop)
        with pytest.raises(KeyboardInterrupt):
            train(data, record, tmp_path / "broken", device=CPU, monitor=Silent())
    result = train(data, record, tmp_path / "broken", device=CPU, monitor=Silent(), resume=True)
    assert result.model == tmp_path / "broken" / "model"
    assert_same_run(whole, tmp_path / "broken")


def test_damaged_checkpoint_gives_way_to_the_one_before(
    start: Start, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: Path
) -> None:
    monkeypatch.setattr(loop, "_PATIENCE", -1.0)
    data, record = start(tiny())
    monitor = Silent()
    monitor.on_advance = lambda step: os.kill(os.getpid(), signal.SIGINT) if step == 10 else None
    with pytest.raises(TrainingStopped):
        train(data, record, tmp_path / "broken", device=CPU, monitor=monitor)
    newest = list_checkpoints(tmp_path / "broken" / "checkpoints")[0]
    newest.write_bytes(newest.read_bytes()[:-100])
    resumed = Silent()
    train(data, record, tmp_path / "broken", device=CPU, monitor=resumed, resume=True)
    assert "going on after step 8" in resumed.said
    assert any(str(newest) in said for said in resumed.said)
    assert_same_run(whole, tmp_path / "broken")


def test_complete_run_cannot_go_on(start: Start, tiny: Tiny, tmp_path: Path) -> None:
    config = tiny("training.steps=1")
    data, record = start(config)
    run_once(start, config, tmp_path / "run")
    with pytest.raises(RelatumError, match="this run is complete; its model is"):
        train(data, record, tmp_path / "run", device=CPU, monitor=Silent(), resume=True)


def test_settings_that_cannot_be_used_leave_nothing_behind(start: Start, tiny: Tiny, tmp_path: Path) -> None:
    data, record = start(tiny("words.path=nowhere.txt"))
    with pytest.raises(RelatumError, match=r"nowhere\.txt"):
        train(data, record, tmp_path / "run", device=CPU, monitor=Silent())
    assert not (tmp_path / "run").exists()


def test_changed_data_is_refused(start: Start, tiny: Tiny, tmp_path: Path) -> None:
    data, record = start(tiny())
    data.train.pop()
    with pytest.raises(RelatumError, match="the data has changed"):
        train(data, record, tmp_path / "run", device=CPU, monitor=Silent())


def test_loss_that_is_not_a_number_stops_the_run(start: Start, tiny: Tiny, tmp_path: Path) -> None:
    config = tiny("training.learning_rate=1e30", "training.warmup_steps=0", "training.evaluate_every=12")
    data, record = start(config)
    with pytest.raises(RelatumError, match=r"step \d+: the loss is (nan|inf)") as caught:
        train(data, record, tmp_path / "run", device=CPU, monitor=Silent())
    named = str(caught.value).rpartition("The batch had the sentences ")[2].split(", ")
    assert 0 < len(named) <= 8
    assert set(named) <= {example.id for example in data.train}
    assert not list_checkpoints(tmp_path / "run" / "checkpoints")


def test_gold_entities_are_given_where_the_settings_say_so(start: Start, tiny: Tiny, tmp_path: Path) -> None:
    result = run_once(start, tiny("evaluation.entities=gold", "training.steps=2"), tmp_path / "run")
    assert result.dev is not None
    assert result.dev.entities.micro.f1 == 1.0


def test_remarks_on_the_data_are_passed_on(start: Start, tiny: Tiny, tmp_path: Path, silent: Silent) -> None:
    config = tiny("training.steps=1", "training.max_cells=400")
    run_once(start, config, tmp_path / "run", silent)
    assert any("long training sentences" in said for said in silent.said)


def test_corpus_without_test_has_no_test_scores(start: Start, tiny: Tiny, tmp_path: Path) -> None:
    data, record = start(tiny("training.steps=1"))
    without = TrainingData(data.train, data.dev, [], data.schema)
    changed = RunRecord(record.config, record.data, None, None, "cpu", "", without.fingerprint())
    result = train(without, changed, tmp_path / "run", device=CPU, monitor=Silent())
    assert result.test is None
    assert json.loads((tmp_path / "run" / "result.json").read_text())["test"] is None
    assert "| test |" not in (result.model / "README.md").read_text()


def test_score_of_a_corpus_without_relations_is_that_of_nothing(start: Start, tiny: Tiny, tmp_path: Path) -> None:
    data, record = start(tiny("training.steps=1"))
    bare = [type(e)(e.sentence, Annotation(e.gold.entities), e.id) for e in data.train]
    from relatum.schema import infer_schema

    schema = infer_schema(e.gold for e in bare)
    without = TrainingData(bare, bare[:3], [], schema)
    changed = RunRecord(record.config, record.data, None, None, "cpu", "", without.fingerprint())
    result = train(without, changed, tmp_path / "run", device=CPU, monitor=Silent())
    assert result.dev is not None
    assert result.dev.relations.micro.support == 0
