"""The manifest of a model: the sha256 of every file in its directory.

It is required, and checked before anything else is read, so that a file which was damaged, exchanged, forgotten or
added never changes what a model says. It does not protect from somebody who writes files and manifest anew; nothing
that a model's files could say is ever executed, whoever wrote them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from relatum.data.atomic import replacing_file
from relatum.encoders.hashing import file_hash
from relatum.errors import RelatumError
from relatum.models.record import CURE, read_json

NAME = "manifest.json"
CARD = "README.md"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NEEDED = ("config.json", "model.safetensors", "schema.json")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of a model by their names in its directory, each with its sha256."""

    folder: Path
    files: Mapping[str, str]
    replacing: Mapping[str, str] = field(default_factory=dict)
    """Files that are being replaced, with their new sha256: until that is done, the old and the new files are valid."""

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read the manifest of a model; a directory without one is refused."""
        path = folder / NAME
        if not path.exists() and (folder / "config.json").exists():
            raise RelatumError(
                f"{folder}: there is no {NAME}, by which the files of a model are checked; {CURE} (models made before "
                "relatum wrote it cannot be read)"
            )
        record = read_json(path)
        files = record.get("files")
        replacing = record.get("replacing", {})
        for entries in (files, replacing):
            if not isinstance(entries, dict) or not all(_is_entry(*entry) for entry in entries.items()):
                raise RelatumError(f"{path}: found no usable list of files, expected names with their sha256; {CURE}")
        missing = [name for name in _NEEDED if name not in files]
        if missing:
            raise RelatumError(f"{path}: found no sha256 of {missing[0]}; {CURE}")
        return cls(folder, files, replacing)

    @classmethod
    def of_folder(cls, folder: Path, known: Mapping[str, str]) -> Manifest:
        """Make the manifest of all files in a folder; some sha256 are known already."""
        paths = [path for path in folder.rglob("*") if path.is_file()]
        names = sorted(path.relative_to(folder).as_posix() for path in paths)
        files = {name: known.get(name) or file_hash(folder / name) for name in names if name != NAME}
        return cls(folder, files)

    def __contains__(self, name: str) -> bool:
        return name in self.files

    @property
    def digest(self) -> str:
        """The sha256 of all files but the card, by which two models can be told apart."""
        files = sorted(item for item in self.files.items() if item[0] != CARD)
        return hashlib.sha256(json.dumps(files).encode()).hexdigest()

    def check(self) -> None:
        """Refuse a directory whose files differ from the manifest; for a card that was changed, only warn."""
        root = self.folder.resolve()
        blobs = (
            root.parent.parent / "blobs"
        )  # the cache of the hub has its files there, and links in the model's folder
        for name, sha256 in self.files.items():
            path = root / name
            if path.resolve() != path and path.resolve().parent != blobs:
                raise RelatumError(f"{self.folder / name}: found a link, expected the file itself; {CURE}")
            try:
                actual = file_hash(path)
            except RelatumError as error:
                raise RelatumError(f"{error}; {CURE}") from None
            if actual in (sha256, self.replacing.get(name)):
                continue
            if name == CARD:
                _log.warning("%s is not the card that the model was saved with", self.folder / name)
                continue
            raise RelatumError(
                f"{self.folder / name}: the file has the sha256 {actual}, but {NAME} says {sha256}: it was damaged or "
                f"replaced; {CURE}"
            )
        # The files at the top are read by their names, if they are listed; those of an encoder by a pattern.
        for inner in {part for name in self.files if (part := PurePosixPath(name).parent.name)}:
            for file in (root / inner).iterdir():
                if f"{inner}/{file.name}" not in self.files and not file.name.startswith("."):
                    raise RelatumError(
                        f"{self.folder / inner / file.name}: found a file that {NAME} does not list; remove it if you "
                        f"put it there, or {CURE}"
                    )

    def replace(self, **changed: str) -> Manifest:
        """Return the manifest with the sha256 of some files changed."""
        return replace(self, files={**self.files, **changed}, replacing={})

    def write(self) -> None:
        """Write the manifest into its folder, whole or not at all."""
        record = {"files": dict(self.files)}
        if self.replacing:
            record["replacing"] = dict(self.replacing)
        with replacing_file(self.folder / NAME) as draft:
            draft.write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _is_entry(name: str, sha256: object) -> bool:
    """True for a file of the directory, or of a folder in it, with a sha256."""
    parts = PurePosixPath(name).parts
    if not 0 < len(parts) <= 2 or name != "/".join(parts) or name == NAME:
        return False
    if parts[0] == "/" or ".." in parts or "\\" in name or ":" in name:
        return False
    return isinstance(sha256, str) and bool(_SHA256.fullmatch(sha256))
