"""Features on disk, in safetensors files."""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from relatum.encoders.base import Features
from relatum.encoders.hashing import hash_tensors
from relatum.errors import RelatumError

_SHARD = 32 * 2**20
_MARK = {"relatum": "encoder features", "version": "2"}
"""The first entries in the metadata of a shard; the hashes of its features, by their keys, stand beside them."""
_log = logging.getLogger(__name__)


class DiskStore:
    """Features in shards of some megabytes, up to a number of bytes in the folder.

    The header of each shard is the index of its features, so there is no index that could be lost or contradict the
    shards, and several processes may write into one folder. A shard appears whole or not at all. A shard that cannot be
    read is left alone with a warning and not used: its sentences are computed again. So are features that do not match
    the hash that was written with them; the hash is checked when features are first read.
    """

    def __init__(self, folder: Path, limit: int, shard_bytes: int = _SHARD) -> None:
        self._folder = folder
        self._limit = limit
        self._shard_bytes = shard_bytes
        self._shards: dict[str, list[Path]] = {}
        self._open: dict[Path, Any] = {}
        self._names: dict[Path, set[str]] = {}
        self._hashes: dict[Path, dict[str, str]] = {}
        self._checked: set[tuple[Path, str]] = set()
        self._waiting: dict[str, Features] = {}
        self._n_waiting = 0
        self._cannot_write = False
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RelatumError(f"the cache of encoder features cannot be in {folder} ({error})") from error
        paths = sorted(path for path in folder.glob("*.safetensors") if path.is_file())
        self.n_bytes = sum(path.stat().st_size for path in paths)
        for path in paths:
            self._read_index(path)

    def get(self, key: str) -> Features | None:
        if key in self._waiting:
            return self._waiting[key]
        while paths := self._shards.get(key):
            path = paths[-1]
            try:
                tensors = self._read(path, key)
            except (OSError, SafetensorError) as error:
                self._give_up(path, error)
                continue
            if (path, key) in self._checked or hash_tensors(tensors) == self._hashes[path][key]:
                self._checked.add((path, key))
                return Features(tensors[f"{key}.vectors"], tensors.get(f"{key}.maps"))
            _log.warning("%s is damaged: features whose hash is wrong are computed again", path)
            paths.pop()
        return None

    def _read(self, path: Path, key: str) -> dict[str, Tensor]:
        shard = self._open[path]
        names = (f"{key}.vectors", f"{key}.maps")
        return {name: shard.get_tensor(name) for name in names if name in self._names[path]}

    def put(self, key: str, features: Features) -> bool:
        if self._cannot_write or self.n_bytes + self._n_waiting + features.n_bytes > self._limit:
            return False
        self._waiting[key] = features
        self._n_waiting += features.n_bytes
        if self._n_waiting >= self._shard_bytes:
            self.flush()
        return True

    def flush(self) -> None:
        """Write the waiting features as a new shard."""
        if not self._waiting:
            return
        tensors: dict[str, Tensor] = {}
        metadata = dict(_MARK)
        for key, features in self._waiting.items():
            named = {f"{key}.vectors": features.vectors}
            if features.attention_maps is not None:
                named[f"{key}.maps"] = features.attention_maps
            metadata[key] = hash_tensors(named)
            tensors |= named
        try:
            path = self._write(save(tensors, metadata))
        except OSError as error:
            self._cannot_write = True
            _log.warning("encoder features cannot be kept in %s any more (%s)", self._folder, error)
        else:
            self.n_bytes += path.stat().st_size
            self._read_index(path)
        self._waiting = {}
        self._n_waiting = 0

    def _write(self, content: bytes) -> Path:
        handle, name = tempfile.mkstemp(dir=self._folder, suffix=".partial")
        draft = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            path = draft.with_suffix(".safetensors")  # the random part of the name is kept: no two shards share it
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        return path

    def _read_index(self, path: Path) -> None:
        try:
            shard: Any = safe_open(path, framework="pt")
            metadata = shard.metadata() or {}
            if {key: metadata.pop(key, None) for key in _MARK} != _MARK:
                raise SafetensorError("it was not written by this version of relatum")
            names = set(shard.keys())
        except (OSError, SafetensorError) as error:
            self._give_up(path, error)
            return
        self._open[path] = shard
        self._names[path] = names
        self._hashes[path] = metadata
        for key in metadata:
            if f"{key}.vectors" in names:
                self._shards.setdefault(key, []).append(path)

    def _give_up(self, path: Path, error: Exception) -> None:
        _log.warning("%s is not used: it cannot be read as a shard of encoder features (%s)", path, error)
        self._open.pop(path, None)
        for paths in self._shards.values():
            if path in paths:
                paths.remove(path)
