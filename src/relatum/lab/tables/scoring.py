"""The scoring of models with the gold entities, in a thread of its own while other runs go on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from relatum.errors import RelatumError
from relatum.lab.tables.measuring import GOLD_SCORES, score_with_gold_entities, write_gold_scores
from relatum.lab.tables.planning import PlannedRow
from relatum.training.runs.plan import PlannedRun
from relatum.training.runs.summary import Failure


class GoldScoring:
    """A queue that scores models with the gold entities, one at a time, and notes failures with their row.

    The thread only computes. Files are written by `collect`, in the thread that starts the processes of runs: writing
    a file changes the umask for a moment, and a process that is started at that moment would keep the changed umask.
    """

    def __init__(self, device: str, say: Callable[[str], None]) -> None:
        self.failures: dict[Path, list[Failure]] = {}
        """The failures, by the folder of their row."""
        self._device = device
        self._say = say
        self._pool = ThreadPoolExecutor(1, "gold-entities")
        self._asked: set[Path] = set()
        self._waiting: list[tuple[PlannedRow, PlannedRun, Future[dict[str, Any]]]] = []

    def ask(self, row: PlannedRow, run: PlannedRun) -> None:
        """Queue the scoring of a run's model, unless that was done or asked for before."""
        folder = row.folder.run(run)
        if folder.path in self._asked or (folder.path / GOLD_SCORES).exists():
            return
        self._asked.add(folder.path)
        scores = self._pool.submit(score_with_gold_entities, folder, row.plan.config.text, self._device)
        self._waiting.append((row, run, scores))

    def collect(self) -> list[PlannedRow]:
        """Write the scores that are ready; return the rows whose scoring has ended."""
        done = [job for job in self._waiting if job[2].done()]
        self._waiting = [job for job in self._waiting if job not in done]
        for row, run, future in done:
            if future.cancelled():
                continue
            try:
                write_gold_scores(row.folder.run(run), future.result())
            except (RelatumError, OSError, RuntimeError) as error:
                message = f"no scores with gold entities: {error}"
                self._say(f"{row.folder.path.name}/{run.name}: {message}")
                failure = Failure(run, message, row.folder.run(run).path)
                self.failures.setdefault(row.folder.path, []).append(failure)
        return [row for row, _, _ in done]

    def close(self, cancel: bool) -> None:
        """Wait for all scores that were asked for, or, to `cancel`, only for those under way, and write them."""
        try:
            while self._waiting and not cancel:
                wait([future for _, _, future in self._waiting], return_when=FIRST_COMPLETED)
                self.collect()
        finally:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self.collect()
