"""The formats of a job's input: Parquet, JSONL, CSV and text files, read once, from any row."""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from math import isfinite
from pathlib import Path
from typing import IO, Any

from relatum.errors import RelatumError
from relatum.scale.rows import Columns, Document, InputFile, InputFormat, Rows

MAX_LINE = 2**26
"""The longest line in bytes that is kept; a longer line becomes an error row."""
COMPRESSION = {".gz": "gzip", ".zst": "zstd"}

_BLOCK = 256
"""The number of lines, or of rows, that are handed on at once."""
_ENOUGH = 20
_PEEKED = 100
"""The number of lines of a JSONL file that are searched for the columns that were asked for."""


@contextmanager
def open_stored(path: str) -> Iterator[IO[bytes]]:
    """Open a file of the input as it is stored."""
    if path.startswith("file://"):  # a name may hold what means something in URLs
        with Path(path.removeprefix("file://")).open("rb") as stored:
            yield stored
        return
    import fsspec

    with fsspec.open(path, "rb") as stored:
        yield stored


@contextmanager
def _open(file: InputFile) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Open a file for reading; yield it decompressed, and as it is."""
    import pyarrow as pa

    with open_stored(file.path) as stored:
        for suffix, codec in COMPRESSION.items():
            if file.name.lower().endswith(suffix):
                with pa.CompressedInputStream(pa.PythonFile(stored, "r"), codec) as stream:
                    yield io.BufferedReader(stream, 2**20), stored
                return
        raw: Any = stored
        yield io.BufferedReader(raw, 2**20), stored  # files of object stores cannot read a part of a line


class _Block:
    """Rows of a file that are gathered until they are handed on."""

    def __init__(self, file: InputFile, first: int, stored: IO[bytes]) -> None:
        self._file, self._first, self._stored = file, first, stored
        self._rows: list[Any] = []
        self._sizes: list[int] = []
        self._begin = stored.tell()

    def add(self, row: Any, size: int) -> bool:
        """Add a row; return True if the block is full."""
        self._rows.append(row)
        self._sizes.append(size)
        return len(self._rows) == _BLOCK

    def take(self) -> Iterator[Rows]:
        """Yield the rows, if there are any, and begin the next block."""
        if self._rows:
            end = self._stored.tell()
            yield Rows(self._file, self._first, self._rows, self._sizes, (self._begin, end))
            self._first += len(self._rows)
            self._rows, self._sizes, self._begin = [], [], end


def _made_id(file: InputFile, row: int) -> str:
    """Make the id of a document that has none: its file and its line."""
    return _storable(f"{file.name}:{row + 1}")


def _storable(text: str) -> str:
    """Replace what UTF-8 cannot hold, such as bytes of a file name."""
    return text.encode(errors="replace").decode()


class _Jsonl:
    """One JSON object per line."""

    def read(self, file: InputFile, start: int, columns: Columns) -> Iterator[Rows]:
        with _open(file) as (stream, stored):
            lines = _lines(stream)
            if start == 0:
                first = list(islice(lines, _PEEKED))
                self._check_first(file, first, columns)
                lines = chain(first, lines)
            deque(islice(lines, start), maxlen=0)
            block = _Block(file, start, stored)
            for line in lines:
                if block.add(line, len(line) if line.strip() else 0):
                    yield from block.take()
            yield from block.take()

    def parse(self, rows: Rows, columns: Columns) -> Iterator[Document]:
        for number, line in enumerate(rows.rows, rows.first):
            if line.strip():
                yield self._parse_line(line, _made_id(rows.file, number), columns)

    def _check_first(self, file: InputFile, lines: Sequence[bytes], columns: Columns) -> None:
        """Refuse a file if a column that was asked for is in none of its first lines."""
        records = [record for line in lines if isinstance(record := _read_object(line), dict)]
        names = list(dict.fromkeys(name for record in records for name in record))
        if len(records) < _ENOUGH:
            columns = replace(columns, keep=())  # some lines may lack what is only kept
        if records:
            check_columns(file, names, columns)

    def _parse_line(self, line: bytes, made: str, columns: Columns) -> Document:
        none = (None,) * len(columns.keep)
        if len(line) > MAX_LINE:
            return Document(made, None, none, f"the line is longer than {MAX_LINE:,} bytes")
        record = _read_object(line)
        if isinstance(record, str):
            return Document(made, None, none, record)
        id = record.get(columns.id or "id")
        kept = tuple(record.get(name) for name in columns.keep)
        error = None if columns.text in record else f"the line has no {columns.text!r}"
        return Document(_id_or(id, made), record.get(columns.text), kept, error)


def _read_object(line: bytes) -> dict[str, Any] | str:
    """Parse the JSON object of a line; return the reason if it has none."""
    from relatum.data.json_files import decode, parse_json
    from relatum.data.records import BadRecord

    try:
        record = parse_json(decode(line.removeprefix(b"\xef\xbb\xbf")))
    except BadRecord as bad:
        return f"found {bad.found}; expected {bad.expected}"
    return record if isinstance(record, dict) else "the line is not a JSON object"


def _lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield lines; a line that is too long is cut after `MAX_LINE` + 1 bytes, and the rest of it is passed over."""
    while line := stream.readline(MAX_LINE + 1):
        yield line
        while len(line) > MAX_LINE and not line.endswith(b"\n"):
            line = stream.readline(MAX_LINE + 1)
            if not line:
                break


