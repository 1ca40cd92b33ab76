"""The sources of texts of `relatum extract`: an argument, a file, a folder, or standard input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from relatum.data.problems import Problems
    from relatum.data.records import Field, Record
    from relatum.types import Document

_LINES = '{"text": "…"} on each line'


@dataclass(frozen=True, slots=True)
class TextSource:
    """A source of texts that can be read more than once; a text that cannot be used becomes a problem."""

    where: str
    read: Callable[[Problems], Iterator[Document]]
    many: bool = False
    """True if the source may hold several texts, even if it holds only one."""
    expected: str = "text"


def find_source(text: str | None, path: Path | None) -> TextSource:
    """Return the source of the given text, of the file or folder at the path, or else of standard input."""
    from relatum.errors import RelatumError

    if text is not None and path is not None:
        raise typer.BadParameter("TEXT and --input are both given; leave one out")
    if path is None:
        return _standard_input() if text is None else _one_text(_argument(text))
    if path.is_dir():
        return TextSource(
            str(path), lambda problems: _read_folder(path, problems), True, "files whose names end in .txt"
        )
    if not path.exists():
        raise RelatumError(f"{path}: no such file or folder")
    if not path.is_file():
        raise RelatumError(f"{path}: neither a file nor a folder; pipe its text in, or save it as a file")
    if path.suffix.lower() == ".json":
        raise RelatumError(f'{path}: texts are not read from .json; expected .jsonl with {{"text": "…"}} on each line')
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return TextSource(str(path), lambda problems: _read_lines(path, problems), True, _LINES)
    return TextSource(str(path), lambda problems: _read_file(path, path.stem, problems))


def _one_text(text: str) -> TextSource:
    from relatum.types import Document

    return TextSource("the text", lambda _: iter([Document("text", text)]))


def _argument(text: str) -> str:
    from contextlib import suppress

    from relatum.cli.console import say

    try:
        text.encode()
    except UnicodeEncodeError:
        raise typer.BadParameter("TEXT is not UTF-8; save it in a file of that encoding and use --input") from None
    with suppress(OSError):  # most texts cannot be the name of a file
        if Path(text).is_file():
            say(f"{text} is taken as the text itself; to read the file of that name use --input")
    return text


def _standard_input() -> TextSource:
    """Read standard input as one text, or as JSONL if the first line is a record with a text."""
    import codecs

    from relatum.cli.console import say
    from relatum.errors import RelatumError

    if sys.stdin is None or sys.stdin.isatty():
        raise typer.BadParameter(
            "there is no text; give it as an argument in quotes, name a file or folder with --input, or pipe it in"
        )
    data = sys.stdin.buffer.read().removeprefix(codecs.BOM_UTF8)
    if _begins_with_record(data):
        say('standard input is read as JSONL, since its first line is an object with a "text"')
        return TextSource("standard input", lambda problems: _read_piped_lines(data, problems), True, _LINES)
    try:
        return _one_text(data.decode())
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RelatumError(
            f"standard input, line {line}: found the byte 0x{data[error.start]:02X}, which is not UTF-8; expected "
            "UTF-8 text; convert it with iconv -t UTF-8 -f and its encoding"
        ) from None


def _begins_with_record(data: bytes) -> bool:
    from relatum.data.json_files import decode, parse_json
    from relatum.data.records import BadRecord

    first = data.lstrip().partition(b"\n")[0]
    if not first.startswith(b"{"):
        return False
    try:
        record = parse_json(decode(first))
    except BadRecord:
        return False
    return isinstance(record, dict) and "text" in record


def _read_file(path: Path, id: str, problems: Problems) -> Iterator[Document]:
    import os

    from relatum.data.json_files import read_text
    from relatum.types import Document

    text = read_text(path, problems)
    if text is not None:
        yield Document(os.fsencode(id).decode(errors="replace"), text)


def _read_folder(folder: Path, problems: Problems) -> Iterator[Document]:
    from relatum.data.formats.base import natural_order
    from relatum.errors import Problem

    names = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if not path.is_dir()}
    seen: dict[str, Path] = {}
    for name in sorted(names, key=natural_order):
        path = names[name]
        if path.suffix.lower() != ".txt":
            problems.remark("file whose name does not end in .txt, which was not read", str(path))
            continue
        id = name[: -len(".txt")]
        first = seen.setdefault(id, path)
        if first is not path:
            problems.add(Problem(str(path), f"the id of {first.name} again", "names that differ before .txt"))
            continue
        yield from _read_file(path, id, problems)


def _read_lines(path: Path, problems: Problems) -> Iterator[Document]:
    from relatum.data.json_files import json_lines
    from relatum.data.records import read_records

    return read_records(path, json_lines(path, problems), _parse, problems)


def _read_piped_lines(data: bytes, problems: Problems) -> Iterator[Document]:
    from relatum.data.records import read_records

    return read_records(Path("stdin"), _piped_records(data, problems), _parse, problems)


def _piped_records(data: bytes, problems: Problems) -> Iterator[Record]:
    """Yield the records of piped JSONL, like `json_lines`, which reads files."""
    import io

    from relatum.data.json_files import decode, parse_json
    from relatum.data.records import BadRecord, Record
    from relatum.errors import Problem

    number = 0
    for index, line in enumerate(io.BytesIO(data), 1):
        if not line.strip():
            continue
        number += 1
        try:
            yield Record(parse_json(decode(line)), index, number, doubtful=True)
        except BadRecord as bad:
            problems.add(Problem("stdin", bad.found, f"{bad.expected}, one record a line", index, number))


def _parse(record: Field, name: str) -> Document:
    from relatum.types import Document

    return Document(record.optional_name("id") or name, record.need("text").text(empty=True))
