"""A job: its settings, its folder, and the record of what is done.

    FOLDER/part-000000.parquet …        the results, a file per shard
    FOLDER/_job/job.json                the settings, the model and the input that the job was started with
    FOLDER/_job/shards/000000.json …    one entry per shard; a shard is done when its entry is there
    FOLDER/_job/report.json             the counts, written when everything is done

Programs that read folders of Parquet pass over names that begin with an underscore.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any, get_args

from relatum._version import __version__
from relatum.errors import RelatumError
from relatum.extractor.finding import DEFAULT_MODEL, find_model
from relatum.extractor.result import check_threshold
from relatum.models.manifest import CARD, Manifest
from relatum.scale.batch import MAX_CHARACTERS
from relatum.scale.formats import check_columns, open_stored
from relatum.scale.inputs import Source
from relatum.scale.rows import Columns, InputFile, Position
from relatum.scale.shards import Shard, ShardSize, cut_shards
from relatum.scale.storage import Storage
from relatum.scale.writing import RESERVED, ResultFormat, file_name, read_ids

_JOB = "_job/job.json"
_REPORT = "_job/report.json"
_ENTRIES = "_job/shards"
_VERSION = 1
_SHOWN_IDS = 20


@dataclass(frozen=True, slots=True)
class JobSettings:
    """All settings of a job that change its results."""

    models: tuple[str, ...] = (DEFAULT_MODEL,)
    device: str = "auto"
    precision: str = "fp32"
    batch_size: int | None = None
    max_cells: int | None = None
    splitting: tuple[tuple[str, str], ...] = ()
    """Rules for words and sentences other than the model's."""
    threshold: float | None = None
    max_characters: int = MAX_CHARACTERS
    columns: Columns = field(default_factory=Columns)
    format: ResultFormat = "parquet"
    with_text: bool = True
    shard: ShardSize = field(default_factory=ShardSize)

    def __post_init__(self) -> None:
        names: tuple[object, ...] = (self.models, self.columns.keep)
        if any(isinstance(value, str) for value in names):
            raise TypeError("models and the columns to keep are tuples of names; put a single name in a tuple")
        if self.format not in get_args(ResultFormat):
            raise RelatumError(f"the format is {self.format!r}; expected {' or '.join(get_args(ResultFormat))}")
        if self.threshold is not None:
            check_threshold(self.threshold)
        for name in self.columns.keep:
            if name in RESERVED:
                raise RelatumError(f"--keep {name}: the results have a column of that name; rename it in the input")


@dataclass(frozen=True, slots=True)
class Entry:
    """The record of a shard that is done."""

    number: int
    end: Position
    input_bytes: int
    """The bytes of the input up to the end of the shard, roughly."""
    documents: int
    failed: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class JobReport:
    """The end of a job: its counts and what was noticed."""

    documents: int
    failed: int
    shards: int
    duplicates: int
    """The number of ids that occur more than once."""
    duplicate_ids: tuple[str, ...]
    """Some of them."""
    finished: bool = True
    """False if the job was stopped before its end."""


