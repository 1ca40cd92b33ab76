"""Reading records with their place in the file, and checking their fields."""

from __future__ import annotations

import codecs
import difflib
import json
import math
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from relatum.data.problems import Problems
from relatum.errors import Problem
from relatum.types import Document, Span

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class BadRecord(Exception):
    """A record that cannot be used; `read_records` adds the file and line."""

    def __init__(self, found: str, expected: str, field: str | None = None) -> None:
        super().__init__(f"{field or 'record'}: found {found}; expected {expected}")
        self.found, self.expected, self.field = found, expected, field


@dataclass(frozen=True, slots=True)
class Record:
    """A parsed JSON value and where it stood; numbers count from 1."""

    value: object
    line: int
    number: int


def show(value: object) -> str:
    """A value as an error message shows it: JSON-like and short."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


class Field:
    """A value inside a record that knows its path, so that every complaint can name it."""

    __slots__ = ("_key", "_parent", "value")

    def __init__(self, value: object, parent: Field | None = None, key: str | int = "") -> None:
        self.value = value
        self._parent = parent
        self._key = key

    @property
    def path(self) -> str:
        above = self._parent.path if self._parent else ""
        if isinstance(self._key, int):
            return f"{above}[{self._key}]"
        return f"{above}.{self._key}" if above else self._key

    def bad(self, expected: str, found: str | None = None) -> BadRecord:
        return BadRecord(show(self.value) if found is None else found, expected, self.path or None)

    def mapping(self) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise self.bad("an object")
        return self.value

    def only(self, *keys: str) -> None:
        """Refuse keys that are not among `keys`, naming the nearest one."""
        for key in self.mapping():
            if key not in keys:
                near = difflib.get_close_matches(key, keys, 1)
                hint = f" (did you mean {near[0]!r}?)" if near else ""
                raise Field(self.value, self, key).bad(
                    f"one of {', '.join(keys)}{hint}", f"the unknown key {show(key)}"
                )

    def need(self, key: str) -> Field:
        mapping = self.mapping()
        if key not in mapping:
            raise self.bad(f"the key {key!r}", f"only {', '.join(map(repr, mapping)) or 'no keys'}"[:200])
        return Field(mapping[key], self, key)

    def get(self, key: str) -> Field | None:
        """The field, or None where the key is absent or null."""
        value = self.mapping().get(key)
        return None if value is None else Field(value, self, key)

    def items(self, length: int | None = None) -> list[Field]:
        if not isinstance(self.value, list):
            raise self.bad("a list")
        if length is not None and len(self.value) != length:
            raise self.bad(f"a list of {length}")
        return [Field(value, self, i) for i, value in enumerate(self.value)]

    def text(self, empty: bool = False) -> str:
        if not isinstance(self.value, str):
            raise self.bad("a string")
        if not self.value and not empty:
            raise self.bad("a string that is not empty")
        if not self.value.isascii():
            try:
                self.value.encode()
            except UnicodeEncodeError as error:
                at = error.start
                raise self.bad(
                    "valid Unicode text", f"the lone surrogate U+{ord(self.value[at]):04X} at character {at}"
                ) from None
        return self.value

    def texts(self) -> list[str]:
        """A list of strings, none empty; the common case is checked in one go."""
        value = self.value
        if isinstance(value, list) and all(type(item) is str and item for item in value) and "".join(value).isascii():
            return value
        return [item.text() for item in self.items()]

    def name(self) -> str:
        """A string or a whole number, as a string: ids come as either."""
        if isinstance(self.value, int) and not isinstance(self.value, bool):
            return str(self.value)
        return self.text()

    def integer(self, low: int | None = None, high: int | None = None) -> int:
        value = self.value
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.bad("a whole number")
        if low is not None and value < low:
            raise self.bad(f"a number of at least {low}")
        if high is not None and value > high:
            raise self.bad(f"a number of at most {high}")
        return value

    def number(self) -> float:
        if isinstance(self.value, bool) or not isinstance(self.value, int | float) or not math.isfinite(self.value):
            raise self.bad("a finite number")
        return float(self.value)

    def span(self, start: object, end: object, size: int, unit: str) -> Span:
        """A span whose ends were found inside this field, checked against the size of what it lies in."""
        if type(start) is not int or type(end) is not int:
            raise self.bad(f"whole numbers for start and end, in {unit}")
        if not 0 <= start < end <= size:
            raise self.bad(f"0 <= start < end <= {size}, in {unit}")
        return Span(start, end)


def read_bytes(path: Path, problems: Problems) -> bytes | None:
    """The file without its byte-order mark; None, with a problem added, where it is UTF-16."""
    data = path.read_bytes()
    if data.startswith(_UTF16):
        problems.add(Problem(str(path), "a UTF-16 file", "UTF-8; convert it with: iconv -f UTF-16 -t UTF-8"))
        return None
    return data.removeprefix(codecs.BOM_UTF8)


def read_text(path: Path, problems: Problems) -> str | None:
    """The file's text with its line ends as they are; None, with a problem added, where it is not UTF-8."""
    data = read_bytes(path, problems)
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError as error:
        assert data is not None
        line = data.count(b"\n", 0, error.start) + 1
        problems.add(
            Problem(str(path), f"the byte 0x{data[error.start]:02X}, which is not UTF-8", "a UTF-8 file", line)
        )
        return None


