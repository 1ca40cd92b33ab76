"""Make the runs of files of experiments side by side, and summarise their scores.

    RELATUM_DATA=… python scripts/experiments.py make experiments/FILE.toml … OUT [--at-once 10] [--device cuda]
        [--only RUN …]
    python scripts/experiments.py show OUT

A file of experiments names settings, data, seeds and folds; every combination is a `relatum train` of its own. They
are started in the order of the files, so many at once, and share a GPU by MPS. OUT/runs gets a folder for each run, and
OUT/results its result.json, copied as soon as the run is complete. If a run fails, the others continue. The same
command continues runs that were stopped or killed, and leaves complete runs alone.

A [[prepare]] calls Python with its arguments, to make a file or folder: its target. It is left out if that exists.
`--only 'wiki*-seed-0' news-spans` makes the runs with these names, in this order, and what they need. `news-spans`
means all its seeds and folds.

In all strings, {data} is RELATUM_DATA and {out} is OUT. Whatever names a path in {out}/ waits until that path exists,
so a run may use the target of a preparation, or the model of another run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path
from typing import Any

from relatum.errors import RelatumError
from relatum.scale.gpu_sharing import GpuSharing
from relatum.training.result import RunResult
from relatum.training.runs.summary import Spread

ROOT = Path(__file__).parent.parent
KEYS = {"name", "data", "config", "set", "options", "seeds", "folds", "n_folds"}
NEEDED = {"name", "data", "config"}
TASKS = ("entities", "relations", "relations_strict")


@dataclass(frozen=True, slots=True)
class Job:
    """A process to be started: a preparation or a run, with its arguments for Python or for `relatum train`."""

    name: str
    arguments: tuple[str, ...]
    needs: frozenset[Path]
    """The paths that must exist before it can start."""
    target: Path | None = None
    """The file or folder that a preparation makes; None for a run."""

    def makes(self, path: Path) -> bool:
        """True if the path is the target of this preparation, or the model of this run."""
        return path == self.target if self.target is not None else path.parts[-3:-1] == ("runs", self.name)

    def is_ready(self, unfinished: Iterable[Job]) -> bool:
        """True if all that the job needs exists, and none of it is still being made."""
        return all(path.exists() for path in self.needs) and self.needs.isdisjoint(job.target for job in unfinished)


def read_plan(path: Path, places: Mapping[str, str]) -> tuple[list[Job], list[Job]]:
    """Return the preparations and the runs of a file; `places` are the folders that the file names in braces."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RelatumError(f"{path}: not a file of experiments: {error}; see experiments/ for examples") from None
    if unknown := content.keys() - {"prepare", "run"}:
        raise RelatumError(f"{path}: unknown key {min(unknown)!r}; expected [[prepare]] and [[run]]")
    prepare = [_preparation(entry, places) for entry in content.get("prepare", ())]
    runs = [
        run for number, entry in enumerate(content.get("run", ()), 1) for run in _expand(path, number, entry, places)
    ]
    if not runs:
        raise RelatumError(f"{path}: found no [[run]]; expected at least one, with name, data and config")
    return prepare, runs


def _preparation(entry: Mapping[str, Any], places: Mapping[str, str]) -> Job:
    target = Path(entry["target"].format(**places))
    needs = _find_needs(entry["python"], places) - {target}
    return Job(target.name, tuple(part.format(**places) for part in entry["python"]), needs, target)


def _find_needs(parts: Iterable[str], places: Mapping[str, str]) -> frozenset[Path]:
    """Return the paths in {out}/ that strings name."""
    names = [name for part in parts for name in re.findall(r"\{out\}/[\w./-]+", part)]
    return frozenset(Path(name.format(**places)) for name in names)


def _expand(path: Path, number: int, entry: Mapping[str, Any], places: Mapping[str, str]) -> Iterator[Job]:
    """Yield a run for every seed on every fold."""
    if unknown := entry.keys() - KEYS:
        raise RelatumError(f"{path}: run {number} has the unknown key {min(unknown)!r}; expected {sorted(KEYS)}")
    needed = NEEDED | {"n_folds"} if "folds" in entry else NEEDED
    if missing := needed - entry.keys():
        raise RelatumError(f"{path}: run {number} has no {min(missing)!r}")
    settings = [part for setting in entry.get("set", ()) for part in ("--set", setting)]
    fixed = [entry["data"], "--config", str(ROOT / entry["config"]), *settings, *entry.get("options", ())]
    needs = _find_needs(fixed, places)
    fixed = [part.format(**places) for part in fixed]
    folds = range(1, entry["n_folds"] + 1) if "folds" in entry else (0,)
    for fold, seed in product(folds, entry.get("seeds", (0,))):
        of_fold = ("--fold", f"{entry['folds'].format(**places)}:{fold}") if fold else ()
        name = entry["name"] + (f"-fold-{fold}" if fold else "") + f"-seed-{seed}"
        yield Job(name, (*fixed, *of_fold, "--seed", str(seed)), needs)


def read_plans(paths: Iterable[Path], places: Mapping[str, str]) -> list[Job]:
    """Return the jobs of several files, all preparations first; a preparation may stand in more than one file."""
    plans = [read_plan(path, places) for path in paths]
    prepare = {job.target: job for preparations, _ in plans for job in preparations}
    runs = [run for _, of_file in plans for run in of_file]
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise RelatumError(f"two runs are called {twice!r}; give the experiments different names")
    return [*prepare.values(), *runs]


