"""The progress of a job."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from relatum.scale.job import Entry


@dataclass(slots=True)
class JobProgress:
    """The counts of a job under way."""

    documents: int
    """Documents that are done, those of earlier starts included."""
    failed: int
    share: float = 0.0
    """The share of the input that is done, roughly."""
    restarts: int = 0
    """Worker processes that ended and were started again."""
    by_worker: Counter[int] = field(default_factory=Counter)
    memory: dict[int, int] = field(default_factory=dict)
    """The bytes that each worker holds."""
    is_final: bool = False
    _begun: float = field(default_factory=time.monotonic)
    _first_share: float | None = None

    def add(self, entry: Entry, worker: int, memory: int, share: float) -> None:
        """Count a shard that a worker has done."""
        if self._first_share is None:
            self._first_share = share
        self.documents += entry.documents
        self.failed += entry.failed
        self.by_worker[worker] += entry.documents
        self.memory[worker] = memory
        self.share = share

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._begun

    @property
    def rate(self) -> float:
        """Documents per second since this start."""
        return sum(self.by_worker.values()) / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """The estimate of the time that is left; None while nothing is known."""
        gained = self.share - (self._first_share or 0.0)
        return (1 - self.share) * self.seconds / gained if gained > 0 else None
