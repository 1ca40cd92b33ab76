"""What the commands share on screen: messages on standard error, results on standard output."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from relatum import errors
from relatum.types import Document

if TYPE_CHECKING:
    from rich.console import Console

    from relatum.data.problems import Problems


def results() -> Console:
    """Where tables of results go: the terminal at its width; a file or pipe has no width to keep to."""
    from rich.console import Console

    # Labels and names are shown as they are: a bracket in one begins no style.
    return Console(highlight=False, markup=False, emoji=False, width=None if sys.stdout.isatty() else 10_000)


def printable(text: str) -> str:
    """The text, escaped where a terminal could not show it; its lines stay lines."""
    return errors.printable(text, keep="\n")


def say(message: str) -> None:
    """A remark to the person at the terminal; standard output stays free for results."""
    print(f"relatum: {printable(message)}", file=sys.stderr)


def warn_about(problems: Problems) -> None:
    """Everything that was skipped, changed or left out."""
    if problems.count:
        for problem in problems.kept:
            say(str(problem))
        more = f" (the first {len(problems.kept)} are shown)" if problems.count > len(problems.kept) else ""
        say(f"skipped {problems.count} bad records{more}")
    for line in problems.remark_lines():
        say(line)


def watch(documents: Iterable[Document], name: str) -> Iterator[Document]:
    """The documents, with a counter on the terminal while they pass; silent where nobody is looking."""
    if not sys.stderr.isatty():
        yield from documents
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.completed:,} documents"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=None)
        for count, document in enumerate(documents, 1):
            if count % 64 == 0:
                progress.update(task, completed=count)
            yield document
