"""The progress of a run on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from relatum.monitor import Evaluation, LineMonitor


def stderr_console() -> Console:
    """Make a console for standard error that shows text as it is."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


class TerminalMonitor(LineMonitor):
    """A line of progress on a terminal; elsewhere plain lines. All goes to standard error."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or stderr_console()
        super().__init__(lambda line: self._console.print(line, soft_wrap=True))
        self._progress: Progress | None = None
        self._task = TaskID(0)

    def start(self, step: int, steps: int) -> None:
        super().start(step, steps)
        if not self._console.is_terminal:
            return
        columns = (
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(bar_width=None),
            TimeRemainingColumn(),
            TextColumn("{task.fields[speed]} steps/s  loss {task.fields[loss]}  {task.fields[scores]}"),
        )
        self._progress = Progress(*columns, console=self._console, transient=True, speed_estimate_period=60)
        self._task = self._progress.add_task("", total=steps, completed=step, speed="–", loss="–", scores=self._scores)
        self._progress.start()

    def evaluate(self, evaluation: Evaluation, best: bool) -> None:
        super().evaluate(evaluation, best)
        if self._progress:
            self._progress.update(self._task, scores=self._scores)

    def close(self) -> None:
        if self._progress:
            self._progress.stop()
            self._progress = None

    def _show_update(self, step: int, loss: float) -> None:
        if self._progress:
            self._progress.update(self._task, completed=step, speed=self._speed(step), loss=f"{loss:.3g}")
        else:
            super()._show_update(step, loss)
