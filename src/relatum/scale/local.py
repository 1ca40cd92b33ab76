"""The local engine: worker processes on this machine, each with its own model."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, Queue
from typing import Any

from relatum.errors import RelatumError
from relatum.scale.attempts import PATIENCE, Attempts
from relatum.scale.gpu_sharing import GpuSharing
from relatum.scale.job import Job
from relatum.scale.progress import JobProgress
from relatum.scale.shards import Shard
from relatum.scale.worker import Task, WorkerPlan
from relatum.training.stopping import Stopping

_AHEAD = 2
"""Tasks that a worker has at once: one under way, and one that waits so that the worker never does."""
_TICK = 0.5
_LISTENED = 5.0
"""Seconds to wait for the last words of a process that has ended."""

OnProgress = Callable[[JobProgress], None]


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Worker processes on this machine."""

    workers: int = 1
    threads: int = 1
    """Threads of each worker."""
    gpus: int = 0
    """Workers are spread over this many GPUs; 0 for CPU."""

    def run(self, job: Job, plan: WorkerPlan, on_progress: OnProgress) -> bool:
        """Do all pending shards; return False if the job was stopped by Ctrl-C or SIGTERM."""
        with Stopping() as stopping:
            run = _Run(job, plan, self, on_progress)
            try:
                return run.work(lambda: stopping.asked)
            finally:
                run.end()


class _Worker:
    """A worker process, and the tasks it has."""

    def __init__(
        self, number: int, plan: WorkerPlan, environment: Mapping[str, str], events: Queue[tuple[_Worker, Any]]
    ) -> None:
        self.number = number
        self.tasks: deque[Task] = deque()
        self.is_ready = False
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from relatum.scale.worker import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            start_new_session=True,  # Ctrl-C reaches the engine alone
        )
        self._send(plan)
        self._listener = threading.Thread(target=self._listen, args=(events,), daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def give(self, task: Task) -> None:
        self.tasks.append(task)
        self._send(task)

    def finish(self) -> None:
        """Let the worker end after the tasks that it has."""
        self._send(None)

    def _send(self, message: object) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, which `_listen` says
            pickle.dump(message, self._process.stdin)
            self._process.stdin.flush()

    def _listen(self, events: Queue[tuple[_Worker, Any]]) -> None:
        assert self._process.stdout is not None
        with suppress(EOFError, OSError, ValueError, pickle.UnpicklingError):  # the process, or its pipe, has ended
            while True:
                events.put((self, pickle.load(self._process.stdout)))
        events.put((self, None))

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> str:
        """Wait for the process to end; return the last lines that it wrote."""
        status = self._process.wait()
        self._listener.join(_LISTENED)
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 2000))
        tail = self._log.read().decode(errors="replace").strip()
        self._log.close()
        return f"exit status {status}" + (f": {tail}" if tail else "")


