"""The monitoring of a run: a display for people, and `log.jsonl` for programs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from relatum.data.atomic import replacing_file
from relatum.errors import naming_file, printable
from relatum.kernels.waiting import BusyWatch
from relatum.training.history import Evaluation

_SILENCE = 60.0
"""The most seconds without a line where there is no terminal."""


class Monitor(Protocol):
    """A listener that hears of everything worth telling while a run goes on."""

    def start(self, step: int, steps: int) -> None:
        """Hear that updates begin, after `step` updates that were made before."""

    def advance(self, step: int, loss: float) -> None:
        """Hear that `step` updates are made, the latest with this mean loss per word; called every few updates."""

    def evaluate(self, evaluation: Evaluation, best: bool) -> None:
        """Hear that an evaluation was made."""

    def say(self, message: str) -> None:
        """Hear a message that a person should know."""

    def close(self) -> None:
        """Hear that no more updates follow."""


class TerminalMonitor:
    """A line of progress on a terminal; elsewhere plain lines, one per evaluation and at least one a minute.

    All goes to standard error.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._progress: Progress | None = None
        self._task = TaskID(0)
        self._steps = 0
        self._scores = "no scores yet"
        self._begun = (0, 0.0)
        self._last_line = 0.0
        self._busy = BusyWatch()

    def start(self, step: int, steps: int) -> None:
        self._steps = steps
        self._begun = step, time.monotonic()
        self._last_line = time.monotonic()
        self._busy.start()
        if self._console.is_terminal:
            columns = (
                TextColumn("step"),
                MofNCompleteColumn(),
                BarColumn(bar_width=None),
                TimeRemainingColumn(),
                TextColumn("{task.fields[speed]} steps/s  loss {task.fields[loss]}  {task.fields[scores]}"),
            )
            self._progress = Progress(*columns, console=self._console, transient=True, speed_estimate_period=60)
            self._task = self._progress.add_task(
                "", total=steps, completed=step, speed="–", loss="–", scores=self._scores
            )
            self._progress.start()

    def advance(self, step: int, loss: float) -> None:
        if self._progress:
            self._progress.update(self._task, completed=step, speed=self._speed(step), loss=f"{loss:.3g}")
        elif time.monotonic() - self._last_line >= _SILENCE:
            self._print(f"step {step:,} of {self._steps:,}  loss {loss:.4g}  {self._pace(step)}")
        busy = self._busy.look()
        if busy is not None:
            self.say(busy)

    def evaluate(self, evaluation: Evaluation, best: bool) -> None:
        if evaluation.dev:
            self._scores = "dev " + "  ".join(
                f"{name} {100 * evaluation.f1(task):.2f}"
                for name, task in (("NER", "entities"), ("RE", "relations"), ("RE+", "relations_strict"))
            )
        if self._progress:
            self._progress.update(self._task, scores=self._scores)
        mark = "(best so far)" if best and evaluation.dev else ""
        place = f"step {evaluation.step:,} of {self._steps:,}"
        facts = (
            place,
            f"loss {evaluation.loss:.4g}",
            self._scores if evaluation.dev else "",
            self._pace(evaluation.step),
            mark,
        )
        self._print("  ".join(fact for fact in facts if fact))

    def say(self, message: str) -> None:
        self._print(f"relatum: {printable(message, keep=chr(10))}")

    def close(self) -> None:
        if self._progress:
            self._progress.stop()
            self._progress = None

    def _print(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)
        self._last_line = time.monotonic()

    def _pace(self, step: int) -> str:
        return f"{self._speed(step)} steps/s  {_left(self._begun, step, self._steps)}"

    def _speed(self, step: int) -> str:
        first, begun = self._begun
        return f"{(step - first) / max(time.monotonic() - begun, 1e-9):.3g}"


def _left(begun: tuple[int, float], step: int, steps: int) -> str:
    first, then = begun
    seconds = round((time.monotonic() - then) / max(step - first, 1) * (steps - step))
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d} left"


class Quiet:
    """A monitor that does nothing."""

    def start(self, step: int, steps: int) -> None:
        pass

    def advance(self, step: int, loss: float) -> None:
        pass

    def evaluate(self, evaluation: Evaluation, best: bool) -> None:
        pass

    def say(self, message: str) -> None:
        pass

    def close(self) -> None:
        pass


class Monitors:
    """Several monitors combined into one, which also remembers all messages."""

    def __init__(self, *monitors: Monitor) -> None:
        self._monitors = list(monitors)
        self.messages: list[str] = []
        """The messages that were said, each once."""

    def begin_with(self, messages: list[str]) -> None:
        """Put earlier messages first; all messages are kept in this very list from now on."""
        messages += [message for message in self.messages if message not in messages]
        self.messages = messages

    def start(self, step: int, steps: int) -> None:
        for monitor in self._monitors:
            monitor.start(step, steps)

    def advance(self, step: int, loss: float) -> None:
        for monitor in self._monitors:
            monitor.advance(step, loss)

    def evaluate(self, evaluation: Evaluation, best: bool) -> None:
        for monitor in self._monitors:
            monitor.evaluate(evaluation, best)

    def say(self, message: str) -> None:
        if message not in self.messages:
            self.messages.append(message)
        for monitor in self._monitors:
            monitor.say(message)

    def close(self) -> None:
        for monitor in self._monitors:
            monitor.close()


class Log:
    """The file `log.jsonl`: one line per evaluation, with the fields of `Evaluation`."""

    def __init__(self, path: Path, evaluations: Iterable[Evaluation] = ()) -> None:
        """Begin the file with these evaluations: after a stop, the old file may have more than the checkpoint has."""
        self._path = path
        with replacing_file(path) as draft:
            draft.write_text("".join(map(_line, evaluations)), encoding="utf-8")

    def add(self, evaluation: Evaluation) -> None:
        with naming_file(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(_line(evaluation))


def _line(evaluation: Evaluation) -> str:
    return json.dumps(asdict(evaluation)) + "\n"
