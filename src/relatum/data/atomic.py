"""Writing that is either done or not: a reader sees the old file or the new one, never half of one."""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from relatum.errors import RelatumError, naming_file

_SUFFIX = ".partial"
_DRAFT = re.compile(r"\..+\.partial|\.tmp\w{6}")
"""Names of drafts: ours, and the names of files that safetensors writes before it renames them to ours."""


@contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` that replaces it when the block ends well, and is removed otherwise."""
    old = _check_file(path)
    path = path.resolve()  # a symbolic link stays one
    with naming_file(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _naming_target(path):
            handle, name = tempfile.mkstemp(prefix=_prefix(path), suffix=_SUFFIX, dir=path.parent)
        os.close(handle)
        draft = Path(name)
        try:
            yield draft
            _sync(draft)
            draft.chmod(0o666 & ~_umask() if old is None else old & 0o777)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes `path` when the block ends well; `path` must be new or empty."""
    _check_folder(path)
    path = path.resolve()
    with naming_file(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _naming_target(path):
            draft = Path(tempfile.mkdtemp(prefix=_prefix(path), suffix=_SUFFIX, dir=path.parent))
        try:
            yield draft
            for file in draft.rglob("*"):
                if file.is_file():
                    _sync(file)
            draft.chmod(0o777 & ~_umask())
            draft.replace(path)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def check_target(path: Path, folder: bool = False) -> None:
    """Refuse a file, or a new folder, that could not be written, before long work is done for it."""
    if folder:
        _check_folder(path)
    else:
        _check_file(path)
    above = path.resolve().parent
    while not above.exists():
        above = above.parent
    if above.is_dir() and not os.access(above, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def is_draft(path: Path) -> bool:
    """True if the name is one that a file or folder has while it is written."""
    return _DRAFT.fullmatch(path.name) is not None


def remove_drafts(*folders: Path) -> None:
    """Remove the drafts that killed processes left in the folders; nobody else may be writing there."""
    for folder in folders:
        for path in [*folder.iterdir()] if folder.is_dir() else ():
            if is_draft(path):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def _check_file(path: Path) -> int | None:
    """Refuse a path that cannot become a file; return the mode of the file that is there, None if there is none."""
    old = _mode(path)
    if old is not None and not stat.S_ISREG(old):
        what = "a folder" if stat.S_ISDIR(old) else "neither a file nor a folder"
        raise RelatumError(f"{path} is {what}; name a file to write")
    return old


def _check_folder(path: Path) -> None:
    """Refuse a path that is neither new nor an empty folder."""
    old = _mode(path)
    if old is not None and (not stat.S_ISDIR(old) or any(path.iterdir())):
        what = "is a folder that is not empty" if stat.S_ISDIR(old) else "is a file"
        raise RelatumError(f"{path} {what}; name a new folder, or remove it first")


@contextmanager
def _naming_target(path: Path) -> Iterator[None]:
    """Name the target, not its draft, if the draft cannot be made."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _mode(path: Path) -> int | None:
    """Return the mode of a file or folder, None if there is none.

    A path that leads nowhere, such as a link to itself, is an error.
    """
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _prefix(path: Path) -> str:
    """Return the beginning of a hidden file name for a draft, cut short as names have at most 255 bytes."""
    return f".{path.name[:50]}."


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
