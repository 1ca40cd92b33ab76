"""The words in which a job speaks of its input: files, rows, documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol


class Position(NamedTuple):
    """A place in the input: the index of a file and of a row in it."""

    file: int
    row: int


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of the input; its version changes with its content."""

    path: str
    name: str
    size: int
    version: str
    index: int = 0
    bytes_before: int = 0
    """The size of all files before this one."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document as a job reads it; one that cannot be parsed has an error."""

    id: str
    text: object
    kept: tuple[object, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that a job reads; without an id column, a column named "id" is used if there is one."""

    text: str = "text"
    id: str | None = None
    keep: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive rows of a file as they were read, not parsed yet."""

    file: InputFile
    first: int
    """The number of the first row, counted from 0."""
    rows: Any
    """A list, or an Arrow record batch."""
    sizes: Sequence[int]
    """The size of every row in bytes; 0 for a blank line, which is no document."""
    extent: tuple[float, float]
    """The first and the last byte in the file, roughly; in a compressed file, those of compressed bytes."""

    def part(self, start: int, end: int) -> Rows:
        first, last = self.extent
        per_row = (last - first) / max(1, len(self.sizes))
        extent = first + per_row * start, first + per_row * end
        return replace(
            self, first=self.first + start, rows=_cut(self.rows, start, end), sizes=self.sizes[start:end], extent=extent
        )

    @property
    def n_documents(self) -> int:
        return sum(1 for size in self.sizes if size)


def _cut(rows: Any, start: int, end: int) -> Any:
    """Return some of the rows, in memory of their own: a slice of Arrow is sent to a worker with all that it is of."""
    if isinstance(rows, list) or (start == 0 and end == rows.num_rows):
        return rows[start:end]
    import numpy as np

    return rows.take(np.arange(start, end))


class InputFormat(Protocol):
    """A kind of file with documents in it."""

    def read(self, file: InputFile, start: int, columns: Columns) -> Iterator[Rows]:
        """Yield the rows of a file from row `start` on; runs in the process that hands out the work."""

    def parse(self, rows: Rows, columns: Columns) -> Iterator[Document]:
        """Yield the documents of rows; runs in the workers."""