def _id_or(id: object, made: str) -> str:
    if isinstance(id, str) and id:
        return _storable(id)
    if isinstance(id, float) and isfinite(id):
        return str(int(id)) if id == int(id) else str(id)  # pandas makes floats of whole numbers where some are missing
    if isinstance(id, bytes):
        return id.decode(errors="replace")
    return made if id is None or isinstance(id, str | float | bool | list | dict) else str(id)


class _Csv:
    """Comma- or tab-separated values with the names of the columns in the first line."""

    def read(self, file: InputFile, start: int, columns: Columns) -> Iterator[Rows]:
        csv.field_size_limit(MAX_LINE)
        tabs = ".tsv" in Path(file.name.lower()).suffixes[-2:]
        with _open(file) as (stream, stored):
            # Bytes that are not UTF-8 come through as surrogates, and become the error of their row.
            lines = _Recorder(io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline=""))
            reader = csv.reader(lines, delimiter="\t" if tabs else ",")
            header = next(reader, [])
            check_columns(file, header, columns)
            deque(islice(reader, start), maxlen=0)
            block = _Block(file, start, stored)
            while (row := lines.read_row(reader)) is not None:
                # Each row has the names of its columns: rows travel to the workers without their file.
                if block.add((header, row), sum(map(len, row)) + 1 if row else 0):
                    yield from block.take()
            lines.check_last(file, reader)
            yield from block.take()

    def parse(self, rows: Rows, columns: Columns) -> Iterator[Document]:
        for number, (header, values) in enumerate(rows.rows, rows.first):
            if not values:
                continue
            record = dict(zip(header, values, strict=False))
            made = _made_id(rows.file, number)
            kept = tuple(_none_if_broken(record.get(name)) for name in columns.keep)
            error = None
            if len(values) != len(header):
                error = f"the row has {len(values)} values; expected {len(header)}, as the first line has"
            text = record.get(columns.text)
            if text is not None and not _is_utf8(text):
                text, error = None, "the text holds bytes that are not UTF-8"
            yield Document(_id_or(record.get(columns.id or "id"), made), text, kept, error)


class _Recorder:
    """Lines on their way to a reader of CSV, with those of the last row."""

    def __init__(self, lines: IO[str]) -> None:
        self._lines = lines
        self._last: list[str] = []

    def __iter__(self) -> _Recorder:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self._last.append(line)
        return line

    def read_row(self, reader: Iterator[list[str]]) -> list[str] | None:
        """Return the next row, None at the end of the file."""
        before, self._last = self._last, []
        row = next(reader, None)
        if row is None:
            self._last = before
        return row

    def check_last(self, file: InputFile, reader: Any) -> None:
        """Refuse a file that ends inside a quoted value: all that follows the quote was taken for one value."""
        try:
            list(csv.reader(self._last, reader.dialect, strict=True))
        except csv.Error as error:
            if "end of data" in str(error):
                raise RelatumError(
                    f"{file.path}: a quote in line {reader.line_num - len(self._last) + 1} is never closed, so that "
                    'the lines after it cannot be told apart; close it, or write it as ""'
                ) from None


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _none_if_broken(value: str | None) -> str | None:
    return value if value is None or _is_utf8(value) else None


def check_columns(file: InputFile, names: Sequence[str], columns: Columns) -> None:
    """Refuse a file that lacks a column that was asked for."""
    if not names:
        raise RelatumError(f"{file.path}: the file is empty; expected columns, among them {columns.text!r}")
    wanted = [columns.text, *([columns.id] if columns.id else []), *columns.keep]
    for name in wanted:
        if name not in names:
            hint = "; the values seem to be separated by ;, expected ," if len(names) == 1 and ";" in names[0] else ""
            raise RelatumError(
                f"{file.path}: there is no column {name!r}; its columns are {_storable(', '.join(names))}{hint} "
                "(--text-column, --id-column, --keep)"
            )
    for name in [*wanted, "id"]:
        if names.count(name) > 1:
            raise RelatumError(f"{file.path}: there are several columns {name!r}; rename all but one")


