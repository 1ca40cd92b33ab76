"""The execution of the runs of several rows, of one table or more, side by side, and its outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from relatum.encoders.resolve import find_encoder
from relatum.errors import RelatumError
from relatum.extractor.device import choose_device
from relatum.lab.tables.planning import PlannedRow, write_plans
from relatum.monitor import Monitor
from relatum.training.folder import RunFolder
from relatum.training.runs.budgets import MemoryBudget, share_cores
from relatum.training.runs.parallel import run_all
from relatum.training.runs.plan import PlannedRun, RunsFolder
from relatum.training.runs.summary import Failure, Runs


@dataclass(slots=True)
class Outcome:
    """The outcome of runs: what is not complete, and why."""

    failures: dict[Path, list[Failure]] = field(default_factory=dict)
    """The failed runs, by the folder of their row."""
    gold_failures: dict[Path, list[Failure]] = field(default_factory=dict)
    """Models that could not be scored with gold entities, which matters only if a table shows such scores."""
    stopped: bool = False
    """True if the user asked to stop; the states of all runs are saved."""


def complete_rows(
    rows: Sequence[PlannedRow],
    out: Path,
    device: str = "auto",
    jobs: int | Literal["auto"] | None = None,
    monitor: Monitor | None = None,
    ended: Callable[[PlannedRow, PlannedRun], None] = lambda *_: None,
    meanwhile: Callable[[], None] = lambda: None,
) -> Outcome:
    """Make all missing runs of the rows; a run that fails does not keep other runs from going on.

    The first seed of every row comes before the second seed of any row, so that tables that are stopped have something
    of each row. `ended` is called for every run that becomes complete, and `meanwhile` again and again; both must be
    quick.
    """
    distinct: dict[Path, PlannedRow] = {}
    for row in rows:
        distinct.setdefault(row.folder.path, row)
    rows = list(distinct.values())
    whole = RunsFolder(out / "runs")
    whole.path.mkdir(parents=True, exist_ok=True)
    outcome = Outcome()
    left = _in_turns(rows)
    named = {replace(run, name=f"{row.folder.path.name}/{run.name}"): (row, run) for row, run in left}
    n_all = sum(len(row.wanted) for row in rows)
    if not left:
        return outcome
    monitor = monitor or Monitor()
    with RunFolder(whole.path).locked(monitor.say):
        write_plans(rows)
        for row in rows:
            row.folder.prepare(replace(row.plan, runs=row.wanted))
        chosen = choose_device(device)
        cores = share_cores(len(left), jobs if isinstance(jobs, int) else None, chosen)
        plan = replace(left[0][0].plan, runs=tuple(named), threads=cores.threads)
        by_memory = not isinstance(jobs, int) and cores.n_jobs > 1
        budget = MemoryBudget(_greediest([row for row, _ in left]).plan.config, cores.n_jobs, by_memory, chosen)
        monitor.begin_runs(n_all, n_all - len(left))
        failures, outcome.stopped = run_all(
            whole,
            plan,
            list(named),
            budget,
            monitor,
            device,
            ended=lambda run: ended(*named[run]),
            meanwhile=meanwhile,
        )
        for failure in failures:
            row, run = named[failure.run]
            outcome.failures.setdefault(row.folder.path, []).append(replace(failure, run=run))
        for row in rows:
            row_failures = outcome.failures.get(row.folder.path, [])
            row.folder.write_results(Runs.read(row.folder.path, row.plan, row_failures).to_dict())
    return outcome


def find_encoders(rows: Sequence[PlannedRow], say: Callable[[str], None]) -> dict[Path, str]:
    """Get the encoders that missing runs need, each once; return why rows cannot be run, by the folder of the row."""
    missing: dict[str, str] = {}
    available: set[str] = set()
    needs: dict[Path, str] = {}
    for row in rows:
        config = row.plan.config.encoder
        for name in config.names if len(row.complete) < len(row.wanted) else ():
            if name not in available and name not in missing:
                try:
                    find_encoder(name)
                    available.add(name)
                except RelatumError as error:
                    missing[name] = str(error)
                    say(str(error))
            if name in missing:
                needs[row.folder.path] = missing[name]
    return needs


def _in_turns(rows: Sequence[PlannedRow]) -> list[tuple[PlannedRow, PlannedRun]]:
    """Return the incomplete runs: all rows with their first seed, then all rows with their second seed, and so on."""
    left: list[tuple[PlannedRow, PlannedRun]] = []
    for row in rows:
        complete = set(row.complete)
        left += [(row, run) for run in row.wanted if run not in complete]
    return sorted(left, key=lambda one: (one[1].seed - one[0].wanted[0].seed, one[1].fold or 0))


def _greediest(rows: Sequence[PlannedRow]) -> PlannedRow:
    """Return a row whose settings require that one run goes ahead (a cache on disk), if there is one; else any row."""
    disk = [row for row in rows if row.plan.config.encoder.cache == "disk"]
    return (disk or list(rows))[0]
