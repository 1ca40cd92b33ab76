"""Killed and taken up again: the last weights are those of a run that nobody interrupted."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from relatum.config import Config, load_config
from relatum.errors import RelatumError
from relatum.monitor import Monitor
from relatum.training import loop
from relatum.training.checkpoints import list_checkpoints, read_checkpoint
from relatum.training.corpus import TrainingData, load_training_data
from relatum.training.folder import RunFolder, RunRecord
from relatum.training.loop import TrainingStopped, train
from relatum.training.reports.trackers import make_trackers

from .conftest import TINY, Silent
from .test_loop import assert_same_run

CPU = torch.device("cpu")
Start = Callable[[Config], tuple[TrainingData, RunRecord]]
Tiny = Callable[..., Config]
OFTEN = ("training.checkpoint_every=3", "training.keep_checkpoints=3")

DIES = """
import os, signal, sys, torch
from pathlib import Path
from relatum.data import atomic
from relatum.training import checkpoints
from relatum.training.corpus import load_training_data
from relatum.training.folder import RunFolder
from relatum.training.loop import train
from relatum.monitor import Monitor

torch.set_num_threads(1)
save, sync = checkpoints.save_checkpoint, atomic._sync

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def before_renaming(path):
    if path.name.startswith(".step-00000009"):
        die()
    sync(path)

def torn(folder, checkpoint, n_kept):
    path = save(folder, checkpoint, n_kept)
    if checkpoint.step == 9:
        path.write_bytes(path.read_bytes()[:-1000])
        die()
    return path

run, how = Path(sys.argv[1]), sys.argv[2]
if how == "torn":
    import relatum.training.loop
    relatum.training.loop.save_checkpoint = torn
else:
    atomic._sync = before_renaming
record = RunFolder(run).read()
data = load_training_data(Path(record.data), record.config)
train(data, record, run, device=torch.device("cpu"), monitor=Monitor(), resume=True)
"""


@pytest.fixture(scope="module")
def often(tmp_path_factory: pytest.TempPathFactory, small_corpus: Path) -> Path:
    """A run with checkpoints at the steps 3, 4, 6, 8, 9 and 12, which nobody interrupted."""
    path, config = tmp_path_factory.mktemp("often") / "run", load_config(None, [*TINY, *OFTEN])
    data = load_training_data(small_corpus, config)
    record = RunRecord(config, str(small_corpus), None, None, "cpu", "", data.fingerprint())
    train(data, record, path, device=CPU, monitor=Silent())
    return path


@pytest.mark.parametrize(("how", "goes_on_after"), [("before renaming", 8), ("torn", 8)])
def test_run_killed_while_it_writes_a_checkpoint_goes_on_to_the_same_weights(
    start: Start, tiny: Tiny, tmp_path: Path, often: Path, how: str, goes_on_after: int
) -> None:
    data, record = start(tiny(*OFTEN))
    folder = RunFolder(tmp_path / "run")
    folder.create(record)
    done = subprocess.run([sys.executable, "-c", DIES, str(folder.path), how], timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    drafts = list(folder.checkpoints.glob(".*.partial"))
    steps = [int(path.stem.removeprefix("step-")) for path in list_checkpoints(folder.checkpoints)]
    if how == "torn":
        assert (len(drafts), steps) == (0, [9, 8, 6])
    else:
        assert (len(drafts), steps) == (1, [8, 6, 4])
        assert read_checkpoint(drafts[0]).step == 9, "it was whole, and only its name was missing"
    monitor = Silent()
    train(data, record, folder.path, device=CPU, monitor=monitor, resume=True)
    assert f"going on after step {goes_on_after}" in monitor.said
    assert any("step-00000009.safetensors: the checkpoint" in said for said in monitor.said) == (how == "torn")
    assert not list(folder.checkpoints.glob(".*.partial"))
    assert_same_run(often, folder.path)


def test_second_process_that_waited_does_not_repeat_the_ending(
    start: Start, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first process ends the run after the second has looked at it, and before the second has locked it."""
    data, record = start(tiny("training.steps=1", "training.evaluate_every=1"))
    folder = RunFolder(tmp_path / "run")
    folder.create(record)

    def meanwhile(record: RunRecord, run: Path) -> list[Monitor]:
        monkeypatch.setattr(loop, "make_trackers", make_trackers)
        train(data, record, run, device=CPU, monitor=Silent(), resume=True)
        return make_trackers(record, run)

    monkeypatch.setattr(loop, "make_trackers", meanwhile)
    second = Silent()
    with pytest.raises(RelatumError, match="this run is complete; its model is"):
        train(data, record, folder.path, device=CPU, monitor=second, resume=True)
    assert not second.steps
    assert not any("going on" in said for said in second.said)


def test_checkpoints_between_evaluations_change_nothing(start: Start, tiny: Tiny, tmp_path: Path, often: Path) -> None:
    data, record = start(tiny())
    train(data, record, tmp_path / "plain", device=CPU, monitor=Silent())
    assert_same_run(often, tmp_path / "plain")
    assert len(list_checkpoints(tmp_path / "plain" / "checkpoints")) == 2
    assert [path.name for path in list_checkpoints(often / "checkpoints")] == [
        f"step-{step:08d}.safetensors" for step in (12, 9, 8)
    ]