def select(jobs: Sequence[Job], patterns: Iterable[str]) -> list[Job]:
    """Return the runs whose names match, in the order of the patterns, after the preparations and runs they need."""
    runs = [job for job in jobs if job.target is None]
    chosen: dict[Job, None] = {}
    for pattern in patterns:
        names = (pattern, f"{pattern}-seed-*", f"{pattern}-fold-*")
        matching = [run for run in runs if any(fnmatchcase(run.name, name) for name in names)]
        if not matching:
            raise RelatumError(f"--only {pattern}: no run has this name; expected one of {_names(runs)}")
        chosen.update(dict.fromkeys(needed for run in matching for needed in _with_needs(run, jobs)))
    return sorted(chosen, key=lambda job: job.target is None)


def _names(runs: Iterable[Job]) -> str:
    return ", ".join(dict.fromkeys(re.sub(r"(-fold-\d+)?-seed-\d+$", "", run.name) for run in runs))


def _with_needs(job: Job, jobs: Sequence[Job]) -> Iterator[Job]:
    """Yield all that a job needs, then the job."""
    for other in jobs:
        if any(map(other.makes, job.needs)):
            yield from _with_needs(other, jobs)
    yield job


def make(jobs: Sequence[Job], out: Path, at_once: int, device: str) -> int:
    """Start all jobs that are not complete; return the number that failed or could not start."""
    (out / "results").mkdir(parents=True, exist_ok=True)
    sharing = GpuSharing()
    if device != "cpu":
        sharing.start()
    waiting = [job for job in jobs if not _is_complete(job, out)]
    n_runs = sum(job.target is None for job in jobs)
    print(f"{sum(job.target is None for job in waiting)} of {n_runs} runs to make", flush=True)
    active: dict[Job, subprocess.Popen[bytes]] = {}
    n_failed = 0
    try:
        while (ready := [job for job in waiting if job.is_ready(active)]) or active:
            for job in ready[: at_once - len(active)]:
                waiting.remove(job)
                active[job] = _start(job, out, device, sharing.environment)
            time.sleep(0.2)
            for job in [job for job, process in active.items() if process.poll() is not None]:
                n_failed += not _end(job, active.pop(job).returncode, out)
    finally:
        for process in active.values():
            process.send_signal(signal.SIGTERM)  # saves the state of the run
        for job, process in active.items():
            if process.wait():
                _remove_target(job)
        sharing.stop()
    for job in waiting:
        missing = min(path for path in job.needs if not path.exists())
        print(f"not started: {job.name}, which needs {missing}", flush=True)
    return n_failed + len(waiting)


def _is_complete(job: Job, out: Path) -> bool:
    return (job.target or out / "results" / f"{job.name}.json").exists()


def _start(job: Job, out: Path, device: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    arguments = list(job.arguments)
    if job.target is None:
        folder = out / "runs" / job.name
        folder.parent.mkdir(exist_ok=True)
        again = ["--resume", str(folder)] if (folder / "run.json").exists() else [*arguments, "--out", str(folder)]
        arguments = ["-m", "relatum", "train", *again, "--device", device]
    with (out / "results" / f"{job.name}.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=ROOT if job.target is not None else None,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            start_new_session=True,
        )


def _end(job: Job, status: int, out: Path) -> bool:
    """Copy the result of a run that has ended, and say so; return True if the job is complete."""
    result = out / "runs" / job.name / "result.json"
    if not status and job.target is None and result.exists():
        shutil.copyfile(result, out / "results" / f"{job.name}.json")
    if status:
        _remove_target(job)
    if status or not _is_complete(job, out):
        print(f"failed: {job.name} (status {status}); see {out / 'results' / job.name}.log", flush=True)
        return False
    print(f"done: {job.name}", flush=True)
    return True


def _remove_target(job: Job) -> None:
    """Remove what a preparation that failed or was stopped has made so far, or it would count as complete."""
    if job.target is None:
        return
    if job.target.is_dir():
        shutil.rmtree(job.target)
    else:
        job.target.unlink(missing_ok=True)


def show(out: Path) -> None:
    """Print mean and standard deviation of the scores of every experiment, in per cent."""
    scores: dict[tuple[str, ...], list[float]] = defaultdict(list)
    paths = sorted((out / "results").glob("*.json"))
    if not paths:
        raise RelatumError(f"{out}: found no complete run in its folder 'results'; make some first")
    for path in paths:
        experiment = path.stem.split("-fold-")[0].rpartition("-seed-")[0] or path.stem.split("-fold-")[0]
        for part, found in RunResult.read(path).scored.items():
            for task, average in product(TASKS, ("micro", "macro")):
                value = found.to_dict()[task][average]["f1"]
                scores[experiment, part, average, task].append(100 * value)
    for (experiment, part, average, task), values in sorted(scores.items()):
        spread = Spread.of(values)
        width = "" if spread.std is None else f" ± {spread.std:.1f}"
        print(f"{experiment:40} {part:5} {average:6} {task:17} {spread.mean:5.1f}{width} ({spread.n})")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make")
    making.add_argument("files", type=Path, nargs="+")
    making.add_argument("out", type=Path)
    making.add_argument("--at-once", type=int, default=10)
    making.add_argument("--only", nargs="+", metavar="RUN")
    making.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    commands.add_parser("show").add_argument("out", type=Path)
    options = parser.parse_args(arguments)
    if options.command == "show":
        show(options.out)
        return 0
    if options.at_once < 1:
        raise RelatumError(f"--at-once is {options.at_once}; expected at least 1")
    if "RELATUM_DATA" not in os.environ:
        raise RelatumError("RELATUM_DATA is not set; set it to the folder of the corpora")
    places = {"data": os.environ["RELATUM_DATA"], "out": str(options.out.resolve())}
    jobs = read_plans(options.files, places)
    if options.only:
        jobs = select(jobs, options.only)
    return min(make(jobs, options.out, options.at_once, options.device), 1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except RelatumError as error:
        sys.exit(str(error))
