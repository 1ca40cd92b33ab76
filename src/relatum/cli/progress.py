"""Progress on the terminal while a model reads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def show_progress(name: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that is called with the numbers of sentences read and gathered, and shows them on a terminal.

    A passage counts as one. The line is cleared whenever all gathered sentences have been read, so that answers can
    be printed.
    """
    shown: Progress | None = None

    def count(n_read: int, n_gathered: int) -> None:
        nonlocal shown
        if n_read == n_gathered:
            if shown is not None:
                shown.stop()
        elif sys.stderr.isatty():
            if shown is None:
                shown = _make(name)
            shown.update(shown.task_ids[0], completed=n_read, total=n_gathered)
            shown.start()

    try:
        yield count
    finally:
        if shown is not None:
            shown.stop()


def _make(name: str) -> Progress:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from relatum.cli.console import printable

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TextColumn("{task.completed:,} of {task.total:,} read"),
        TimeElapsedColumn(),
    )
    # Results may go to standard output meanwhile, which must stay what it is.
    made = Progress(
        *columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False
    )
    made.add_task(printable(name), total=None)
    return made