def parse_json(text: str | bytes) -> object:
    """Parse one JSON value; whatever is wrong with it is a `BadRecord`."""
    try:
        return json.loads(text)
    except UnicodeDecodeError as error:
        raise BadRecord(f"a byte that is not UTF-8 at byte {error.start} of the line", "UTF-8 text") from None
    except RecursionError:
        raise BadRecord("values nested too deeply", "a JSON record of ordinary depth") from None
    except json.JSONDecodeError as error:
        raise BadRecord(f"{error.msg} at column {error.colno}", "valid JSON") from None
    except ValueError as error:
        raise BadRecord(str(error).partition(";")[0], "valid JSON") from None


def json_lines(path: Path, problems: Problems) -> Iterator[Record]:
    """One JSON value a line, streamed; blank lines are passed over, broken ones become problems."""
    number = 0
    with path.open("rb") as lines:
        for index, line in enumerate(lines, 1):
            if index == 1:
                if line.startswith(_UTF16):
                    read_bytes(path, problems)
                    return
                line = line.removeprefix(codecs.BOM_UTF8)
            if line.isspace():
                continue
            number += 1
            try:
                yield Record(parse_json(line), index, number)
            except BadRecord as bad:
                problems.add(Problem(str(path), bad.found, f"{bad.expected}, one record a line", index, number))


def json_array(path: Path, problems: Problems) -> Iterator[Record]:
    """The elements of one JSON array, each with the line on which it starts."""
    text = read_text(path, problems)
    if text is None:
        return
    decoder = json.JSONDecoder()
    at, line, number, counted = _blank(text, 0), 1, 0, 0

    def problem(found: str, expected: str) -> None:
        problems.add(Problem(str(path), found, expected, line + text.count("\n", counted, at), number or None))

    if text[at : at + 1] != "[":
        problem(show(text[at : at + 20]) if text[at:] else "an empty file", "a JSON array of records: [{…}, …]")
        return
    at = _blank(text, at + 1)
    if text[at : at + 1] == "]":
        return
    while True:
        line, counted, number = line + text.count("\n", counted, at), at, number + 1
        try:
            value, at = decoder.raw_decode(text, at)
        except RecursionError:
            return problem("values nested too deeply", "a JSON record of ordinary depth")
        except json.JSONDecodeError as error:
            at = error.pos
            return problem(f"{error.msg} at column {error.colno}", "valid JSON; nothing after this place was read")
        except ValueError as error:
            return problem(str(error).partition(";")[0], "valid JSON; nothing after this place was read")
        yield Record(value, line, number)
        at = _blank(text, at)
        if text[at : at + 1] == "]":
            at = _blank(text, at + 1)
            if at < len(text):
                problem(show(text[at : at + 20]), "the end of the file after the array")
            return
        if text[at : at + 1] != ",":
            found = show(text[at : at + 20]) if at < len(text) else "the end of the file"
            return problem(found, "',' or ']' after a record; nothing after this place was read")
        at = _blank(text, at + 1)


def _blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def json_records(path: Path, problems: Problems) -> Iterator[Record]:
    """Records of a file that is either one array or one record a line, whichever its first character says."""
    return (json_array if _starts_array(path) else json_lines)(path, problems)


def first_record(path: Path) -> object:
    """The first JSON record near the start of a file, for guessing its format; None where there is none."""
    status = path.stat()
    return _first_record(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=1)  # every format in turn asks about the same file
def _first_record(path: Path, _changed: int, _size: int) -> object:
    if _starts_array(path):
        return next((record.value for record in json_array(path, Problems())), None)
    with path.open("rb") as lines:
        for line in islice(lines, 100):
            with suppress(BadRecord):
                return parse_json(line.removeprefix(codecs.BOM_UTF8))
    return None


def _starts_array(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4096).removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"[")


class SeenIds:
    """Remembers which id stood where, for any number of ids: beyond a cache they live in a temporary file."""

    def __init__(self) -> None:
        self._base = sqlite3.connect("")
        self._base.execute("PRAGMA journal_mode = OFF")
        self._base.execute("CREATE TABLE ids (id TEXT PRIMARY KEY, line INTEGER) WITHOUT ROWID")

    def add(self, name: str, line: int) -> int | None:
        """Remember the id; the line of its first use where it was known already."""
        if self._base.execute("INSERT OR IGNORE INTO ids VALUES (?, ?)", (name, line)).rowcount:
            return None
        first: int = self._base.execute("SELECT line FROM ids WHERE id = ?", (name,)).fetchone()[0]
        return first

    def close(self) -> None:
        self._base.close()


def read_records(
    path: Path, records: Iterator[Record], parse: Callable[[Field, str], Document], problems: Problems
) -> Iterator[Document]:
    """Parse each record into a document; a bad one becomes a problem with its place, and the rest go on.

    `parse` gets the record and the id to use where the record has none of its own.
    """
    seen = SeenIds()
    try:
        for record in records:
            try:
                document = parse(Field(record.value), f"{path.stem}-{record.number}")
                first = seen.add(document.id, record.line)
                if first is not None:
                    raise BadRecord(f"the id {show(document.id)} again (first on line {first})", "ids that differ")
                yield document
            except BadRecord as bad:
                problems.add(Problem(str(path), bad.found, bad.expected, record.line, record.number, bad.field))
    finally:
        seen.close()
