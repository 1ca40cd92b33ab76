"""Folders with one file for each document, whose name is the document's id."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from relatum.data.formats.base import natural_order
from relatum.data.formats.file_names import FileNames, id_of, is_unicode
from relatum.data.problems import Problems
from relatum.data.records import BadRecord, shorten, show
from relatum.errors import FormatError, Problem
from relatum.types import Document

_LOOKED_AT = 10_000
"""The most files that are looked at to guess the format of a folder."""
_LONGEST = 255
"""The most bytes that the name of a file or folder may have on almost all systems."""

Parse = Callable[[Path, str, Problems], Document | None]
"""A function from a file and the id of its document to the document; None if it added problems."""


class BadLine(BadRecord):
    """A line of a file that cannot be used."""

    def __init__(self, line: int, found: str, expected: str) -> None:
        super().__init__(found, expected)
        self.line = line


def recognise_files(path: Path, suffix: str, start: bytes) -> bool:
    """True if a file, or one of the first files of a folder with the suffix, has `start` near its beginning."""
    try:
        files = _files(path, suffix) if path.is_dir() else iter([path])
        return any(_has_start(file, start) for file in islice(files, 10))
    except OSError:
        return False


def _files(folder: Path, suffix: str) -> Iterator[Path]:
    names = (Path(parent, name) for parent, _, files in os.walk(folder) for name in sorted(files))
    return (path for path in islice(names, _LOOKED_AT) if path.suffix == suffix)


def _has_start(file: Path, start: bytes) -> bool:
    if not file.is_file():
        return False
    with file.open("rb") as content:
        return start in content.read(2048)


def read_folder(path: Path, suffix: str, parse: Parse, problems: Problems) -> Iterator[Document]:
    """Yield the documents of a folder, in the natural order of their names, or of a single file."""
    files = [path] if path.is_file() else [file for file in path.rglob(f"*{suffix}") if file.name != suffix]
    root = path.parent if path.is_file() else path
    named = {file.relative_to(root).as_posix(): file for file in files}
    if not files:
        problems.add(Problem(str(path), f"no {suffix} file", f"a folder of {suffix} files"))
    for name in sorted(named, key=natural_order):
        file = named[name]
        try:
            if not is_unicode(name):
                raise BadRecord("a file name that cannot be an id", "a name in UTF-8")
            document = parse(file, id_of(name.removesuffix(suffix)), problems)
        except OSError as error:
            problems.add(Problem(_readable(file), error.strerror or "an error", "a file that can be read"))
        except BadRecord as bad:
            line = bad.line if isinstance(bad, BadLine) else None
            problems.add(Problem(_readable(file), bad.found, bad.expected, line, field=bad.field))
        else:
            if document is not None:
                yield document


def _readable(file: Path) -> str:
    return os.fsencode(file).decode(errors="replace")


def check_name(document: Document, suffix: str) -> None:
    """Refuse a document whose id makes no file name."""
    name = FileNames().of(document.id) + suffix
    width = max(len(part.encode()) for part in name.split("/"))
    if width > _LONGEST:
        raise BadRecord(f"an id that makes a file name of {width} bytes", f"{_LONGEST} at most; shorten the id")


def write_folder(path: Path, suffix: str, documents: Iterable[Document], content: Callable[[Document], str]) -> None:
    """Write one file for each document."""
    path.mkdir(parents=True, exist_ok=True)
    names = FileNames()
    for document in documents:
        try:
            check_name(document, suffix)
            file = path / (names.of(document.id) + suffix)
            text = content(document)
        except BadRecord as bad:
            raise FormatError(f"document {shorten(document.id)}: found {bad.found}; expected {bad.expected}") from None
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text.encode())


def check_text(document: Document) -> None:
    """Refuse a text that UTF-8 cannot hold."""
    if not is_unicode(document.text):
        raise BadRecord(f"the text {show(document.text)}", "valid Unicode text")
