"""Reading files that may have been made by a stranger: only ordinary files, only as large as they may be."""

from __future__ import annotations

import os
import stat
from io import BufferedReader
from pathlib import Path

from relatum import strict_json
from relatum.errors import RelatumError

MAX_JSON = 64 * 2**20
"""The most bytes of a file that is read whole; the largest of ours have some hundred thousand words."""
MAX_RECORD = 16 * 2**20
"""The most bytes of other JSON, such as settings: a file of nothing but brackets takes 25 times the memory."""


def open_file(path: Path) -> BufferedReader:
    """Open an ordinary file; a folder, pipe or device is refused before it is opened, since reading may never end."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            what = "a folder" if stat.S_ISDIR(mode) else "a pipe, a device or a socket"
            raise RelatumError(f"{path}: found {what}, expected a file")
        return path.open("rb")
    except OSError as error:
        raise RelatumError(f"{path}: {error.strerror or error}") from None


def read_bytes(path: Path, limit: int = MAX_JSON) -> bytes:
    """Read a file whole, unless it has more bytes than the limit."""
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(limit + 1)
    if len(content) > limit:
        raise RelatumError(f"{path}: found {size:,} bytes, expected at most {limit:,}")
    return content


def read_json(path: Path, limit: int = MAX_RECORD) -> object:
    """Read the JSON value in a file."""
    try:
        return strict_json.loads(read_bytes(path, limit).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise RelatumError(f"{path}: not valid JSON: {error}") from None
