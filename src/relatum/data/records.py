"""Records: checking their fields and making documents of them."""

from __future__ import annotations

import difflib
import json
import math
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from relatum.data.duplicates import SeenIds
from relatum.data.problems import Problems, Remedy
from relatum.errors import Problem
from relatum.types import Document, Span

_SHOWN = 60
"""The most characters of a value that an error message shows."""


class BadRecord(Exception):
    """A record that cannot be used; `read_records` adds the file and line."""

    def __init__(self, found: str, expected: str, field: str | None = None, remedy: Remedy | None = None) -> None:
        super().__init__(f"{field or 'record'}: found {found}; expected {expected}")
        self.found = found
        self.expected = expected
        self.field = field
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Record:
    """A parsed JSON value and its place in the file; numbers count from 1.

    A doubtful record may hold values that only Python's JSON allows: lone surrogates and numbers that are not finite.
    """

    value: object
    line: int
    number: int
    doubtful: bool = False


def show(value: object) -> str:
    """Format a value for an error message: JSON-like, printable and short."""
    if isinstance(value, str) and len(value) > _SHOWN:
        value = value[:_SHOWN]  # a text of megabytes need not be escaped to show its beginning
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        try:
            text = repr(value)
        except (ValueError, RecursionError):
            text = f"a {type(value).__name__} too deep or too large to show"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "…"


def shorten(text: str) -> str:
    """Format a text for an error message: quoted, printable and short."""
    quoted = repr(text[: 2 * _SHOWN])
    return quoted if len(text) <= _SHOWN else quoted[: _SHOWN - 3] + "…"


class Field:
    """A value inside a record that knows its path, so that every complaint can name it.

    Making a Field costs more than looking at a value. The methods that take a key look at the value first, and make a
    Field only to complain.
    """

    __slots__ = ("_key", "_parent", "remarks", "value")
    remarks: list[str]

    def __init__(self, value: object, parent: Field | None = None, key: str | int = "") -> None:
        self.value = value
        self._parent = parent
        self._key = key

    @classmethod
    def root(cls, value: object) -> Field:
        """Make the field of a whole record, which gathers the remarks of all fields in it."""
        field = cls(value)
        field.remarks = []
        return field

    @property
    def path(self) -> str:
        """The keys and places from the record down, such as `entities[2].label`; a very long path lacks its middle."""
        parts: list[str] = []
        field: Field | None = self
        while field is not None:
            key = field._key
            if isinstance(key, int):
                parts.append(f"[{key}]")
            elif field._parent is not None or key:
                parts.append(f".{key if key.isprintable() and len(key) <= _SHOWN else show(key)}")
            field = field._parent
        path = "".join(reversed(parts)).removeprefix(".")
        return path if len(path) <= 5 * _SHOWN else f"{path[: 2 * _SHOWN]}…{path[-2 * _SHOWN :]}"

    def remark(self, what: str) -> None:
        """Say something about the record that a user should know although it can be read."""
        field = self
        while field._parent is not None:
            field = field._parent
        field.remarks.append(what)

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
            keys = ", ".join(map(repr, islice(mapping, 20)))
            raise self.bad(f"the key {key!r}", f"only {keys or 'no keys'}"[:200])
        return Field(mapping[key], self, key)

    def get(self, key: str) -> Field | None:
        """Return the field, or None if the key is absent or null."""
        value = self.mapping().get(key)
        return None if value is None else Field(value, self, key)

    def sequence(self) -> list[Any]:
        if not isinstance(self.value, list):
            raise self.bad("a list")
        return self.value

    def items(self, length: int | None = None) -> list[Field]:
        if not isinstance(self.value, list):
            raise self.bad("a list")
        if length is not None and len(self.value) != length:
            raise self.bad(f"a list of {length}")
        return [Field(value, self, i) for i, value in enumerate(self.value)]

    def text(self, empty: bool = False, surrogates: bool = False) -> str:
        """Return a string; with `surrogates` it may hold halves of surrogate pairs, which UTF-8 cannot express."""
        if not isinstance(self.value, str):
            raise self.bad("a string")
        if not self.value and not empty:
            raise self.bad("a string that is not empty")
        if not surrogates and not self.value.isascii():
            try:
                self.value.encode()
            except UnicodeEncodeError as error:
                at = error.start
                raise self.bad(
                    "valid Unicode text", f"the lone surrogate U+{ord(self.value[at]):04X} at character {at}"
                ) from None
        return self.value

    def texts(self) -> list[str]:
        """Return a list of strings, none empty; the common case is checked in one go."""
        value = self.value
        if isinstance(value, list) and all(type(item) is str and item for item in value) and "".join(value).isascii():
            return value
        return [item.text() for item in self.items()]

    def words(self) -> list[str]:
        """Return a list of strings, none empty; there must be at least one."""
        words = self.texts()
        if not words:
            raise self.bad("a list of words that is not empty")
        return words

    def name(self) -> str:
        """Return a string or a whole number as a string: ids come as either."""
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
        if isinstance(self.value, int | float) and not isinstance(self.value, bool):
            with suppress(OverflowError):
                if math.isfinite(self.value):
                    return float(self.value)
        raise self.bad("a finite number")

    def label(self, key: str) -> str:
        """Return the string under a key that must be there."""
        value = self.mapping().get(key)
        if type(value) is str and value and value.isascii():
            return value
        return self.need(key).text()

    def optional_name(self, key: str) -> str | None:
        value = self.mapping().get(key)
        if type(value) is str and value and value.isascii():
            return value
        return None if value is None else Field(value, self, key).name()

    def optional_number(self, key: str) -> float | None:
        value = self.mapping().get(key)
        return None if value is None else Field(value, self, key).number()

    def listed(self, key: str) -> Field:
        """Return the list under a key, as it comes; an empty list if the key is absent or null."""
        value = self.mapping().get(key)
        return Field([] if value is None else value, self, key)

    def lists(self, key: str) -> list[Field]:
        """Return the items of the list under a key; none if the key is absent or null."""
        return self.listed(key).items()

    def span(self, start: object, end: object, size: int, unit: str) -> Span:
        """Return a span whose ends were found inside this field, checked against the `size` of the text it lies in."""
        if type(start) is not int or type(end) is not int:
            raise self.bad(f"whole numbers for start and end, in {unit}")
        if not 0 <= start < end <= size:
            raise self.bad(f"0 <= start < end <= {size}, in {unit}")
        return Span(start, end)