class _Run:
    """A run of the local engine."""

    def __init__(self, job: Job, plan: WorkerPlan, engine: LocalEngine, on_progress: OnProgress) -> None:
        self._job, self._plan, self._engine, self._on_progress = job, plan, engine, on_progress
        self._events: Queue[tuple[_Worker, Any]] = Queue()
        self._workers: list[_Worker] = []
        self._pending = job.pending_shards()
        self._again: deque[Shard] = deque()
        self._attempts = Attempts()
        self._failed_starts = 0
        self._progress = JobProgress(job.documents, job.failed)
        self._sharing = GpuSharing()

    def work(self, is_stopping: Callable[[], bool]) -> bool:
        first = self._next_shard()
        if first is None:
            return True
        self._again.append(first)
        self._start_all()
        exhausted = stopping = False
        while self._workers:
            if is_stopping() and not stopping:
                stopping = True
                self._take_back_waiting()
            if not stopping and not exhausted:
                exhausted = not self._hand_out()
            if stopping or exhausted:
                for worker in [worker for worker in self._workers if not worker.tasks and worker.is_ready]:
                    self._dismiss(worker)
                if not any(worker.tasks for worker in self._workers) and (stopping or not self._again):
                    break
            try:
                worker, event = self._events.get(timeout=_TICK)
            except Empty:
                self._report()
                continue
            self._handle(worker, event, stopping)
            exhausted = exhausted and not self._again
        self._report(final=True)
        return exhausted and not self._again and not self._attempts.has_unfinished

    def _next_shard(self) -> Shard | None:
        return self._again.popleft() if self._again else next(self._pending, None)

    def _hand_out(self) -> bool:
        """Fill up the workers with tasks, the idlest first; return False if there are none left."""
        while True:
            free = [worker for worker in self._workers if worker.is_ready and len(worker.tasks) < _AHEAD]
            if not free:
                return True
            shard = self._next_shard()
            if shard is None:
                return False
            careful, deadly = self._attempts.begin(shard.number)
            min(free, key=lambda worker: len(worker.tasks)).give(Task(shard, careful, deadly))

    def _handle(self, worker: _Worker, event: Any, stopping: bool) -> None:
        if worker not in self._workers:
            return  # dismissed
        if event is None:
            self._bury(worker, stopping)
            return
        kind, content = event
        if kind == "ready":
            worker.is_ready = True
            self._failed_starts = 0
            self._progress.memory[worker.number] = content
        elif kind == "reading":
            self._attempts.note_reading(worker.tasks[0].shard.number, content)
        elif kind == "done":
            entry, memory = content
            worker.tasks.popleft()
            self._job.commit(entry)
            self._attempts.finish(entry.number)
            self._progress.add(entry, worker.number, memory, self._job.share_done)
            self._report()
        elif kind == "failed":
            raise RelatumError(content)

    def _bury(self, worker: _Worker, stopping: bool) -> None:
        """Take the tasks of a process that has ended, and start another in its place."""
        self._workers.remove(worker)
        reason = worker.close()
        if stopping:
            return
        if not worker.is_ready:
            self._failed_starts += 1
            if self._failed_starts >= PATIENCE:
                raise RelatumError(f"a worker process cannot start: {reason}")
        elif worker.tasks:
            self._progress.restarts += 1
        self._take_back(list(worker.tasks), blamed=1)
        if not self._sharing.environment:
            self._start(worker.number)
            return
        # A process that dies may leave the service, and all who share the GPU, in a state that nobody knows.
        for other in self._workers:
            other.kill()
            other.close()
            self._take_back(list(other.tasks), blamed=0)
        self._workers.clear()
        self._sharing.stop()
        self._start_all()

    def _take_back(self, tasks: Sequence[Task], blamed: int) -> None:
        """Take back the tasks of a worker; all but the first `blamed` ones had no part in its end."""
        for task in tasks[blamed:]:
            self._attempts.finish(task.shard.number)
        self._again.extendleft(task.shard for task in reversed(tasks))

    def _take_back_waiting(self) -> None:
        """Stop handing out work: what is under way is finished, what waits is not."""
        for worker in self._workers:
            if not worker.is_ready:
                worker.kill()
            worker.finish()

    def _start_all(self) -> None:
        if self._engine.workers > self._engine.gpus > 0:
            self._sharing.start()
        for number in range(self._engine.workers):
            self._start(number)

    def _start(self, number: int) -> None:
        environment = {**_environment(number, self._engine), **self._sharing.environment}
        self._workers.append(_Worker(number, self._plan, environment, self._events))

    def _dismiss(self, worker: _Worker) -> None:
        worker.finish()
        self._workers.remove(worker)
        worker.close()

    def _report(self, final: bool = False) -> None:
        self._progress.is_final = final
        self._on_progress(self._progress)

    def end(self) -> None:
        """End all processes that are left, at once."""
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.close()
        self._workers.clear()
        self._sharing.stop()


def _environment(number: int, engine: LocalEngine) -> dict[str, str]:
    """Return the environment of a worker: its threads, and its GPU."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(engine.threads), "TOKENIZERS_PARALLELISM": "false"}
    if engine.gpus > 1:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(engine.gpus)))).split(",")
        environment["CUDA_VISIBLE_DEVICES"] = visible[number % engine.gpus]
    return environment


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
