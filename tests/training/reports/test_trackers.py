from __future__ import annotations

import errno
import json
import sys
import threading
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from relatum.config import Config
from relatum.errors import ConfigError, NoSpaceError
from relatum.monitor import Evaluation
from relatum.training.corpus import TrainingData
from relatum.training.folder import RunRecord
from relatum.training.loop import train
from relatum.training.reports import trackers

from ...small_results import make_scores
from ..conftest import Silent

CPU = torch.device("cpu")
Start = Callable[[Config], tuple[TrainingData, RunRecord]]
Tiny = Callable[..., Config]

DEV = make_scores(0.5)


def test_tensorboard_gets_the_learning_curve(start: Start, tiny: Tiny, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import (  # type: ignore[import-untyped]
        EventAccumulator,
    )

    data, record = start(tiny('training.trackers=["tensorboard"]'))
    train(data, record, tmp_path / "run", device=CPU, monitor=Silent())
    found = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    found.Reload()
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    for name, wanted in (
        ("mean loss", [line["loss"] for line in log]),
        ("dev/entities", [line["dev"]["entities"]["micro"]["f1"] for line in log]),
    ):
        events = found.Scalars(name)
        assert [event.step for event in events] == [4, 8, 12]
        assert [event.value for event in events] == pytest.approx(wanted, rel=1e-6)
    assert found.Scalars("loss")


def test_tracker_without_space_ends_the_run_with_one_message(
    start: Start, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """TensorBoard writes in a thread of its own, and tells of its error at the next call."""
    full, before = OSError(errno.ENOSPC, "No space left on device"), threading.excepthook

    class Full:
        def store_init_configuration(self, values: object) -> None:
            del values

        def log(self, values: object, step: int) -> None:
            del values, step
            thread = threading.Thread(target=self._write)
            thread.start()
            thread.join()
            raise full

        def _write(self) -> None:
            raise full

        def finish(self) -> None:
            raise full

    monkeypatch.setattr(trackers.Tracker, "_make", lambda _: Full())
    data, record = start(tiny('training.trackers=["tensorboard"]'))
    run = tmp_path / "run"
    with pytest.raises(NoSpaceError) as error:
        train(data, record, run, device=CPU, monitor=Silent())
    assert str(error.value) == (
        f"{run}/tensorboard: No space left on device; free some space, then go on with relatum train --resume {run}"
    )
    assert "Traceback" not in capsys.readouterr().err
    assert threading.excepthook is before


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "mlflow"])
def test_tracker_that_is_not_installed_is_named_before_anything_is_written(
    start: Start, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(trackers, "find_spec", lambda package: None if package == name else object())
    data, record = start(tiny(f'training.trackers=["{name}"]'))
    with pytest.raises(ConfigError, match=rf"training\.trackers: {name} is not installed; pip install {name}"):
        train(data, record, tmp_path / "run", device=CPU, monitor=Silent())
    assert not (tmp_path / "run").exists()


def test_missing_accelerate_is_named(start: Start, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trackers, "find_spec", lambda package: None if package == "accelerate" else object())
    _, record = start(tiny('training.trackers=["wandb"]'))
    with pytest.raises(ConfigError, match=r"wandb needs accelerate; pip install 'relatum\[train\]'"):
        trackers.make_trackers(record, tmp_path)


def test_wandb_is_told_the_same_run_again(
    start: Start, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[dict[str, Any]] = []
    sent: list[tuple[dict[str, float], int]] = []
    settings: dict[str, Any] = {}

    def init(**values: Any) -> SimpleNamespace:
        calls.append(values)
        return SimpleNamespace(log=lambda values, step: sent.append((values, step)), finish=lambda: None)

    config = SimpleNamespace(update=lambda values, **_: settings.update(values))
    monkeypatch.setitem(
        sys.modules, "wandb", SimpleNamespace(init=init, config=config, __spec__=ModuleSpec("wandb", None))
    )
    _, record = start(tiny())
    for _ in range(2):
        tracker = trackers.Tracker("wandb", record, tmp_path / "run")
        tracker.start(0, 12)
        tracker.evaluate(Evaluation(4, 2.5, 1e-3, 0.5, 1.0, DEV), True)
        tracker.close()
        tracker.advance(5, 1.0)  # after the end there is nobody to tell
    assert calls[0] == calls[1]
    assert calls[0]["name"] == "run"
    assert calls[0]["resume"] == "allow"
    assert len(sent) == 2
    assert sent[0] == (
        {
            "mean loss": 2.5,
            "learning rate": 1e-3,
            "dev/score": 0.5,
            "dev/entities": 0.5,
            "dev/relations": 0.5,
            "dev/relations_strict": 0.5,
        },
        4,
    )
    assert settings["training.steps"] == 12
    assert settings["training.patience"] == "null"
    assert all(isinstance(value, bool | int | float | str) for value in settings.values())
