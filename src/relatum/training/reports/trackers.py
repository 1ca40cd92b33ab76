"""Learning curves for TensorBoard, Weights & Biases and MLflow, through accelerate's trackers."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from relatum.config import list_keys
from relatum.errors import NO_SPACE, ConfigError, naming_file
from relatum.monitor import Evaluation, Monitor
from relatum.training.folder import RunRecord

_PROJECT = "relatum"
_Hook = Callable[[threading.ExceptHookArgs], object]


def make_trackers(record: RunRecord, run: Path) -> list[Monitor]:
    """Make the trackers that the settings name; raise an error if one of them is not installed."""
    names = record.config.training.trackers
    for name in names:
        if find_spec("accelerate") is None:
            raise ConfigError(f"training.trackers: {name} needs accelerate; pip install 'relatum[train]'")
        if find_spec(name) is None:
            raise ConfigError(f"training.trackers: {name} is not installed; pip install {name}")
    return [Tracker(name, record, run) for name in names]


class Tracker(Monitor):
    """A monitor that sends a run's losses and scores to one tracking program.

    A resumed run adds to what it sent before: TensorBoard reads `RUN/tensorboard`, and Weights & Biases knows a run by
    its id. MLflow makes a new run of a resumed one.
    """

    def __init__(self, name: str, record: RunRecord, run: Path) -> None:
        self._name, self._record, self._run = name, record, run
        self._tracker: Any = None
        self._hook: _Hook | None = None

    def start(self, step: int, steps: int) -> None:
        from accelerate import PartialState  # type: ignore[import-untyped]

        del step, steps
        PartialState()  # without it, accelerate's trackers cannot even say what they do
        self._hook = threading.excepthook
        threading.excepthook = partial(_show_unless_full, self._hook)
        with naming_file(self._run / self._name):
            self._tracker = self._make()
            if hasattr(self._tracker, "start"):  # older ones start by themselves
                self._tracker.start()
            self._tracker.store_init_configuration(_settings(self._record))

    def advance(self, step: int, loss: float) -> None:
        self._send({"loss": loss}, step)

    def evaluate(self, evaluation: Evaluation, best: bool) -> None:
        del best
        values = {
            "mean loss": evaluation.loss,
            "learning rate": evaluation.learning_rate,
        }
        if evaluation.dev is not None:
            values["dev/score"] = evaluation.score
            values |= {f"dev/{task}": scores.micro.f1 for task, scores in evaluation.dev.tasks()}
        self._send(values, evaluation.step)

    def close(self) -> None:
        tracker, self._tracker = self._tracker, None
        try:
            with naming_file(self._run / self._name):
                if tracker is not None:
                    tracker.finish()
        finally:
            if self._hook is not None:
                threading.excepthook, self._hook = self._hook, None

    def _send(self, values: Mapping[str, float], step: int) -> None:
        if self._tracker is not None:
            with naming_file(self._run / self._name):
                self._tracker.log(dict(values), step=step)

    def _make(self) -> Any:
        from accelerate import tracking

        if self._name == "tensorboard":
            return tracking.TensorBoardTracker(run_name="tensorboard", logging_dir=self._run)
        if self._name == "mlflow":
            return tracking.MLflowTracker(experiment_name=_PROJECT, run_name=self._run.name)
        id = hashlib.sha256(f"{self._run.absolute()} {self._record.fingerprint}".encode()).hexdigest()[:16]
        return tracking.WandBTracker(run_name=_PROJECT, name=self._run.name, dir=str(self._run), id=id, resume="allow")


def _show_unless_full(show: _Hook, arguments: threading.ExceptHookArgs) -> None:
    """Show what went wrong in a thread, but for a full disk: the next call of the tracker that writes there says so."""
    if not (isinstance(arguments.exc_value, OSError) and arguments.exc_value.errno in NO_SPACE):
        show(arguments)


def _settings(record: RunRecord) -> dict[str, bool | int | float | str]:
    """Return all settings as values that trackers can hold."""
    return {
        key.name: key.value if isinstance(key.value, bool | int | float | str) else json.dumps(key.value)
        for key in list_keys(record.config)
    }