class Job:
    """The folder of a job, opened to begin it or to go on with it."""

    def __init__(self, storage: Storage, source: Source, settings: JobSettings) -> None:
        self.storage, self.source, self.settings = storage, source, settings
        self.entries: dict[int, Entry] = {}
        self.documents = 0
        self.failed = 0
        self._furthest_byte = 0
        self.kept_types = _kept_types(source, settings.columns)
        self._settings_record = self._record()
        if storage.is_local and storage.path.is_file():
            raise RelatumError(f"{storage.url}: a file; a job writes a folder, so name a new one")
        if storage.read(_JOB) is None:
            self._check_new()

    def _check_new(self) -> None:
        """Refuse to begin in a folder that holds something else; nothing has been written there yet."""
        if found := [name for name in self.storage.names() if name != "_job"]:
            raise RelatumError(
                f"{self.storage.url}: the folder holds {found[0]}, and no job; name a new or empty folder"
            )
        _check_schemas(self.source, self.settings.columns, self.kept_types)

    @classmethod
    def open(cls, storage: Storage, source: Source, settings: JobSettings) -> Job:
        """Begin a job, or go on with the same job; another job in the folder is an error."""
        job = cls(storage, source, settings)
        job.begin()
        return job

    def begin(self) -> None:
        """Write the record of a new job, or read what is done of the same job."""
        storage, record = self.storage, self._settings_record
        stored = storage.read(_JOB)
        if stored is None:
            storage.write(_JOB, _dump(record))
            return
        try:
            before = json.loads(stored)
        except ValueError:
            raise RelatumError(
                f"{storage.url}/{_JOB}: not readable as JSON; remove the folder to start again"
            ) from None
        if before != record:
            raise RelatumError(
                f"{storage.url}: another job was started in this folder: {_difference(before, record)}; use the same "
                "command to go on with it, or name another folder"
            )
        self._remove_drafts()
        for entry in self._read_entries():
            self._add(entry)

    def _remove_drafts(self) -> None:
        """Remove what killed processes left unfinished."""
        self.storage.remove_drafts("", "_job", _ENTRIES)

    def _record(self) -> dict[str, Any]:
        settings = json.loads(json.dumps(asdict(self.settings)))
        return {
            "version": _VERSION,
            "relatum": __version__,
            "settings": settings,
            "models": [_model_hash(name) for name in self.settings.models],
            "input": {
                "url": self.source.url,
                "format": self.source.format,
                "files": len(self.source.files),
                "bytes": self.source.n_bytes,
                "sha256": self.source.fingerprint(),
            },
        }

    def _read_entries(self) -> Iterator[Entry]:
        """Yield the entries of shards whose files are there in full."""
        sizes = self.storage.sizes()
        for data in self.storage.read_all(_ENTRIES).values():
            entry = _parse_entry(data)
            if entry and sizes.get(file_name(entry.number, self.settings.format)) == entry.bytes:
                yield entry

    def pending_shards(self) -> Iterator[Shard]:
        """Yield the shards that are not done yet; the input is read while they are taken."""
        done = {number: entry.end for number, entry in self.entries.items()}
        return cut_shards(self.source, self.settings.columns, self.settings.shard, done)

    def commit(self, entry: Entry) -> None:
        """Record that a shard is done; its file has been written."""
        self.storage.write(f"{_ENTRIES}/{entry.number:06d}.json", _dump(asdict(entry)))
        self._add(entry)

    def _add(self, entry: Entry) -> None:
        self.entries[entry.number] = entry
        self.documents += entry.documents
        self.failed += entry.failed
        self._furthest_byte = max(self._furthest_byte, entry.input_bytes)

    @property
    def share_done(self) -> float:
        """The share of the input that is done, roughly."""
        return min(1.0, self._furthest_byte / max(1, self.source.n_bytes))

    def finish(self) -> JobReport:
        """Read the ids back from all files, check that every document is there, and write the report."""
        import numpy as np

        self._remove_drafts()
        hashes = array("Q")  # 8 bytes per document: the ids themselves may not fit into memory
        for number, entry in self._entries_in_order():
            before = len(hashes)
            hashes.extend(map(_hash_id, self._read_ids(number)))
            if len(hashes) - before != entry.documents:
                raise RelatumError(
                    f"{self.storage.url}/{file_name(number, self.settings.format)}: found {len(hashes) - before} "
                    f"documents, expected {entry.documents}; remove the file and run the same command again"
                )
        if len(hashes) != self.documents:
            raise RelatumError(
                f"{self.storage.url}: found {len(hashes)} documents, expected {self.documents}; run the same command "
                "again"
            )
        ordered = np.frombuffer(hashes, np.uint64)
        ordered.sort()
        repeated = set(ordered[1:][ordered[1:] == ordered[:-1]].tolist())
        shown = tuple(self._find_ids(repeated)) if repeated else ()
        report = JobReport(len(hashes), self.failed, len(self.entries), len(repeated), shown)
        self.storage.write(_REPORT, _dump(asdict(report)))
        return report

    def _entries_in_order(self) -> Iterator[tuple[int, Entry]]:
        for number in range(len(self.entries)):
            if number not in self.entries:
                raise RelatumError(f"{self.storage.url}: shard {number} is missing; run the same command again")
            yield number, self.entries[number]

    def _read_ids(self, number: int) -> Iterator[str]:
        name = file_name(number, self.settings.format)
        try:
            with self.storage.open(name) as stream:
                yield from read_ids(stream, self.settings.format)
        except (OSError, ValueError, KeyError) as error:  # errors of Arrow are among them
            raise RelatumError(
                f"{self.storage.url}/{name}: the file is damaged ({error}); remove it and run the same command again"
            ) from None

    def _find_ids(self, wanted: Collection[int]) -> list[str]:
        """Return some ids that occur more than once, by their hashes."""
        found: dict[str, None] = {}
        for number in self.entries:
            for id in self._read_ids(number):
                if _hash_id(id) in wanted:
                    found[id] = None
                    if len(found) == _SHOWN_IDS:
                        return list(found)
        return list(found)

    def report_stopped(self) -> JobReport:
        """Report what is done of a job that was stopped."""
        return replace(JobReport(self.documents, self.failed, len(self.entries), 0, ()), finished=False)


