"""Drivers of jobs that are killed and stopped, in processes that need not import torch anew.

A `Prepared` Python imports this module and forks: for a driver, and, in the place of `subprocess.Popen`, for a worker.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pyarrow.parquet  # noqa: F401

import relatum.extractor.extractor  # noqa: F401
from relatum.errors import RelatumError
from relatum.scale import JobSettings, extract_job, local, worker
from relatum.scale.progress import JobProgress
from relatum.scale.shards import ShardSize

PATIENCE = 60
"""Seconds after which something that does not come is an error."""

started: list[int] = []
"""The processes of all workers that this process has started."""


class ForkedWorker:
    """A worker that is forked; otherwise as `subprocess.Popen` would start it."""

    def __init__(self, command: list[str], *, stderr: Any, env: Mapping[str, str], **_: object) -> None:
        assert command[-1] == "from relatum.scale.worker import main; main()"
        task_end, engine_to_worker = os.pipe()
        worker_to_engine, answer_end = os.pipe()
        self._status: int | None = None
        self.pid = os.fork()
        if not self.pid:
            _be_worker(task_end, answer_end, stderr.fileno(), env)
        started.append(self.pid)
        os.close(task_end)
        os.close(answer_end)
        self.stdin = os.fdopen(engine_to_worker, "wb")
        self.stdout = os.fdopen(worker_to_engine, "rb")

    def kill(self) -> None:
        if self._status is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._status


def _be_worker(tasks: int, answers: int, log: int, environment: Mapping[str, str]) -> NoReturn:
    status = 1
    try:
        os.setsid()
        for source, target in ((tasks, 0), (answers, 1), (log, 2)):
            os.dup2(source, target)
        os.closerange(3, 1024)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.alarm(0)
        os.environ.update(environment)
        sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8")  # noqa: SIM115
        worker.main()
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(status)


def fork_workers() -> None:
    """Let the engine alone fork; others start processes as ever."""
    engine: Any = local
    assert engine.subprocess is subprocess
    engine.subprocess = SimpleNamespace(Popen=ForkedWorker, PIPE=subprocess.PIPE)


def descendants(pid: int) -> dict[int, str]:
    """The command lines of all processes below a process, by their ids; those that have ended are left out."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent, *_ = path.read_text().rpartition(")")[2].split()
            if state != "Z":
                parents[int(path.parent.name)] = int(parent)
    found: dict[int, str] = {}
    for child in parents:
        ancestor = child
        while ancestor in parents and ancestor != pid:
            ancestor = parents[ancestor]
        if ancestor == pid != child:
            with suppress(OSError):
                found[child] = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ").strip()
    return found


class Driver:
    """A job, from an input into a folder; settings are those of `JobSettings`, with the documents of a shard."""

    def __init__(
        self,
        input: str,
        out: str,
        model: str,
        workers: int = 1,
        shard: int = 4,
        ray: str | None = None,
        **settings: Any,
    ) -> None:
        self.input, self.out, self.workers = input, Path(out), workers
        self.ray = ray
        """The address of a Ray cluster; None for the local engine."""
        self.settings = JobSettings((model,), shard=ShardSize(shard), **settings)

    def run(self, on_progress: Callable[[JobProgress], None] | None = None) -> None:
        """Run the job here; the answer is a line of JSON: its report, or its error."""
        try:
            report = asdict(
                extract_job(
                    self.input,
                    str(self.out),
                    self.settings,
                    engine="local" if self.ray is None else "ray",
                    address=self.ray,
                    workers=self.workers,
                    threads=1,
                    on_progress=on_progress,
                )
            )
        except RelatumError as error:
            report = {"refused": str(error)}
        print(json.dumps({**report, "started": len(started)}), flush=True)

    def begin(self) -> int:
        """Run the job in a process of its own, which is the leader of a group, as a shell starts it."""
        pid = os.fork()
        if not pid:
            os.setpgid(0, 0)
            try:
                self.run()
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)
            os._exit(0)
        with suppress(PermissionError):
            os.setpgid(pid, pid)
        return pid

    def done(self) -> int:
        """The number of shards that are committed."""
        return len(list((self.out / "_job" / "shards").glob("0*.json")))

    def wait_for_shards(self, n: int) -> None:
        end = time.monotonic() + PATIENCE
        while self.done() < n:
            assert time.monotonic() < end, f"{self.done()} shards are done, expected {n}"
            time.sleep(0.005)

    def run_while_workers_are_killed(self, seed: int, n: int) -> None:
        """Run the job here; meanwhile `n` of its workers are killed at random moments."""
        rng = random.Random(seed)
        killed: list[int] = []
        is_over = threading.Event()

        def kill() -> None:
            while len(killed) < n and not is_over.wait(rng.uniform(0.05, 0.6)):
                alive = [pid for pid in started if pid not in killed]
                if alive:
                    killed.append(rng.choice(alive))
                    with suppress(ProcessLookupError):
                        os.kill(killed[-1], signal.SIGKILL)

        thread = threading.Thread(target=kill)
        thread.start()
        self.run()
        is_over.set()
        thread.join()
        assert len(killed) == n, "the job was over too soon"

    def be_killed(self, seed: int, n: int) -> None:
        """Kill the driver of the job `n` times at random moments; the answer is a list of shards done at each."""
        rng = random.Random(seed)
        done = []
        for _ in range(n):
            pid = self.begin()
            self.wait_for_shards(self.done() + 1)
            time.sleep(rng.uniform(0, 0.1))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            done.append(self.done())
        print(json.dumps(done), flush=True)

    def be_signalled(self, number: int, after: int) -> None:
        """Send a signal to the driver's whole group, as a terminal does, when so many shards are done."""
        pid = self.begin()
        self.wait_for_shards(after)
        os.killpg(pid, number)
        assert os.waitpid(pid, 0)[1] == 0

    def run_while_actors_are_killed(self, cluster: int, seed: int, n: int) -> None:
        """Run the job here; meanwhile `n` actors of the cluster, a process, are killed at random moments."""
        rng = random.Random(seed)
        n_killed = 0

        def kill() -> None:
            nonlocal n_killed
            while n_killed < n and not is_over.wait(rng.uniform(0.1, 1)):
                actors = [pid for pid, name in descendants(cluster).items() if name.startswith("ray::MapWorker")]
                if actors and self.done():
                    os.kill(rng.choice(actors), signal.SIGKILL)
                    n_killed += 1

        is_over = threading.Event()
        thread = threading.Thread(target=kill)
        thread.start()
        self.run()
        is_over.set()
        thread.join()
        assert n_killed == n, "the job was over too soon"

    def be_joined(self) -> None:
        """Start a second driver on the same folder while the first one works, and wait for both."""
        pid = self.begin()
        self.wait_for_shards(1)
        self.run()
        assert os.waitpid(pid, 0)[1] == 0