class _Parquet:
    """Parquet files, read by row groups."""

    def read(self, file: InputFile, start: int, columns: Columns) -> Iterator[Rows]:
        import pyarrow.parquet as pq

        with open_stored(file.path) as stream:
            parquet = pq.ParquetFile(stream, pre_buffer=False)
            names = parquet.schema_arrow.names
            check_columns(file, names, columns)
            id = columns.id or ("id" if "id" in names else None)
            wanted = list(dict.fromkeys([columns.text, *([id] if id else []), *columns.keep]))
            first = 0
            for group in range(parquet.num_row_groups):
                n_rows = parquet.metadata.row_group(group).num_rows
                if first + n_rows > start:
                    batches = parquet.iter_batches(_BLOCK, row_groups=[group], columns=wanted, use_threads=False)
                    yield from _after(batches, file, first, start, columns.text, parquet.metadata.num_rows)
                first += n_rows

    def parse(self, rows: Rows, columns: Columns) -> Iterator[Document]:
        batch = rows.rows
        names = batch.schema.names
        ids = batch[columns.id or "id"] if (columns.id or "id") in names else None
        texts = batch[columns.text]
        kept = [batch[name] for name in columns.keep]
        for index in range(batch.num_rows):
            made = _made_id(rows.file, rows.first + index)
            id = None if ids is None else _value(ids, index)
            text = _value(texts, index)
            error = None
            if text is _BROKEN:
                text, error = None, "the text holds bytes that are not UTF-8"
            values = [_value(column, index) for column in kept]
            yield Document(
                _id_or(None if id is _BROKEN else id, made),
                text,
                tuple(None if value is _BROKEN else value for value in values),
                error,
            )


_BROKEN = object()


def _value(column: Any, index: int) -> Any:
    """Return a value of a column; `_BROKEN` if Python has no such value."""
    try:
        return column[index].as_py()
    except (ValueError, OverflowError):  # bytes that are not UTF-8, or a date after the year 9999
        return _BROKEN


def _after(
    batches: Iterator[Any], file: InputFile, first: int, start: int, text_column: str, n_rows: int
) -> Iterator[Rows]:
    """Yield the record batches of a row group, without the rows before `start`; the file has `n_rows`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    per_row = file.size / n_rows
    for batch in batches:
        skipped = max(0, start - first)
        if skipped < batch.num_rows:
            left = batch.slice(skipped)
            texts = left[text_column]
            if pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type):
                sizes = [size + 1 for size in pc.fill_null(pc.binary_length(texts), 0).to_pylist()]
            else:
                sizes = [1] * left.num_rows
            extent = per_row * (first + skipped), per_row * (first + batch.num_rows)
            yield Rows(file, first + skipped, left, sizes, extent)
        first += batch.num_rows


class _Text:
    """Text files, each a document; its id is its path without .txt."""

    def read(self, file: InputFile, start: int, columns: Columns) -> Iterator[Rows]:
        if start == 0:
            if columns.keep or columns.id or columns.text != Columns().text:
                raise RelatumError(
                    f"{file.path}: a text file has no columns; leave out --text-column, --id-column and --keep"
                )
            yield Rows(file, 0, [file.path], [file.size + 1], (0, file.size))

    def parse(self, rows: Rows, columns: Columns) -> Iterator[Document]:
        id = _storable(rows.file.name.removesuffix(".txt"))
        none = (None,) * len(columns.keep)
        for path in rows.rows:
            try:
                with open_stored(path) as stream:
                    yield Document(id, stream.read().decode("utf-8-sig"), none)
            except UnicodeDecodeError as error:
                yield Document(id, None, none, f"byte {error.start} of the file is not UTF-8")
            except OSError as error:
                yield Document(id, None, none, f"the file cannot be read: {error.strerror or error}")


SUFFIXES = {"parquet": ("parquet", "pq"), "jsonl": ("jsonl", "ndjson"), "csv": ("csv", "tsv"), "text": ("txt",)}
FORMATS: dict[str, InputFormat] = {"parquet": _Parquet(), "jsonl": _Jsonl(), "csv": _Csv(), "text": _Text()}
