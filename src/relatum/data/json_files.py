"""Reading JSON records with their place in the file: one a line, or the elements of one array."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path

from relatum.data.problems import Problems
from relatum.data.records import BadRecord, Record, show
from relatum.errors import Problem
from relatum.strict_json import StrictDecoder

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_LOOKED_AT = 100
"""The most lines or records of a file that are looked at to guess its format."""


def read_bytes(path: Path, problems: Problems) -> bytes | None:
    """Read a file without its byte-order mark; None, with a problem added, if it is UTF-16 or no file."""
    if path.exists() and not path.is_file():  # opening a pipe would wait for somebody to write to it
        problems.add(Problem(str(path), "a folder" if path.is_dir() else "a pipe or device", "a file"))
        return None
    data = path.read_bytes()
    if data.startswith(_UTF16):
        problems.add(Problem(str(path), "a UTF-16 file", "UTF-8; convert it with: iconv -f UTF-16 -t UTF-8"))
        return None
    return data.removeprefix(codecs.BOM_UTF8)


def read_text(path: Path, problems: Problems) -> str | None:
    """Read a file's text with its line ends as they are; None, with a problem added, if it is not UTF-8."""
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


def decode(line: bytes) -> str:
    """Decode a line strictly as UTF-8: json's own decoding of bytes lets surrogates through."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise BadRecord(f"a byte that is not UTF-8 at byte {error.start} of the line", "UTF-8 text") from None


def parse_json(text: str) -> object:
    """Parse one JSON value; whatever is wrong with it is a `BadRecord`."""
    decoder = StrictDecoder()
    value = _decode_json(text, decoder)
    if repeated := _repeated_key(decoder):
        raise repeated
    return value


def _repeated_key(decoder: StrictDecoder) -> BadRecord | None:
    """Return an error about the first key that an object of the last value has twice; None if there is none."""
    if not decoder.repeated:
        return None
    found = f"the key {show(decoder.repeated[0])} twice in one object"
    return BadRecord(found, "every key once: only one of its values could be read")


def _decode_json(text: str, decoder: StrictDecoder) -> object:
    decoder.repeated.clear()
    try:
        return decoder.decode(text)
    except RecursionError:
        raise BadRecord("values nested too deeply", "a JSON record of ordinary depth") from None
    except json.JSONDecodeError as error:
        raise BadRecord(f"{error.msg} at column {error.colno}", "valid JSON") from None
    except ValueError as error:
        raise BadRecord(str(error).partition(";")[0], "valid JSON") from None


def json_lines(path: Path, problems: Problems) -> Iterator[Record]:
    """Yield one JSON value a line, streamed; blank lines are passed over, broken lines become problems."""
    number = 0
    decoder = StrictDecoder()
    with path.open("rb") as lines:
        for index, line in enumerate(lines, 1):
            if index == 1 and line.startswith(_UTF16):
                read_bytes(path, problems)
                return
            line = line.removeprefix(codecs.BOM_UTF8)  # on later lines it is left from files put together
            if not line.strip():
                continue
            number += 1
            try:
                text = decode(line)
                value = _decode_json(text, decoder)
            except BadRecord as bad:
                problems.add(Problem(str(path), bad.found, f"{bad.expected}, one record a line", index, number))
                continue
            if repeated := _repeated_key(decoder):
                problems.add(Problem(str(path), repeated.found, repeated.expected, index, number))
            else:
                yield Record(value, index, number, _is_doubtful(text))


def json_array(path: Path, problems: Problems) -> Iterator[Record]:
    """Yield the elements of one JSON array, each with the line on which it starts; a repeated key is a problem."""
    decoder = StrictDecoder()
    for record in _array_elements(path, problems, decoder):
        if repeated := _repeated_key(decoder):
            problems.add(Problem(str(path), repeated.found, repeated.expected, record.line, record.number))
        else:
            yield record


def _array_elements(path: Path, problems: Problems, decoder: StrictDecoder) -> Iterator[Record]:
    text = read_text(path, problems)
    if text is None:
        return
    at = _blank(text, 0)
    line = 1
    counted = 0  # the place in the text up to which `line` counts
    number = 0

    def problem(found: str, expected: str) -> None:
        problems.add(Problem(str(path), found, expected, line + text.count("\n", counted, at), number or None))

    if text[at : at + 1] != "[":
        problem(show(text[at : at + 20]) if text[at:] else "an empty file", "a JSON array of records: [{…}, …]")
        return
    at = _blank(text, at + 1)
    while text[at : at + 1] != "]" or number:
        line += text.count("\n", counted, at)
        counted = at
        number += 1
        decoder.repeated.clear()
        try:
            value, at = decoder.raw_decode(text, at)
        except (RecursionError, ValueError) as error:
            at = getattr(error, "pos", at)
            return problem(*_explain(error))
        yield Record(value, line, number, _is_doubtful(text[counted:at]))
        at = _blank(text, at)
        if text[at : at + 1] == "]":
            break
        if text[at : at + 1] != ",":
            found = show(text[at : at + 20]) if at < len(text) else "the end of the file"
            return problem(found, "',' or ']' after a record; nothing after this place was read")
        at = _blank(text, at + 1)
    at = _blank(text, at + 1)
    if at < len(text):
        problem(show(text[at : at + 20]), "the end of the file after the array")


def _explain(error: RecursionError | ValueError) -> tuple[str, str]:
    """Return what was found and expected where JSON could not be decoded."""
    if isinstance(error, RecursionError):
        return "values nested too deeply", "records of ordinary depth; nothing after this place was read"
    found = str(error).partition(";")[0]
    if isinstance(error, json.JSONDecodeError):
        found = f"{error.msg} at column {error.colno}"
    return found, "valid JSON; nothing after this place was read"


def _blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def json_records(path: Path, problems: Problems) -> Iterator[Record]:
    """Read a file that is one array or one record a line, as its suffix or else its first character says."""
    return (json_array if _starts_array(path) else json_lines)(path, problems)


def first_record(path: Path) -> object:
    """Return the first JSON record of a file, for guessing its format; None if there is none near its start."""
    return next(iter(first_records(path)), None)


def first_records(path: Path) -> list[object]:
    """Return the JSON records near the start of a file, as far as they can be read."""
    status = path.stat()
    return _first_records(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=1)  # every format in turn asks about the same file
def _first_records(path: Path, _changed: int, _size: int) -> list[object]:
    if _starts_array(path):
        return [record.value for record in islice(_array_elements(path, Problems(), StrictDecoder()), _LOOKED_AT)]
    records: list[object] = []
    with path.open("rb") as lines:
        for line in islice(lines, _LOOKED_AT):
            with suppress(BadRecord):
                records.append(_decode_json(decode(line.removeprefix(codecs.BOM_UTF8)), StrictDecoder()))
    return records


def _starts_array(path: Path) -> bool:
    if path.suffix in (".jsonl", ".ndjson"):
        return False
    with path.open("rb") as file:
        return file.read(4096).removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"[")


def _is_doubtful(text: str) -> bool:
    return "\\u" in text or "NaN" in text or "Infinity" in text
