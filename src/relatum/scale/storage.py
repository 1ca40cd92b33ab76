"""The folder of a job, on a disk or in an object store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from relatum.data.atomic import remove_drafts, replacing_file
from relatum.errors import RelatumError
from relatum.scale.libraries import describe_error, missing_store, need_library


class Storage:
    """A folder whose files appear whole or not at all: by fsync and rename on a disk, by one upload elsewhere."""

    def __init__(self, url: str) -> None:
        fsspec = need_library("fsspec", "scale")
        try:
            self._system, self._root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise missing_store(url, error) from None
        self.url = url
        protocol = self._system.protocol
        self.is_local = "file" in ((protocol,) if isinstance(protocol, str) else protocol)

    @property
    def path(self) -> Path:
        """The folder, if it is on a disk."""
        return Path(self._root)

    def write(self, name: str, data: bytes) -> None:
        """Write a file, whole or not at all."""
        if self.is_local:
            with replacing_file(self.path / name) as draft:
                draft.write_bytes(data)
            return
        with self._naming(name, "written"):
            self._system.pipe_file(self._name(name), data)

    def read(self, name: str) -> bytes | None:
        """Return the content of a file, None if there is none."""
        with self._naming(name, "read"):
            try:
                return bytes(self._system.cat_file(self._name(name)))
            except FileNotFoundError:
                return None

    def read_all(self, folder: str) -> dict[str, bytes]:
        """Return the contents of all files directly in a folder, by name; an object store is asked for many at once."""
        names = sorted(self.sizes(folder))
        paths = [self._name(f"{folder}/{name}") for name in names]
        with self._naming(folder, "read"):
            contents = self._system.cat(paths, on_error="omit") if paths else {}
        return {path.rpartition("/")[2]: bytes(data) for path, data in contents.items()}

    def open(self, name: str) -> Any:
        return self._system.open(self._name(name), "rb")

    def names(self) -> list[str]:
        """Return the names of the files and folders directly in the folder; drafts are left out."""
        self._system.invalidate_cache()
        with self._naming("", "listed"):
            try:
                found = self._system.ls(self._root, detail=False)
            except (FileNotFoundError, NotADirectoryError):
                return []
        names = [name.rstrip("/").rpartition("/")[2] for name in found]
        return sorted(name for name in names if name and not name.startswith("."))

    def sizes(self, folder: str = "") -> dict[str, int]:
        """Return the sizes of the files directly in a folder, by name; drafts are left out."""
        self._system.invalidate_cache()
        with self._naming(folder, "listed"):
            try:
                found = self._system.ls(self._name(folder), detail=True)
            except FileNotFoundError:
                return {}
        entries = {info["name"].rstrip("/").rpartition("/")[2]: info for info in found if info["type"] == "file"}
        return {name: int(info["size"]) for name, info in entries.items() if not name.startswith(".")}

    def remove_drafts(self, *folders: str) -> None:
        """Remove what killed processes left unfinished."""
        if self.is_local:
            remove_drafts(*(self.path / folder for folder in folders))

    @contextmanager
    def _naming(self, name: str, what: str) -> Iterator[None]:
        """Name the file in any error: every object store has errors of its own."""
        try:
            yield
        except Exception as error:
            where = f"{self.url.rstrip('/')}/{name}".rstrip("/")
            raise RelatumError(f"{where}: cannot be {what}: {describe_error(error)}") from None

    def _name(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root
