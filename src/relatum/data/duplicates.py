"""Finding sentences and ids that stand more than once, in any amount of data and a fixed amount of memory."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b

from relatum.errors import RelatumError

_SHOWN_TEXT = 200


@contextmanager
def _storing() -> Iterator[None]:
    """Turn a failure of the temporary file into an error that says where it lies."""
    try:
        yield
    except sqlite3.Error as error:
        raise RelatumError(
            f"{tempfile.gettempdir()}: the temporary file of sentences or ids cannot be used ({error}); make room "
            "there, or name another folder with the environment variable TMPDIR"
        ) from None


LISTED = 10_000
"""The most shared sentences that are listed; further ones are only counted."""


@dataclass(frozen=True, slots=True)
class SharedSentence:
    """A sentence found in two parts: its text (its beginning, if long) and the first place in each."""

    text: str
    first: str
    second: str


@dataclass(frozen=True, slots=True)
class Shared:
    """The number of different sentences that two parts share, and the first of these sentences."""

    count: int
    sentences: tuple[SharedSentence, ...]


class SentenceIndex:
    """An index with a fingerprint of every sentence; beyond a cache it lives in a temporary file."""

    def __init__(self) -> None:
        self._base = sqlite3.connect("")
        self._base.execute("PRAGMA journal_mode = OFF")
        self._base.execute("PRAGMA cache_size = -65536")
        self._base.execute("CREATE TABLE sentences (part TEXT, print BLOB, place TEXT, text TEXT)")
        self._waiting: list[tuple[str, bytes, str, str]] = []

    def add(self, part: str, place: str, text: str) -> None:
        shown = text if len(text) <= _SHOWN_TEXT else text[: _SHOWN_TEXT - 1] + "…"
        self._waiting.append((part, blake2b(text.encode(), digest_size=16).digest(), place, shown))
        if len(self._waiting) == 10_000:
            self._store()

    @_storing()
    def _store(self) -> None:
        self._base.executemany("INSERT INTO sentences VALUES (?, ?, ?, ?)", self._waiting)
        self._waiting.clear()

    @_storing()
    def distinct(self, part: str | None = None) -> int:
        """Return the number of different sentences in a part, or in all parts together."""
        self._store()
        where, values = ("WHERE part = ?", (part,)) if part is not None else ("", ())
        query = f"SELECT count(*) FROM (SELECT DISTINCT print FROM sentences {where})"
        return int(self._base.execute(query, values).fetchone()[0])

    @_storing()
    def shared(self, first: str, second: str) -> Shared:
        """Return the different sentences that are in both parts, in the order of the second part."""
        self._store()
        joined = """
            (SELECT print, place, min(rowid) FROM sentences WHERE part = ? GROUP BY print) a JOIN
            (SELECT print, place, text, min(rowid) AS row FROM sentences WHERE part = ? GROUP BY print) b
            ON a.print = b.print
        """
        count = int(self._base.execute(f"SELECT count(*) FROM {joined}", (first, second)).fetchone()[0])
        query = f"SELECT b.text, a.place, b.place FROM {joined} ORDER BY b.row LIMIT {LISTED}"
        rows = self._base.execute(query, (first, second)) if count else ()
        return Shared(count, tuple(SharedSentence(*row) for row in rows))

    def close(self) -> None:
        self._base.close()


class SeenIds:
    """A record of the line where each id was first used; beyond the first 100,000 ids it lives in a temporary file."""

    _IN_MEMORY = 100_000

    def __init__(self) -> None:
        self._first: dict[str, int] = {}
        self._base = sqlite3.connect("")
        self._base.execute("PRAGMA journal_mode = OFF")
        self._base.execute("CREATE TABLE ids (id TEXT PRIMARY KEY, line INTEGER) WITHOUT ROWID")

    def add(self, name: str, line: int) -> int | None:
        """Remember the id; if it was known already, return the line of its first use."""
        if name in self._first:
            return self._first[name]
        if len(self._first) < self._IN_MEMORY:
            self._first[name] = line
            return None
        return self._add_stored(name, line)

    @_storing()
    def _add_stored(self, name: str, line: int) -> int | None:
        if self._base.execute("INSERT OR IGNORE INTO ids VALUES (?, ?)", (name, line)).rowcount:
            return None
        first: int = self._base.execute("SELECT line FROM ids WHERE id = ?", (name,)).fetchone()[0]
        return first

    def close(self) -> None:
        self._base.close()
