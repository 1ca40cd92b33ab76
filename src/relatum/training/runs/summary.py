"""Mean and standard deviation of the scores of several runs: `results.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from pathlib import Path
from typing import Any

from relatum.errors import RelatumError
from relatum.evaluation.matching import TASKS
from relatum.files import read_json
from relatum.training.folder import resume_command
from relatum.training.runs.plan import Plan, PlannedRun, RunsFolder

PARTS = ("dev", "test")
AVERAGES = ("micro", "macro")
METRICS = ("precision", "recall", "f1")

Key = tuple[str, str, str, str]
"""Part, task, average and metric."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The mean of some scores and their sample standard deviation, which is None for a single score."""

    mean: float
    std: float | None
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        mean = fsum(values) / len(values)
        if len(values) < 2:
            return cls(mean, None, len(values))
        return cls(mean, sqrt(fsum((value - mean) ** 2 for value in values) / (len(values) - 1)), len(values))

    def to_dict(self) -> dict[str, Any]:
        return {"mean": self.mean, "std": self.std, "n": self.n}


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a run: the reason why it has no scores, and the file that says more."""

    run: PlannedRun
    message: str
    log: Path


def read_result(path: Path) -> dict[str, Any]:
    """Read the `result.json` of a run."""
    cure = f"remove it, and have it written again by {resume_command(path.parent)}"
    try:
        record: Any = read_json(path)
    except RelatumError as error:
        raise RelatumError(f"{error}; it is not the result of a run: {cure}") from None
    try:
        scores_of(record)
        _ = record["seed"], record["data"]["sha256"], record["data"]["path"], record["config"]["evaluation"]
    except (KeyError, TypeError):
        raise RelatumError(f"{path}: not the result of a run of this version; {cure}") from None
    found: dict[str, Any] = record
    return found


def scores_of(result: Mapping[str, Any]) -> dict[Key, float]:
    """Return the scores of a run from its `result.json`, by part, task, average and metric."""
    return {
        (part, task, average, metric): result[part][task][average][metric]
        for part in PARTS
        if result[part] is not None
        for task in TASKS
        for average in AVERAGES
        for metric in METRICS
    }


def summarise(runs: Sequence[Mapping[Key, float]]) -> dict[Key, Spread]:
    """Return the mean and the standard deviation of every score that all of the runs have."""
    keys = [key for key in (runs[0] if runs else ()) if all(key in run for run in runs)]
    return {key: Spread.of([run[key] for run in runs]) for key in keys}


def make_results(folder: RunsFolder, plan: Plan, failures: Iterable[Failure] = ()) -> dict[str, Any]:
    """Make the content of `results.json`: every complete run, what became of the other runs, and the summary."""
    results = {run: read_result(path) for run in plan.runs if (path := folder.run(run).result).exists()}
    failed = {failure.run: failure for failure in failures}
    scores = {run: scores_of(result) for run, result in results.items()}
    return {
        "command": plan.command,
        **{name: _common(results.values(), name) for name in ("commit", "versions", "device")},
        "data": {"path": plan.data, "format": plan.format, "folds": plan.folds},
        "complete": len(results) == len(plan.runs),
        "runs": [
            {
                **_place(folder, run),
                "command": result["command"],
                "device": result["device"],
                "seconds": result["seconds"],
                "sha256": run.fingerprint,
                "best": result["best"],
                "ceiling": result.get("ceiling"),
                **{
                    part: _nested({key[1:]: value for key, value in scores[run].items() if key[0] == part}) or None
                    for part in PARTS
                },
            }
            for run, result in results.items()
        ],
        "missing": [
            {
                **_place(folder, run),
                "status": "failed" if run in failed else "not complete",
                "message": failed[run].message if run in failed else None,
                "log": str(failed[run].log.relative_to(folder.path)) if run in failed else None,
            }
            for run in plan.runs
            if run not in results
        ],
        "summary": _nested({key: spread.to_dict() for key, spread in summarise([*scores.values()]).items()}),
        "by_seed": _by_seed(plan, scores),
        "config": plan.config.to_dict(),
    }


def _by_seed(plan: Plan, scores: Mapping[PlannedRun, Mapping[Key, float]]) -> dict[str, Any] | None:
    """Return the means over all folds for each seed that has them all, and their spread; None if there are no folds."""
    if all(run.fold is None for run in plan.runs):
        return None
    means: dict[int, dict[Key, float]] = {}
    for seed in dict.fromkeys(run.seed for run in plan.runs):
        runs = [run for run in plan.runs if run.seed == seed]
        if all(run in scores for run in runs):
            means[seed] = {key: spread.mean for key, spread in summarise([scores[run] for run in runs]).items()}
    return {
        "seeds": [{"seed": seed, **_nested(mean)} for seed, mean in means.items()],
        "summary": _nested({key: spread.to_dict() for key, spread in summarise([*means.values()]).items()}),
    }


def _place(folder: RunsFolder, run: PlannedRun) -> dict[str, Any]:
    return {"name": run.name, "path": str(folder.path / run.name), "seed": run.seed, "fold": run.fold}


def _common(results: Iterable[Mapping[str, Any]], name: str) -> Any:
    """Return the value that all runs share, or the list of their different values."""
    values: list[Any] = []
    for result in results:
        if result[name] not in values:
            values.append(result[name])
    return values[0] if len(values) == 1 else values or None


def _nested(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Turn values by tuples of names into nested dictionaries."""
    made: dict[str, Any] = {}
    for key, value in values.items():
        place = made
        for name in key[:-1]:
            place = place.setdefault(name, {})
        place[key[-1]] = value
    return made
