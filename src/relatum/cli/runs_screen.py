"""The display of several runs at once."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.live import Live
from rich.table import Table

from relatum.cli.monitor import stderr_console
from relatum.errors import printable
from relatum.monitor import SILENCE, TASKS, Evaluation, Monitor


class RunsScreen(Monitor):
    """A table of the runs that go on, on a terminal; elsewhere plain lines that begin with the name of the run.

    All goes to standard error.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or stderr_console()
        self._n_runs = self._n_complete = 0
        self._rows: dict[str, _Row] = {}
        self._live: Live | None = None

    def say(self, message: str) -> None:
        self._print(f"relatum: {message}")

    def begin_runs(self, n_runs: int, n_complete: int) -> None:
        self._n_runs, self._n_complete = n_runs, n_complete
        if self._console.is_terminal:
            self._live = Live(console=self._console, get_renderable=self._table, transient=True, refresh_per_second=4)
            self._live.start()

    def begin_run(self, name: str) -> Monitor:
        self._rows[name] = _Row(name, self._print, with_lines=self._live is None)
        self._print(f"{name}: begun")
        return self._rows[name]

    def end_run(self, name: str, outcome: str) -> None:
        del self._rows[name]
        self._n_complete += outcome == "complete"
        self._print(f"{name}: {outcome} ({self._n_complete} of {self._n_runs} complete)")

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _print(self, line: str) -> None:
        self._console.print(printable(line, keep="\n"), soft_wrap=True)

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        table.add_column(f"{self._n_complete}/{self._n_runs} complete")
        for title in ("step", "loss", "steps/s", "left", *(f"dev {title}" for title, _ in TASKS)):
            table.add_column(title, justify="right")
        for name, row in self._rows.items():
            step = f"{row.step:,}/{row.steps:,}" if row.steps else "getting ready"
            table.add_row(printable(name), step, row.loss, row.speed, row.left.removesuffix(" left"), *row.scores)
        return table


class _Row(Monitor):
    """The progress of a run; where there is no table, its evaluations are lines."""

    def __init__(self, name: str, print_line: Callable[[str], None], with_lines: bool) -> None:
        self._name, self._print, self._with_lines = name, print_line, with_lines
        self.step = self.steps = self._first = 0
        self.loss = "–"
        self.scores = ["–"] * len(TASKS)
        self._begun = self._last_line = time.monotonic()

    def say(self, message: str) -> None:
        self._print(f"{self._name}: {message}")

    def start(self, step: int, steps: int) -> None:
        self.step = self._first = step
        self.steps = steps
        self._begun = time.monotonic()
        if step:
            self.say(f"updates go on after step {step:,} of {steps:,}")

    def advance(self, step: int, loss: float) -> None:
        self.step, self.loss = step, f"{loss:.3g}"
        if time.monotonic() - self._last_line >= SILENCE:
            self._line(f"loss {self.loss}", self.left)

    def evaluate(self, evaluation: Evaluation, best: bool) -> None:
        self.step = evaluation.step
        scores = evaluation.describe()
        if scores:
            self.scores = [f"{100 * evaluation.f1(task):.2f}" for _, task in TASKS]
        mark = "(best so far)" if best and scores else ""
        self._line(f"loss {evaluation.loss:.4g}", scores, self.left, mark)

    def _line(self, *facts: str) -> None:
        if self._with_lines:
            place = f"step {self.step:,} of {self.steps:,}"
            self.say("  ".join(fact for fact in (place, *facts) if fact))
            self._last_line = time.monotonic()

    @property
    def _rate(self) -> float:
        return (self.step - self._first) / max(time.monotonic() - self._begun, 1e-9)

    @property
    def speed(self) -> str:
        return f"{self._rate:.3g}" if self.step > self._first else "–"

    @property
    def left(self) -> str:
        if self.step <= self._first:
            return "–"
        seconds = round((self.steps - self.step) / self._rate)
        return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d} left"