@pytest.mark.parametrize("keep", [1, 2, 4])
def test_every_checkpoint_that_is_kept_can_be_gone_on_from(
    start: Start, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: int
) -> None:
    """Every evaluation is better than the one before, so that each checkpoint names another model."""
    monkeypatch.setattr(loop, "_PATIENCE", -1.0)
    scores = iter(range(1, 100))
    monkeypatch.setattr(loop, "selection_score", lambda *_: float(next(scores)))
    data, record = start(tiny("training.evaluate_every=1", f"training.keep_checkpoints={keep}", "training.steps=7"))
    monitor = Silent()
    monitor.on_advance = lambda step: os.kill(os.getpid(), signal.SIGINT) if step == 6 else None
    with pytest.raises(TrainingStopped):
        train(data, record, tmp_path / "run", device=CPU, monitor=monitor)
    folder = RunFolder(tmp_path / "run")
    kept = [int(path.stem.removeprefix("step-")) for path in list_checkpoints(folder.checkpoints)]
    assert kept == list(range(6, 6 - keep, -1))
    assert all(folder.best(step).exists() for step in kept)
    assert not folder.best(6 - keep).exists()


def test_damaged_checkpoint_is_removed_before_it_takes_the_place_of_a_whole_one(
    start: Start, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_PATIENCE", -1.0)
    data, record = start(tiny("training.evaluate_every=12", "training.checkpoint_every=2"))

    def stop(at: int, resume: bool) -> list[Path]:
        monitor = Silent()
        monitor.on_advance = lambda step: os.kill(os.getpid(), signal.SIGINT) if step == at else None
        with pytest.raises(TrainingStopped):
            train(data, record, tmp_path / "run", device=CPU, monitor=monitor, resume=resume)
        return list_checkpoints(tmp_path / "run" / "checkpoints")

    newest, _ = stop(5, resume=False)
    newest.write_bytes(newest.read_bytes()[:-100])
    assert [read_checkpoint(path).step for path in stop(6, resume=True)] == [6, 4]


def test_random_numbers_of_python_go_on(
    start: Start, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_PATIENCE", -1.0)
    data, record = start(tiny())
    drawn: dict[str, list[float]] = {"whole": [], "broken": []}

    def draw(name: str, stop_at: int | None = None) -> Silent:
        monitor = Silent()

        def on_advance(step: int) -> None:
            drawn[name].append(random.random() + random.gauss())
            if step == stop_at:
                os.kill(os.getpid(), signal.SIGINT)

        monitor.on_advance = on_advance
        return monitor

    train(data, record, tmp_path / "whole", device=CPU, monitor=draw("whole"))
    with pytest.raises(TrainingStopped):
        train(data, record, tmp_path / "broken", device=CPU, monitor=draw("broken", 5))
    random.seed(9)
    train(data, record, tmp_path / "broken", device=CPU, monitor=draw("broken"), resume=True)
    assert drawn["broken"] == drawn["whole"]


def test_what_was_said_before_a_stop_is_in_the_result(
    start: Start, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_PATIENCE", -1.0)
    data, record = start(tiny("training.max_cells=400"))
    monitor = Silent()
    monitor.on_advance = lambda step: os.kill(os.getpid(), signal.SIGINT) if step == 5 else None
    with pytest.raises(TrainingStopped):
        train(data, record, tmp_path / "run", device=CPU, monitor=monitor)
    train(data, record, tmp_path / "run", device=CPU, monitor=Silent(), resume=True)
    messages = json.loads((tmp_path / "run" / "result.json").read_text())["messages"]
    assert any("long training sentences" in said for said in monitor.said)
    assert messages == [*monitor.said, "going on after step 5"]


def test_patience_ends_a_run_early(start: Start, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {4: 0.1, 8: 0.3, 12: 0.3, 16: 0.2}
    scores = iter(given.values())
    monkeypatch.setattr(loop, "selection_score", lambda *_: next(scores))
    data, record = start(tiny("training.steps=40", "training.patience=2"))
    monitor = Silent()
    result = train(data, record, tmp_path / "run", device=CPU, monitor=monitor)
    assert [evaluation.step for evaluation, _ in monitor.evaluations] == list(given)
    assert monitor.said[-1] == (
        "none of the last 2 evaluations was better than the best (training.patience): the run ends after step 16 of 40"
    )
    assert result.result.best.step == 8
    assert result.result.steps == 16
    assert result.result.stopped_early is True
    assert "16 of 40 (stopped early)" in (tmp_path / "run" / "summary.txt").read_text()


def test_patience_counts_on_after_a_stop(
    start: Start, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the run had nothing left to do but to end."""
    monkeypatch.setattr(loop, "_PATIENCE", -1.0)
    by_step = {4: 0.3, 8: 0.2, 12: 0.1}
    steps = iter(by_step)
    monkeypatch.setattr(loop, "selection_score", lambda *_: by_step[next(steps)])
    data, record = start(tiny("training.steps=40", "training.patience=2"))
    monitor = Silent()
    monitor.on_advance = lambda step: os.kill(os.getpid(), signal.SIGINT) if step == 9 else None
    with pytest.raises(TrainingStopped):
        train(data, record, tmp_path / "run", device=CPU, monitor=monitor)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop, "load_model", die)
        with pytest.raises(KeyboardInterrupt):
            train(data, record, tmp_path / "run", device=CPU, monitor=Silent(), resume=True)
    last = Silent()
    result = train(data, record, tmp_path / "run", device=CPU, monitor=last, resume=True)
    assert not last.evaluations
    assert (result.result.steps, result.result.best.step) == (12, 4)
    assert sum("training.patience" in said for said in result.result.messages) == 1


def test_run_without_a_better_score_at_its_last_update_is_not_early(
    start: Start, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([0.3, 0.2, 0.1])
    monkeypatch.setattr(loop, "selection_score", lambda *_: next(scores))
    data, record = start(tiny("training.patience=2"))
    result = train(data, record, tmp_path / "run", device=CPU, monitor=Silent())
    assert result.result.stopped_early is False
    assert not any("training.patience" in said for said in result.result.messages)
