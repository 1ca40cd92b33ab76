"""Every error that reaches a user: what was wrong, where, and the cure."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

SHOWN = 1000
"""The number of problems that are kept and spelt out; further ones are only counted, so that memory stays bounded."""


def printable(text: str, keep: str = "") -> str:
    """Escape the characters that a terminal could not show, except the characters in `keep`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The error numbers for a file that cannot grow; only code that writes meets them."""
_CURES = {
    errno.EACCES: "change its permissions or those of its folder, or name another",
    errno.ENOTDIR: "a part of the path is a file; name another",
    errno.EROFS: "the disk is read-only; name a place on another",
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space, or ask for a larger quota",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EMFILE: "close other files or raise the limit on open files (ulimit -n)",
    errno.ENOMEM: "free some memory",
}


def explain_os_error(error: OSError) -> str:
    """Name the file, the reason and, where one is known, the cure."""
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    cure = _CURES.get(error.errno or 0)
    return f"{where}{error.strerror or error}{f'; {cure}' if cure else ''}"


@contextmanager
def naming_file(path: os.PathLike[str]) -> Iterator[None]:
    """Make an error for want of space in the block an `OSError` that names `path`.

    Writing to an open file raises errors without a name, and libraries written in Rust, such as safetensors, raise
    errors of their own, which say the number of the error in words.
    """
    import re

    try:
        yield
    except Exception as error:
        number = None
        if isinstance(error, OSError):
            number = error.errno
        elif stated := re.search(r"\(os error (\d+)\)", str(error)):
            number = int(stated[1])
        if number not in NO_SPACE:
            raise
        raise OSError(number, os.strerror(number), str(path)) from error


class RelatumError(Exception):
    """Base of all errors raised on purpose; its text is fit to show to a user."""


class ConfigError(RelatumError):
    """A configuration file or override that cannot be used."""


class SchemaError(RelatumError):
    """Labels that do not agree with the schema, or a schema that contradicts itself."""


class NoSpaceError(RelatumError):
    """A run that ended because a file could not be written for want of space, and what to do then."""

    def __init__(self, problem: str, then: str) -> None:
        self.problem = problem
        self._then = then
        super().__init__(f"{problem}, then {then}")

    def __reduce__(self) -> tuple[type[NoSpaceError], tuple[str, str]]:
        return NoSpaceError, (self.problem, self._then)


class FormatError(RelatumError):
    """A data format that is unknown, cannot be guessed, or cannot hold what is asked of it."""


IN_EXTRA_TORCH = ("torch", "transformers")
"""The libraries of the extra `torch`, which extraction by compiled code does without."""


class MissingExtraError(RelatumError):
    """An optional dependency that is not installed."""

    def __init__(self, purpose: str, extra: str) -> None:
        self._made_from = purpose, extra
        super().__init__(f"{purpose} needs the extra '{extra}': pip install 'relatum[{extra}]'")

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        return MissingExtraError, self._made_from


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with one record of the input."""

    path: str
    found: str
    expected: str
    line: int | None = None
    record: int | None = None
    field: str | None = None

    def __str__(self) -> str:
        where = self.path
        if self.line is not None:
            where += f":{self.line}"
        if self.record is not None:
            where += f" (record {self.record})"
        if self.field:
            where += f", {self.field}"
        return f"{where}: found {self.found}; expected {self.expected}"


class DataError(RelatumError):
    """Input that could not be read as it stands; carries every problem found."""

    def __init__(self, problems: Iterable[Problem], cure: str = "") -> None:
        self.problems = tuple(problems)
        self._cure = cure
        lines = [str(problem) for problem in self.problems[:SHOWN]]
        if len(self.problems) > SHOWN:
            lines.append(f"… and {len(self.problems) - SHOWN} more")
        if cure:
            lines.append(cure)
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[type[DataError], tuple[object, ...]]:
        return DataError, (self.problems, self._cure)
