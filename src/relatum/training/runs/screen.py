"""The display of several runs at once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from relatum.errors import printable
from relatum.training.history import Evaluation

_SILENCE = 60.0
"""The most seconds without a line of a run where there is no terminal."""
_TASKS = (("NER", "entities"), ("RE", "relations"), ("RE+", "relations_strict"))


class RunsScreen:
    """A table of the runs that go on, on a terminal; elsewhere plain lines that begin with the name of the run.

    All goes to standard error. Messages on data and settings that runs send before their first update are shown once,
    not for every run.
    """

    def __init__(self, n_runs: int, console: Console | None = None, known: Iterable[str] = ()) -> None:
        """Begin without rows; the messages in `known` were shown before and are not repeated for every run."""
        self._console = console or Console(stderr=True, highlight=False, markup=False, emoji=False)
        self._n_runs, self.n_complete = n_runs, 0
        self._rows: dict[str, _Row] = {}
        self._live: Live | None = None
        self._known = set(known)

    def __enter__(self) -> RunsScreen:
        if self._console.is_terminal:
            self._live = Live(console=self._console, get_renderable=self._table, transient=True, refresh_per_second=4)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, message: str) -> None:
        """Show a message about all runs."""
        self._print(f"relatum: {message}")

    def begin(self, name: str) -> None:
        self._rows[name] = _Row()
        self._print(f"{name}: begun")

    def hear(self, name: str, event: Mapping[str, Any]) -> None:
        """Show an event of a run."""
        row = self._rows[name]
        kind = event["event"]
        if kind == "start":
            row.start(event["step"], event["steps"])
            if row.step:
                self._print(f"{name}: updates go on after step {row.step:,} of {row.steps:,}")
        elif kind == "advance":
            row.step, row.loss = event["step"], f"{event['loss']:.3g}"
            if self._live is None and time.monotonic() - row.last_line >= _SILENCE:
                self._print(f"{name}: step {row.step:,} of {row.steps:,}  loss {row.loss}  {row.left}")
                row.last_line = time.monotonic()
        elif kind == "evaluate":
            evaluation = Evaluation(**event["evaluation"])
            row.step = evaluation.step
            scores = mark = ""
            if evaluation.dev:
                row.scores = [f"{100 * evaluation.f1(task):.2f}" for _, task in _TASKS]
                scores = "dev " + "  ".join(
                    f"{title} {one}" for (title, _), one in zip(_TASKS, row.scores, strict=True)
                )
                mark = "(best so far)" if event["best"] else ""
            if self._live is None:
                place = f"{name}: step {row.step:,} of {row.steps:,}"
                facts = (place, f"loss {evaluation.loss:.4g}", scores, row.left, mark)
                self._print("  ".join(fact for fact in facts if fact))
                row.last_line = time.monotonic()
        elif kind == "say" and (row.steps or event["message"] not in self._known):
            self._known.add(event["message"])
            self._print(f"{name}: {event['message']}")

    def end(self, name: str, what: str) -> None:
        """Show that a run has ended, and how, in words: complete, stopped, failed."""
        del self._rows[name]
        self.n_complete += what == "complete"
        self._print(f"{name}: {what} ({self.n_complete} of {self._n_runs} complete)")

    def _print(self, line: str) -> None:
        self._console.print(printable(line, keep="\n"), soft_wrap=True)

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False)
        table.add_column(f"{self.n_complete}/{self._n_runs} complete")
        for title in ("step", "loss", "steps/s", "left", *(f"dev {title}" for title, _ in _TASKS)):
            table.add_column(title, justify="right")
        for name, row in self._rows.items():
            step = f"{row.step:,}/{row.steps:,}" if row.steps else "getting ready"
            table.add_row(printable(name), step, row.loss, row.speed, row.left.removesuffix(" left"), *row.scores)
        return table


class _Row:
    """The progress of a run."""

    def __init__(self) -> None:
        self.step = self.steps = self._first = 0
        self.loss = "–"
        self.scores = ["–"] * len(_TASKS)
        self._begun = self.last_line = time.monotonic()

    def start(self, step: int, steps: int) -> None:
        self.step = self._first = step
        self.steps = steps
        self._begun = time.monotonic()

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
