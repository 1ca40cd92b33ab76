"""The input of a job: the files of a path, a pattern or a URL, all of one format, in a fixed order."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relatum.errors import RelatumError
from relatum.scale.formats import COMPRESSION, FORMATS, SUFFIXES
from relatum.scale.libraries import describe_error, missing_store, need_library
from relatum.scale.rows import Columns, InputFile, Position, Rows

EXPECTED = ".parquet, .jsonl, .csv, .tsv or .txt; JSONL, CSV and TSV also as .gz or .zst"
_HIDDEN = re.compile(r"(^|/)[._]")


@dataclass(frozen=True, slots=True)
class Source:
    """The files of a job, in a fixed order."""

    url: str
    format: str
    files: tuple[InputFile, ...]
    folder: str | None = None
    """The path of the folder whose files are read, those of folders in it included; None if files were named."""

    def read(self, start: Position, columns: Columns) -> Iterator[Rows]:
        """Yield rows from a position to the end of the input."""
        reader = FORMATS[self.format]
        for file in self.files[start.file :]:
            first = start.row if file.index == start.file else 0
            try:
                yield from reader.read(file, first, columns)
            except RelatumError:
                raise
            except Exception as error:  # every object store has errors of its own
                raise RelatumError(f"{file.path}: cannot be read to its end: {describe_error(error)}") from None

    @property
    def n_bytes(self) -> int:
        return sum(file.size for file in self.files)

    def fingerprint(self) -> str:
        """Return a hash of the names, sizes and versions of all files."""
        digest = hashlib.sha256()
        for file in self.files:
            digest.update(f"{file.name}\0{file.size}\0{file.version}\n".encode(errors="surrogateescape"))
        return digest.hexdigest()


def find_source(url: str) -> Source:
    """List the files of a path, a folder, a pattern with *, or a URL that fsspec knows; all of one format."""
    fsspec = need_library("fsspec", "scale")
    need_library("pyarrow", "scale")
    is_file = False
    try:
        system, path = fsspec.core.url_to_fs(url)
        system.invalidate_cache()  # the files may have changed since they were listed last
        if _is_pattern(path) and not system.exists(path):
            listing = system.glob(path, detail=True)
            root = path[: re.search(r"[*?\[]", path).start()].rpartition("/")[0]  # type: ignore[union-attr]
        elif system.isdir(path):
            listing = system.find(path, detail=True)
            root = path
        else:
            listing = {path: system.info(path)}
            root = path.rpartition("/")[0]
            is_file = True
    except FileNotFoundError:
        raise RelatumError(f"{url}: no such file or folder") from None
    except (ImportError, ValueError) as error:
        raise missing_store(url, error) from None
    except Exception as error:  # every object store has errors of its own
        raise RelatumError(f"{url}: cannot be listed: {describe_error(error)}") from None
    files: list[InputFile] = []
    n_bytes = 0
    for name, info in sorted(listing.items()):
        relative = name.removeprefix(root).lstrip("/")
        if _HIDDEN.search(relative) and not is_file:
            continue
        info = _follow_link(name, info)
        if info["type"] == "directory":
            continue
        size = int(info.get("size") or 0)
        path = system.unstrip_protocol(name)
        files.append(InputFile(path, relative, size, _version(info), len(files), n_bytes))
        n_bytes += size
    if not files:
        raise RelatumError(f"{url}: there are no files in it; expected {EXPECTED}")
    folder = root if listing and not is_file and root == path_of(url) else None
    return Source(url, _common_format(url, files), tuple(files), folder)


def path_of(url: str) -> str:
    """Return the path of a URL or a file in its file system."""
    fsspec = need_library("fsspec", "scale")
    return str(fsspec.core.url_to_fs(url)[1]).rstrip("/")


def _follow_link(name: str, info: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the entry of a file; for a link on a disk, that of the file it leads to."""
    if info.get("type") in ("file", "directory") and not info.get("islink"):
        return info
    try:
        found = Path(name).stat()
    except OSError:
        raise RelatumError(f"{name}: a link that leads nowhere; remove it, or choose files by a pattern") from None
    if Path(name).is_dir():
        raise RelatumError(f"{name}: a link to a folder, which is not followed; name that folder as --input")
    return {"type": "file", "size": found.st_size, "mtime": found.st_mtime}


def _is_pattern(path: str) -> bool:
    return any(character in path for character in "*?[")


def _version(info: Mapping[str, Any]) -> str:
    """Return what changes when a file is written again: its ETag or its time."""
    for key in ("ETag", "etag", "md5Hash", "mtime", "LastModified", "last_modified"):
        if info.get(key):
            return str(info[key])
    return ""


def _common_format(url: str, files: Sequence[InputFile]) -> str:
    names = {format_of(file.name): file.name for file in files}
    if len(names) > 1:
        examples = ", ".join(sorted(names.values())[:3])
        raise RelatumError(f"{url}: files of several formats ({examples}); name those of one: --input 'FOLDER/*.jsonl'")
    return next(iter(names))


def format_of(name: str) -> str:
    """Return the format of a file by its suffix."""
    stem = name.lower()
    for suffix in COMPRESSION:
        stem = stem.removesuffix(suffix)
    suffix = stem.rpartition(".")[2]
    for format, suffixes in SUFFIXES.items():
        if suffix in suffixes and (stem == name.lower() or format not in ("parquet", "text")):
            return format
    raise RelatumError(
        f"{name}: not a kind of file that jobs read; expected {EXPECTED}. Choose files by a pattern: --input "
        "'FOLDER/*.jsonl'"
    )
