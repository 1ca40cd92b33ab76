"""Several runs side by side, each a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Literal

from relatum.data.atomic import remove_drafts
from relatum.extractor.device import choose_device
from relatum.monitor import Evaluation, Monitor
from relatum.training.folder import RunFolder, resume_command
from relatum.training.loop import TrainingStopped
from relatum.training.runs.budgets import MemoryBudget
from relatum.training.runs.plan import LOG, PlannedRun, RunsFolder, RunsPlan
from relatum.training.runs.summary import Failure, Runs
from relatum.training.stopping import Stopping

WORKER = ("-m", "relatum.training.runs.worker")
"""The arguments with which Python executes a run."""

_GRACE = 10.0
"""Seconds that a process has to end after it was killed."""


class Workers:
    """The processes of runs."""

    def __init__(self, folder: RunsFolder, plan: RunsPlan, device: str) -> None:
        self._folder, self._plan, self._device = folder, plan, device
        self._processes: dict[PlannedRun, subprocess.Popen[bytes]] = {}
        self._listeners: dict[PlannedRun, threading.Thread] = {}
        self._messages: dict[PlannedRun, str] = {}
        self._heard: Queue[tuple[PlannedRun, dict[str, Any] | None]] = Queue()

    def __len__(self) -> int:
        return len(self._processes)

    def start(self, run: PlannedRun) -> None:
        path = self._folder.run(run).path
        # In a session of its own, so that Ctrl-C reaches it once, from here, and not a second time from the terminal.
        with (path / LOG).open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", *WORKER, str(path), self._device, *self._plan.config.text.functions().values()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(self._plan.threads),
                start_new_session=True,
            )
        self._processes[run] = process
        self._listeners[run] = threading.Thread(target=self._listen, args=(run, process), daemon=True)
        self._listeners[run].start()

    def hear(self, seconds: float) -> tuple[PlannedRun, dict[str, Any] | None] | None:
        """Return a run and its next event, which is None if the run has ended; None if nothing happens for so long."""
        try:
            run, event = self._heard.get(timeout=seconds)
        except Empty:
            return None
        if event is not None and event["event"] == "failed":
            self._messages[run] = event["message"]
        return run, event

    def ended(self, run: PlannedRun) -> tuple[int, str]:
        """Return the exit status of a run that has ended, and what went wrong."""
        status = self._processes[run].wait()
        self._forget(run)
        return status, self._messages.pop(run, _explain(status))

    def stop(self) -> None:
        """Ask all runs to save their state and end."""
        for process in self._processes.values():
            process.terminate()

    def kill(self) -> None:
        """End all runs at once; they can go on from their last checkpoints."""
        for process in self._processes.values():
            process.kill()
        for run, process in [*self._processes.items()]:
            process.wait(_GRACE)
            self._forget(run)

    def _forget(self, run: PlannedRun) -> None:
        self._listeners.pop(run).join(_GRACE)
        process = self._processes.pop(run)
        assert process.stdin is not None
        process.stdin.close()

    def _listen(self, run: PlannedRun, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                if line.endswith(b"\n"):  # the last may be cut where the process was killed
                    self._heard.put((run, json.loads(line)))
        self._heard.put((run, None))


def complete_runs(
    path: Path,
    *,
    device: str | None = None,
    jobs: int | Literal["auto"] | None = None,
    functions: Collection[str] = (),
    monitor: Monitor | None = None,
) -> Runs:
    """Go on with all runs of a folder that are not complete; write `results.json`, and return the runs.

    `device` and `jobs` are those that the runs were started with unless given. The settings of the folder may name
    only those of the user's own functions that are among `functions`. Runs that fail do not keep the others
    from going on and are named in the answer. `TrainingStopped` says that the user asked to stop; all states are saved.
    """
    folder = RunsFolder(path)
    plan = folder.read(functions)
    device = device or plan.device
    n_jobs = jobs if isinstance(jobs, int) else plan.n_jobs
    by_memory = plan.by_memory if jobs is None else jobs == "auto"
    monitor = monitor or Monitor()
    with RunFolder(folder.path).locked(monitor.say):
        remove_drafts(folder.path)
        left = folder.prepare(plan)
        failures: list[Failure] = []
        stopped = False
        if left:
            budget = MemoryBudget(plan.config, n_jobs, by_memory and n_jobs > 1, choose_device(device))
            monitor.begin_runs(len(plan.runs), len(plan.runs) - len(left))
            failures, stopped = run_all(folder, plan, left, budget, monitor, device)
        n_complete = sum(folder.run(run).result.exists() for run in plan.runs)
        if stopped and n_complete < len(plan.runs):
            raise TrainingStopped(
                f"stopped; {n_complete} of {len(plan.runs)} runs are complete and the state of the others is "
                f"saved. To go on: {resume_command(path, plan.config)}"
            )
        runs = Runs.read(path, plan, failures)
        folder.write_results(runs.to_dict())
    return runs


def run_all(
    folder: RunsFolder,
    plan: RunsPlan,
    left: list[PlannedRun],
    budget: MemoryBudget,
    monitor: Monitor,
    device: str,
    *,
    ended: Callable[[PlannedRun], None] = lambda _: None,
    meanwhile: Callable[[], None] = lambda: None,
) -> tuple[list[Failure], bool]:
    """Let the runs that are left go on, in their order; return the failures, and True if all were asked to stop.

    The runs must have been begun. Nothing of the plan is read but the threads of each run, the user's own functions
    that the settings name, and the remarks that are known. `ended` is called for every run that becomes complete, and
    `meanwhile` again and again; both must be quick. The monitor is closed at the end.
    """
    waiting, failures = deque(left), list[Failure]()
    workers, listeners = Workers(folder, plan, device), Listeners(monitor, plan.remarks)
    told = False
    with Stopping() as stopping:
        try:
            while workers or (waiting and not stopping.asked):
                while waiting and len(workers) < budget.limit and not stopping.asked:
                    run = waiting.popleft()
                    workers.start(run)
                    listeners.begin(run)
                if stopping.asked and not told:
                    workers.stop()
                    told = True
                heard = workers.hear(0.1)
                if heard is None:
                    continue
                run, event = heard
                if event is not None:
                    budget.hear(event)
                    listeners.hear(run, event)
                    meanwhile()
                    continue
                status, message = workers.ended(run)
                if folder.run(run).result.exists():
                    monitor.end_run(run.name, "complete")
                    ended(run)
                elif told and (status in (130, -signal.SIGTERM) or os.name == "nt"):  # Windows can only kill
                    monitor.end_run(run.name, "stopped")
                else:
                    failures.append(Failure(run, message, folder.run(run).path / LOG))
                    monitor.end_run(run.name, f"failed: {message}")
        finally:
            workers.kill()
            monitor.close()
        return failures, stopping.asked


class Listeners:
    """The monitors of runs, which hear the events that the processes of the runs send.

    Messages on data and settings that runs send before their first update are passed on once, not for every run.
    """

    def __init__(self, monitor: Monitor, known: Iterable[str] = ()) -> None:
        """Begin without runs; the messages in `known` were said before."""
        self._monitor, self._known = monitor, set(known)
        self._runs: dict[PlannedRun, Monitor] = {}
        self._started: set[PlannedRun] = set()

    def begin(self, run: PlannedRun) -> None:
        self._runs[run] = self._monitor.begin_run(run.name)

    def hear(self, run: PlannedRun, event: Mapping[str, Any]) -> None:
        """Pass an event on to the monitor of its run."""
        monitor, kind = self._runs[run], event["event"]
        if kind == "start":
            self._started.add(run)
            monitor.start(event["step"], event["steps"])
        elif kind == "advance":
            monitor.advance(event["step"], event["loss"])
        elif kind == "evaluate":
            monitor.evaluate(Evaluation.from_dict(event["evaluation"]), event["best"])
        elif kind == "say" and (run in self._started or event["message"] not in self._known):
            self._known.add(event["message"])
            monitor.say(event["message"])


def _environment(threads: int | None) -> Mapping[str, str]:
    """Return the environment of a run: modules are found where this process finds them, and threads are shared out."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(Path(place).absolute()) for place in sys.path)}
    if threads is not None:
        environment["OMP_NUM_THREADS"] = environment["MKL_NUM_THREADS"] = str(threads)
    return environment


def _explain(status: int) -> str:
    if status == -9:
        return "it was killed, perhaps for want of memory; fewer runs at once (--jobs) need less"
    if status == 130:
        return "it was stopped from outside, and its state is saved"
    return f"it was ended by signal {-status}" if status < 0 else f"it ended with exit status {status}"