def _hash_id(id: str) -> int:
    return int.from_bytes(hashlib.blake2b(id.encode(), digest_size=8).digest())


def _dump(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode(errors="replace")


def _parse_entry(data: bytes | None) -> Entry | None:
    try:
        record = json.loads(data or b"")
        return Entry(**{**record, "end": Position(*record["end"])})
    except (ValueError, TypeError, KeyError):
        return None


def _model_hash(name: str) -> str:
    """Return a hash of all files of a model but its card."""
    files = Manifest.read(find_model(name)).files
    digest = hashlib.sha256()
    for file, sha256 in sorted(files.items()):
        if file != CARD:
            digest.update(f"{file} {sha256}\n".encode())
    return digest.hexdigest()


def _difference(before: Any, now: Any, name: str = "") -> str:
    """Name the first setting that differs, with both values."""
    if name == "input.sha256":
        return "a file of the input has been written again since"
    if isinstance(before, dict) and isinstance(now, dict):
        for key in [*before, *now]:
            if before.get(key) != now.get(key):
                return _difference(before.get(key), now.get(key), f"{name}.{key}".strip("."))
    return f"{name} was {json.dumps(before)}, now {json.dumps(now)}"


def _kept_types(source: Source, columns: Columns) -> Sequence[tuple[str, Any]]:
    """Return the Arrow types of kept columns: those of the first Parquet file; None, a string, for other formats."""
    if source.format != "parquet" or not columns.keep:
        return [(name, None) for name in columns.keep]
    schema = _read_schema(source.files[0])
    missing = [name for name in columns.keep if name not in schema.names]
    if missing:
        raise RelatumError(f"{source.files[0].path}: there is no column {missing[0]!r} (--keep)")
    return [(name, schema.field(name).type) for name in columns.keep]


def _read_schema(file: InputFile) -> Any:
    import pyarrow.parquet as pq

    try:
        with open_stored(file.path) as stream:
            return pq.read_schema(stream)
    except (OSError, ValueError) as error:  # errors of Arrow are among them
        raise RelatumError(f"{file.path}: cannot be read as Parquet: {error}") from None


def _check_schemas(source: Source, columns: Columns, kept_types: Sequence[tuple[str, Any]]) -> None:
    """Refuse Parquet files without the columns, or with other types of kept columns, before hours of work are done."""
    if source.format != "parquet":
        return
    with ThreadPoolExecutor(16) as pool:
        for file, schema in zip(source.files, pool.map(_read_schema, source.files), strict=True):
            check_columns(file, schema.names, columns)
            for name, type in kept_types:
                if schema.field(name).type != type:
                    raise RelatumError(
                        f"{file.path}: the column {name!r} has the type {schema.field(name).type}, and {type} in "
                        f"{source.files[0].path}; a column that is kept must have one type (--keep)"
                    )
