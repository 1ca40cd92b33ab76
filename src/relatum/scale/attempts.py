"""The attempts at every shard: a document that ends its process again and again is found, and left out."""

from __future__ import annotations

from collections import Counter

from relatum.errors import RelatumError

PATIENCE = 3
"""A shard that ended this many processes is read document by document."""


class Attempts:
    """Counts the processes that ended while they read a shard."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._deaths: Counter[int] = Counter()
        self._unexplained: Counter[int] = Counter()
        self._reading: dict[int, int | None] = {}
        self._deadly: dict[int, set[int]] = {}
        self._stopping = False

    def begin(self, shard: int) -> tuple[bool, frozenset[int]]:
        """Begin a shard; return True if it has to be read document by document, and the documents to leave out.

        A shard that was begun before and not finished has ended its process; so has the document that was being read.
        A shard that ends its process between two documents, again and again, is an error.
        """
        if shard in self._open:
            was_careful = self._deaths[shard] >= PATIENCE
            self._deaths[shard] += 1
            document = self._reading.pop(shard, None)
            if document is not None:
                self._deadly.setdefault(shard, set()).add(document)
            elif was_careful:
                self._unexplained[shard] += 1
        if self._unexplained[shard] >= PATIENCE:
            raise RelatumError(
                f"shard {shard} ended {self._deaths[shard]} processes, and none of its documents is the reason; is "
                "there enough memory? Run the same command again to go on"
            )
        self._open.add(shard)
        return self._deaths[shard] >= PATIENCE, frozenset(self._deadly.get(shard, ()))

    def note_reading(self, shard: int, document: int | None) -> None:
        """Note the document that is read now, by its index in the shard; None if all have been read."""
        self._reading[shard] = document

    def finish(self, shard: int) -> None:
        """Forget a shard that is done, or that was taken back before it was read."""
        self._open.discard(shard)
        self._reading.pop(shard, None)

    @property
    def has_unfinished(self) -> bool:
        """True if a shard was begun and is not done."""
        return bool(self._open)

    def stop(self) -> None:
        """Ask all who work to begin nothing new."""
        self._stopping = True

    def is_stopping(self) -> bool:
        return self._stopping
