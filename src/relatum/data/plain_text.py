"""Plain text, a document a line."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Iterable, Iterator
from pathlib import Path

from relatum.errors import RelatumError

_OPENERS = {".gz": gzip.open, ".xz": lzma.open}


def read_lines(paths: Iterable[Path]) -> Iterator[str]:
    """Yield the lines of text files, also of .gz and .xz files and of all .txt files in a folder."""
    for path in paths:
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.suffix == ".txt")
            if not inside:
                raise RelatumError(f"{path}: found no file whose name ends in .txt; expected plain text")
            yield from read_lines(inside)
            continue
        try:
            with _OPENERS.get(path.suffix, open)(path, "rt", encoding="utf-8-sig") as file:  # type: ignore[operator]
                yield from file
        except UnicodeDecodeError as error:
            raise RelatumError(f"{path}: the text is not UTF-8 ({error}); convert it with iconv -t UTF-8") from None
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise RelatumError(f"{path}: the text cannot be read ({error})") from error
