"""Shards: the parts of a job that are read, written and committed as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

from relatum.scale.formats import FORMATS
from relatum.scale.inputs import Source
from relatum.scale.rows import Columns, Document, Position, Rows


@dataclass(frozen=True, slots=True)
class Shard:
    """Consecutive documents of the input, not parsed yet."""

    number: int
    parts: tuple[Rows, ...]
    end: Position
    """The position behind the last row."""
    input_bytes: int
    """The bytes of the input before that position, roughly; of compressed files, compressed bytes."""

    @property
    def n_documents(self) -> int:
        return sum(part.n_documents for part in self.parts)

    def documents(self, format: str, columns: Columns) -> list[Document]:
        """Parse the documents."""
        parser = FORMATS[format]
        return [document for part in self.parts for document in parser.parse(part, columns)]


@dataclass(frozen=True, slots=True)
class ShardSize:
    """The size of a shard: it ends with the document that reaches one of the two limits."""

    documents: int = 1000
    bytes: int = 8 * 2**20


@dataclass(slots=True)
class _Cutter:
    """Rows that are gathered until they make a shard."""

    size: ShardSize
    parts: list[Rows] = field(default_factory=list)
    n_documents: int = 0
    n_bytes: int = 0

    def count_fitting(self, rows: Rows) -> int:
        """Return how many of the rows still belong to the shard: at least one."""
        n_documents = self.n_documents
        for number, n_bytes in enumerate(accumulate(rows.sizes, initial=self.n_bytes)):
            if number and n_bytes >= self.size.bytes:
                return number
            if number < len(rows.sizes):
                n_documents += rows.sizes[number] > 0
                if n_documents >= self.size.documents:
                    return number + 1
        return len(rows.sizes)

    def add(self, rows: Rows) -> None:
        self.parts.append(rows)
        self.n_documents += rows.n_documents
        self.n_bytes += sum(rows.sizes)

    @property
    def is_full(self) -> bool:
        return self.n_documents >= self.size.documents or self.n_bytes >= self.size.bytes

    def take(self, number: int) -> Shard:
        last = self.parts[-1]
        end = Position(last.file.index, last.first + len(last.sizes))
        shard = Shard(number, tuple(self.parts), end, last.file.bytes_before + round(last.extent[1]))
        self.parts, self.n_documents, self.n_bytes = [], 0, 0
        return shard


def cut_shards(source: Source, columns: Columns, size: ShardSize, committed: Mapping[int, Position]) -> Iterator[Shard]:
    """Yield the shards that are not committed, in order; `committed` has the end of each shard that is.

    The input is read once: committed shards are passed over by their positions. The shards do not depend on what is
    committed, so that a job that was stopped cuts the same shards again.
    """
    number = 0
    position = Position(0, 0)
    while True:
        while number in committed:
            position = committed[number]
            number += 1
        n_before = number
        for shard in _cut_from(source, columns, size, position, number):
            yield shard
            number, position = shard.number + 1, shard.end
            if number in committed:
                break
        else:
            return
        assert number > n_before


def _cut_from(source: Source, columns: Columns, size: ShardSize, start: Position, number: int) -> Iterator[Shard]:
    cutter = _Cutter(size)
    for rows in source.read(start, columns):
        while len(rows.sizes):
            n_taken = cutter.count_fitting(rows)
            cutter.add(rows.part(0, n_taken))
            rows = rows.part(n_taken, len(rows.sizes))
            if cutter.is_full:
                yield cutter.take(number)
                number += 1
    if cutter.n_documents:
        yield cutter.take(number)