def check_plain(field: Field) -> None:
    """Refuse lone surrogates and numbers that are not finite, anywhere in a value."""
    waiting = [field]
    while waiting:
        field = waiting.pop()
        value = field.value
        if isinstance(value, str):
            field.text(empty=True)
        elif isinstance(value, float):
            field.number()
        elif isinstance(value, list):
            waiting += field.items()
        elif isinstance(value, dict):
            for key, item in value.items():
                Field(key, field, key).text(empty=True)
                waiting.append(Field(item, field, key))


def read_records(
    path: Path, records: Iterator[Record], parse: Callable[[Field, str], Document | None], problems: Problems
) -> Iterator[Document]:
    """Parse each record into a document; a bad record becomes a problem with its place, and reading goes on.

    `parse` gets the record and the id to use if the record has no id of its own. It returns None for a record to leave
    out, and remarks why.
    """
    seen = SeenIds()
    stem = os.fsencode(path.stem).decode(errors="replace")
    try:
        for record in records:
            try:
                field = Field.root(record.value)
                document = parse(field, f"{stem}-{record.number}")
                if document is not None:
                    if record.doubtful or document.metadata:
                        check_plain(field)
                    first = seen.add(document.id, record.line)
                    if first is not None:
                        raise BadRecord(f"the id {show(document.id)} again (first on line {first})", "ids that differ")
                for remark in field.remarks:
                    problems.remark(remark, f"{path}:{record.line}")
                if document is not None:
                    yield document
            except BadRecord as bad:
                problems.add(Problem(str(path), bad.found, bad.expected, record.line, record.number, bad.field))
    finally:
        seen.close()
