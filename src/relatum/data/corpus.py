"""A corpus on disk: a file, a folder of files, or a folder that is one format by itself."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from relatum.data.formats import FORMATS, Format, get_format, guess_format, nearest_formats
from relatum.data.formats.label_studio.labeling import CONFIG_FILE
from relatum.data.json_files import first_records
from relatum.data.problems import Problems
from relatum.data.records import show
from relatum.errors import FormatError, RelatumError
from relatum.schema import Schema
from relatum.types import Document

_ORDER = ("train", "dev", "valid", "test")
_LABELS = "a file of labels"
_SHOWN = 20
"""The most keys of a record, or files of a folder, that an error message names."""


@dataclass(frozen=True, slots=True)
class Part:
    """One split of a corpus: a file, or a folder where the format is one."""

    name: str
    path: Path
    format: Format

    def read(self, problems: Problems) -> Iterator[Document]:
        return self.format.read(self.path, problems)


@dataclass(frozen=True, slots=True)
class Corpus:
    """The parts of a corpus (train, dev and test first), the files of its folder that are no parts, and its labels."""

    path: Path
    parts: tuple[Part, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    schema: Schema | None = None
    """The schema in a file of labels beside the data, if there is one."""

    @property
    def format_names(self) -> str:
        return ", ".join(dict.fromkeys(part.format.name for part in self.parts))

    def skipped_lines(self) -> list[str]:
        """Return a line for each file of the folder that is no part."""
        return [f"skipped {name}: {reason}" for name, reason in self.skipped]


def open_corpus(path: Path, format_name: str | None = None) -> Corpus:
    """Find the parts of a corpus; formats are guessed from the content if none is named."""
    format = get_format(format_name) if format_name else None
    if not path.exists():
        raise RelatumError(f"{path}: no such file or folder")
    if path.is_file():
        return Corpus(path, (Part(_readable(path.stem), path, format or _guess_file(path)),))
    if not path.is_dir():
        raise RelatumError(f"{path}: neither a file nor a folder; save what comes from it as a file")
    whole = format or guess_format(path)
    if whole is not None and not whole.suffix:
        parts = _subfolders(path, whole) or [Part(_readable(path.resolve().name), path, whole)]
        return Corpus(path, tuple(sorted(parts, key=_place)))
    files, skipped = _sort_files(path, format)
    if not files:
        seen = "".join(f"; {name}: {reason}" for name, reason in skipped[:_SHOWN])
        raise FormatError(
            f"{path}: no annotated data found in this folder{seen}; if there is some, name its format with --from: "
            f"{', '.join(FORMATS)}"
        )
    by_stem = len({file.stem for file, _ in files}) == len(files)
    parts = []
    for file, format_of_file in files:
        name = file.stem if by_stem else file.name
        parts.append(Part(_readable(name), file, format_of_file))
    labels = [path / name for name, purpose in skipped if purpose == _LABELS]
    schema = Schema.load(labels[0]) if len(labels) == 1 else None
    return Corpus(path, tuple(sorted(parts, key=_place)), tuple(skipped), schema)


def _sort_files(folder: Path, format: Format | None) -> tuple[list[tuple[Path, Format]], list[tuple[str, str]]]:
    """Return the data files of a folder with their formats, and the names of its other files with what they are."""
    files, skipped = [], []
    for file in sorted(folder.iterdir()):
        if file.name.startswith("."):
            continue
        if not file.is_file():
            skipped.append((file.name, "a folder" if file.is_dir() else "not a file"))
            continue
        format_of_file = _format_of(file, format)
        if format_of_file is None:
            skipped.append((file.name, _purpose(file) or _unknown_keys(file) or "not annotated data in a known format"))
        else:
            files.append((file, format_of_file))
    return files, skipped


def _format_of(file: Path, named: Format | None) -> Format | None:
    """Return the format of a file: the named one if the file can have it, a guess if none is named."""
    if named is None:
        return guess_format(file)
    return named if file.suffix == named.suffix and not _purpose(file) else None


def read_documents(path: Path, format_name: str | None, problems: Problems) -> Iterator[Document]:
    """Yield all documents of a corpus, part after part."""
    for part in open_corpus(path, format_name).parts:
        yield from part.read(problems)


def _guess_file(path: Path) -> Format:
    format = guess_format(path)
    if format is None:
        if path.stat().st_size == 0:
            raise FormatError(f"{path}: the file is empty; name one that has data, or its format with --from")
        what = _purpose(path) or _unknown_keys(path) or "in no format that can be guessed"
        raise FormatError(f"{path}: the file is {what}; name its format with --from: {', '.join(FORMATS)}")
    return format


def _unknown_keys(path: Path) -> str | None:
    """Describe JSON records in no known format by their keys and the nearest formats; None if the file is not JSON."""
    record = next((value for value in first_records(path) if isinstance(value, dict)), None)
    if record is None:
        unread = "in no format that can be guessed (none of its first records is a JSON object that can be read)"
        return unread if path.suffix in (".json", ".jsonl", ".ndjson") else None
    keys = ", ".join(map(show, islice(record, _SHOWN))) or "none"
    near = "; ".join(f"{format.name} ({', '.join(format.record_keys)})" for format in nearest_formats(record))
    nearest = f"; nearest are {near}" if near else ""
    return f"in no format that can be guessed (its records have the keys {keys}{nearest})"


def _subfolders(path: Path, format: Format) -> list[Part]:
    """Return the splits of a folder that has one subfolder per split and no data beside them."""
    children = list(path.iterdir())
    folders = [child for child in children if child.is_dir() and child.name in _ORDER]
    beside = [child for child in children if child.name not in _ORDER and format.recognise(child)]
    if beside or any(child.suffix == ".txt" for child in children):
        return []
    return [Part(folder.name, folder, format) for folder in folders]


def _readable(name: str) -> str:
    """Return a file's name as text, with bytes that are not UTF-8 spelt out."""
    return os.fsencode(name).decode(errors="backslashreplace")


def _place(part: Part) -> tuple[int, str]:
    return (_ORDER.index(part.name) if part.name in _ORDER else len(_ORDER), part.name)


def _purpose(path: Path) -> str | None:
    """Describe a file that goes with a corpus without being data, such as a file of labels; else None."""
    if path.name.endswith(CONFIG_FILE):
        return "a labelling interface of Label Studio"
    if path.suffix != ".json":
        return None
    try:
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        if "entity_types" in value or all(isinstance(value.get(key), dict) for key in ("entities", "relations")):
            return _LABELS
        return "lists of records" if _is_fold(value) else None
    if isinstance(value, list) and value and all(map(_is_fold, value)):
        return f"lists of records for {len(value)} folds, to be used with relatum split --lists"
    return None


def _is_fold(value: object) -> bool:
    return isinstance(value, dict) and "train" in value and all(isinstance(list_, list) for list_ in value.values())
