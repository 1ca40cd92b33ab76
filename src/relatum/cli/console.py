"""Output of the commands: messages on standard error, results on standard output.

Labels, texts and file names may hold codes that move a terminal's cursor or rename its window. Everything that a
command shows therefore goes through this module, which spells such codes out.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

from relatum import errors
from relatum.monitor import Monitor, T

if TYPE_CHECKING:
    from rich.console import Console

    from relatum.data.problems import Problems


_TERMINAL_CODES = re.compile("[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that JSON need not escape although a terminal obeys them: control codes, and changes of direction."""


def results(file: TextIO | None = None) -> Console:
    """Make the console for tables of results: as wide as the terminal; a file or pipe has no width to keep to."""
    from rich.console import Console
    from rich.text import Text

    class PlainConsole(Console):
        """Shows every string as it is: a bracket in a label begins no style, and an escape code is spelt out."""

        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(printable(text), **options)

    width = None if (file or sys.stdout).isatty() else 10_000
    return PlainConsole(file=file, highlight=False, markup=False, emoji=False, width=width)


def printable(text: str) -> str:
    """Escape characters that a terminal could not show; line breaks stay."""
    return errors.printable(text, keep="\n")


def show(text: str) -> None:
    """Print a result on standard output, with everything escaped that a terminal could not show."""
    print(printable(text))


def show_json(value: object, indent: int | None = 2) -> None:
    """Print a result on standard output as JSON."""
    print(to_json(value, sys.stdout, indent))


def to_json(value: object, stream: TextIO, indent: int | None = None) -> str:
    """Return a value as JSON for a stream.

    Characters that the stream cannot encode, or that a terminal would obey, are escaped by the rules of JSON.
    """
    lacks_letters = "utf" not in (stream.encoding or "utf-8").lower()
    text = json.dumps(value, ensure_ascii=lacks_letters, indent=indent)
    return _TERMINAL_CODES.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def say(message: str) -> None:
    """Print a remark for the person at the terminal on standard error; standard output stays free for results."""
    print(f"relatum: {printable(message)}", file=sys.stderr)


def warn_about(problems: Problems) -> None:
    """Print everything that was skipped, changed or left out."""
    for line in problems.lines():
        say(line)


class CommandMonitor(Monitor):
    """A monitor for commands that read documents: prints messages, and counts the documents on a terminal."""

    def say(self, message: str) -> None:
        say(message)

    def watch(self, items: Iterable[T], name: str) -> Iterator[T]:
        return watch(items, name)


def watch(documents: Iterable[T], name: str) -> Iterator[T]:
    """Yield the documents, and count them on the terminal; silent if standard error is not a terminal."""
    if not sys.stderr.isatty():
        yield from documents
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TextColumn("{task.completed:,} documents"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(printable(name), total=None)
        for count, document in enumerate(documents, 1):
            if count % 64 == 0:
                progress.update(task, completed=count)
            yield document
