"""Following a job that is under way: messages, the documents that are read, the updates and scores of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from relatum.errors import printable
from relatum.kernels.waiting import BusyWatch
from relatum.scores import Scores

T = TypeVar("T")
TASKS = (("NER", "entities"), ("RE", "relations"), ("RE+", "relations_strict"))
"""The titles and names of the tasks whose F1 is shown while a model is trained."""
SILENCE = 60.0
"""The most seconds without a line of a run."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation; `loss` is the mean per word since the last evaluation, `seconds` counts from the run's start."""

    step: int
    loss: float
    learning_rate: float
    score: float
    seconds: float
    dev: Scores | None
    """The scores on dev; None if there is no dev part."""

    def f1(self, task: str) -> float:
        """Return the micro F1 on dev of a task: entities, relations or relations_strict; 0 if there is no dev part."""
        return 0.0 if self.dev is None else self.dev.task(task).micro.f1

    def describe(self) -> str:
        """Return the micro F1 of all tasks in per cent; empty if there is no dev part."""
        if self.dev is None:
            return ""
        return "dev " + "  ".join(f"{title} {100 * self.f1(task):.2f}" for title, task in TASKS)

    def to_dict(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self.__slots__}
        return values | {"dev": {} if self.dev is None else self.dev.to_dict()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Evaluation:
        return cls(**{**values, "dev": Scores.from_dict(values["dev"]) if values["dev"] else None})


class Monitor:
    """A listener to a job that is under way. Its methods do nothing: override the ones you want to hear."""

    def say(self, message: str) -> None:
        """Hear a message that a person should know."""

    def watch(self, items: Iterable[T], name: str) -> Iterable[T]:
        """Return the items that are about to be read, such as the documents of a part; may count them on the way."""
        del name
        return items

    def start(self, step: int, steps: int) -> None:
        """Hear that updates begin, after `step` updates that were made before."""

    def advance(self, step: int, loss: float) -> None:
        """Hear that `step` updates are made, the latest with this mean loss per word; called every few updates."""

    def evaluate(self, evaluation: Evaluation, best: bool) -> None:
        """Hear that an evaluation was made."""

    def close(self) -> None:
        """Hear that no more updates follow."""

    def begin_runs(self, n_runs: int, n_complete: int) -> None:
        """Hear that several runs go on, some of which may be complete already; `close` is called after the last."""

    def begin_run(self, name: str) -> Monitor:
        """Hear that one of several runs begins, and return its monitor."""
        del name
        return self

    def end_run(self, name: str, outcome: str) -> None:
        """Hear that one of several runs has ended, and how, in words: complete, stopped, failed."""


class LineMonitor(Monitor):
    """A monitor that writes plain lines: one per message and evaluation, and at least one a minute.

    Every line of one of several runs begins with the name of the run.
    """

    def __init__(self, write: Callable[[str], object] = print, run: str = "") -> None:
        self._write, self._run = write, run
        self._scores = "no scores yet"
        self._steps = 0
        self._begun = (0, 0.0)
        self._last_line = 0.0
        self._busy = BusyWatch()

    def say(self, message: str) -> None:
        self._print(f"relatum: {printable(message, keep=chr(10))}")

    def start(self, step: int, steps: int) -> None:
        self._steps = steps
        self._begun = step, time.monotonic()
        self._last_line = time.monotonic()
        self._busy.start()

    def advance(self, step: int, loss: float) -> None:
        self._show_update(step, loss)
        busy = self._busy.look()
        if busy is not None:
            self.say(busy)

    def evaluate(self, evaluation: Evaluation, best: bool) -> None:
        scores = evaluation.describe()
        self._scores = scores or self._scores
        place = f"step {evaluation.step:,} of {self._steps:,}"
        mark = "(best so far)" if best and scores else ""
        facts = (place, f"loss {evaluation.loss:.4g}", scores, self._pace(evaluation.step), mark)
        self._print("  ".join(fact for fact in facts if fact))

    def begin_run(self, name: str) -> LineMonitor:
        self._print(f"{name}: begun")
        return LineMonitor(self._write, name)

    def end_run(self, name: str, outcome: str) -> None:
        self._print(f"{name}: {outcome}")

    def _show_update(self, step: int, loss: float) -> None:
        if time.monotonic() - self._last_line >= SILENCE:
            self._print(f"step {step:,} of {self._steps:,}  loss {loss:.4g}  {self._pace(step)}")

    def _print(self, line: str) -> None:
        self._write(f"{self._run}: {line}" if self._run else line)
        self._last_line = time.monotonic()

    def _pace(self, step: int) -> str:
        return f"{self._speed(step)} steps/s  {_time_left(self._begun, step, self._steps)}"

    def _speed(self, step: int) -> str:
        first, begun = self._begun
        return f"{(step - first) / max(time.monotonic() - begun, 1e-9):.3g}"


def _time_left(begun: tuple[int, float], step: int, steps: int) -> str:
    first, then = begun
    seconds = round((time.monotonic() - then) / max(step - first, 1) * (steps - step))
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d} left"


def as_monitor(monitor: Monitor | Callable[[str], object] | None) -> Monitor:
    """Return a monitor; a function such as `print` gets plain lines, and None hears nothing."""
    if monitor is None:
        return Monitor()
    return monitor if isinstance(monitor, Monitor) else LineMonitor(monitor)


class Remarks(Monitor):
    """A monitor that keeps all messages, and lets another monitor hear them and watch what is read."""

    def __init__(self, monitor: Monitor | Callable[[str], object] | None = None) -> None:
        self._monitor = as_monitor(monitor)
        self.said: list[str] = []

    def say(self, message: str) -> None:
        self.said.append(message)
        self._monitor.say(message)

    def watch(self, items: Iterable[T], name: str) -> Iterable[T]:
        return self._monitor.watch(items, name)
