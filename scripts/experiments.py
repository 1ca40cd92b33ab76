"""Make the runs of a file of experiments side by side, and summarise their scores.

    RELATUM_DATA=… python scripts/experiments.py make experiments/FILE.toml OUT [--at-once 10] [--device cuda]
    python scripts/experiments.py show OUT

A file of experiments names settings, data, seeds and folds; every combination is a `relatum train` of its own. They
are started in the order of the file, so many at once, and share a GPU by MPS. OUT/runs gets a folder for each run, and
OUT/results its result.json, copied as soon as the run is complete. If a run fails, the others continue. The same
command continues runs that were stopped or killed, and leaves complete runs alone.

Before the runs, every [[prepare]] whose target does not exist calls Python with its arguments. In all strings, {data}
is RELATUM_DATA and {out} is OUT.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
class Planned:
    """A run to be made: the experiment it belongs to, its own name, and the arguments of `relatum train`."""

    experiment: str
    name: str
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preparation:
    """Arguments for Python that make a file or folder which runs need."""

    target: Path
    arguments: tuple[str, ...]


def read_plan(path: Path, places: Mapping[str, str]) -> tuple[list[Preparation], list[Planned]]:
    """Return the preparations and the runs of a file; `places` are the folders that the file names in braces."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RelatumError(f"{path}: not a file of experiments: {error}; see experiments/ for examples") from None
    if unknown := content.keys() - {"prepare", "run"}:
        raise RelatumError(f"{path}: unknown key {min(unknown)!r}; expected [[prepare]] and [[run]]")
    prepare = [
        Preparation(Path(entry["target"].format(**places)), tuple(part.format(**places) for part in entry["python"]))
        for entry in content.get("prepare", ())
    ]
    runs = [
        run for number, entry in enumerate(content.get("run", ()), 1) for run in _expand(path, number, entry, places)
    ]
    if not runs:
        raise RelatumError(f"{path}: found no [[run]]; expected at least one, with name, data and config")
    names = [run.name for run in runs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise RelatumError(f"{path}: two runs are called {twice!r}; give the experiments different names")
    return prepare, runs


def _expand(path: Path, number: int, entry: Mapping[str, Any], places: Mapping[str, str]) -> Iterator[Planned]:
    """Yield a run for every seed on every fold."""
    if unknown := entry.keys() - KEYS:
        raise RelatumError(f"{path}: run {number} has the unknown key {min(unknown)!r}; expected {sorted(KEYS)}")
    needed = NEEDED | {"n_folds"} if "folds" in entry else NEEDED
    if missing := needed - entry.keys():
        raise RelatumError(f"{path}: run {number} has no {min(missing)!r}")
    fixed = [entry["data"].format(**places), "--config", str(ROOT / entry["config"])]
    fixed += [part for setting in entry.get("set", ()) for part in ("--set", setting.format(**places))]
    fixed += [option.format(**places) for option in entry.get("options", ())]
    folds = range(1, entry["n_folds"] + 1) if "folds" in entry else (0,)
    for fold, seed in product(folds, entry.get("seeds", (0,))):
        of_fold = ("--fold", f"{entry['folds'].format(**places)}:{fold}") if fold else ()
        name = entry["name"] + (f"-fold-{fold}" if fold else "") + f"-seed-{seed}"
        yield Planned(entry["name"], name, (*fixed, *of_fold, "--seed", str(seed)))


def make(runs: Sequence[Planned], out: Path, at_once: int, device: str) -> int:
    """Make all runs that are not complete; return the number that failed."""
    (out / "results").mkdir(parents=True, exist_ok=True)
    sharing = GpuSharing()
    if device != "cpu":
        sharing.start()
    waiting = [run for run in runs if not (out / "results" / f"{run.name}.json").exists()]
    print(f"{len(waiting)} of {len(runs)} runs to make", flush=True)
    active: dict[Planned, subprocess.Popen[bytes]] = {}
    n_failed = 0
    try:
        while waiting or active:
            while waiting and len(active) < at_once:
                run = waiting.pop(0)
                active[run] = _start(run, out, device, sharing.environment)
            time.sleep(0.2)
            for run in [run for run, process in active.items() if process.poll() is not None]:
                n_failed += not _end(run, active.pop(run).returncode, out)
    finally:
        for process in active.values():
            process.send_signal(signal.SIGTERM)  # saves the state of the run
        for process in active.values():
            process.wait()
        sharing.stop()
    return n_failed


def _start(run: Planned, out: Path, device: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    folder = out / "runs" / run.name
    folder.parent.mkdir(exist_ok=True)
    again = ("--resume", str(folder)) if (folder / "run.json").exists() else (*run.arguments, "--out", str(folder))
    with (out / "results" / f"{run.name}.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "relatum", "train", *again, "--device", device],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            start_new_session=True,
        )


def _end(run: Planned, status: int, out: Path) -> bool:
    """Copy the result of a run that has ended, and say so; return True if it is complete."""
    result = out / "runs" / run.name / "result.json"
    if status or not result.exists():
        print(f"failed: {run.name} (status {status}); see {out / 'results' / run.name}.log", flush=True)
        return False
    shutil.copyfile(result, out / "results" / f"{run.name}.json")
    print(f"done: {run.name}", flush=True)
    return True


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
    making.add_argument("file", type=Path)
    making.add_argument("out", type=Path)
    making.add_argument("--at-once", type=int, default=10)
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
    prepare, runs = read_plan(options.file, places)
    for needed in prepare:
        if not needed.target.exists():
            subprocess.run([sys.executable, *needed.arguments], cwd=ROOT, check=True)
    return min(make(runs, options.out, options.at_once, options.device), 1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except RelatumError as error:
        sys.exit(str(error))
