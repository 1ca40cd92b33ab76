"""Several runs and their scores, with mean and standard deviation: `results.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import fsum, sqrt
from pathlib import Path
from typing import Any, TypeVar

from relatum.scores import Average, Scores
from relatum.training.result import RunResult, ceiling_records
from relatum.training.run import Run
from relatum.training.runs.plan import PlannedRun, RunsFolder, RunsPlan

T = TypeVar("T")

AVERAGES: tuple[Average, ...] = ("micro", "macro")
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


@dataclass(frozen=True, slots=True)
class Runs:
    """Several runs of the same settings, with other seeds or on other folds."""

    folder: Path
    plan: RunsPlan
    results: Mapping[PlannedRun, RunResult]
    """The results of the complete runs."""
    failures: tuple[Failure, ...] = ()
    """The runs that failed."""

    @classmethod
    def read(cls, folder: Path, plan: RunsPlan, failures: Iterable[Failure] = ()) -> Runs:
        """Read the results of all complete runs of a folder."""
        paths = {run: RunsFolder(folder).run(run).result for run in plan.runs}
        results = {run: RunResult.read(path) for run, path in paths.items() if path.exists()}
        return cls(folder, plan, results, tuple(failures))

    @property
    def runs(self) -> list[Run]:
        """The complete runs, in the order of the plan."""
        return [Run(self.folder / run.name, result) for run, result in self.results.items()]

    @property
    def missing(self) -> list[PlannedRun]:
        """The runs that failed or are not complete."""
        return [run for run in self.plan.runs if run not in self.results]

    @property
    def is_complete(self) -> bool:
        return not self.missing

    def failure(self, run: PlannedRun) -> Failure | None:
        """Return the failure of a run; None if it did not fail."""
        return next((failure for failure in self.failures if failure.run == run), None)

    def summary(self) -> dict[Key, Spread]:
        """Return the mean and the standard deviation of every score that all complete runs have."""
        return summarise([list_scores(result.scored) for result in self.results.values()])

    def seed_means(self) -> dict[int, dict[Key, float]]:
        """Return the mean scores over all folds for each seed that has them all; empty if there are no folds."""
        if all(run.fold is None for run in self.plan.runs):
            return {}
        means = {}
        for seed in dict.fromkeys(run.seed for run in self.plan.runs):
            runs = [run for run in self.plan.runs if run.seed == seed]
            if all(run in self.results for run in runs):
                spreads = summarise([list_scores(self.results[run].scored) for run in runs])
                means[seed] = {key: spread.mean for key, spread in spreads.items()}
        return means

    def to_dict(self) -> dict[str, Any]:
        """Return the content of `results.json`: every complete run, what became of the other runs, and the summary."""
        plan, results = self.plan, self.results.values()
        return {
            "command": plan.command,
            "commit": find_common(result.commit for result in results),
            "versions": find_common(dict(result.versions) for result in results),
            "device": find_common(result.device for result in results),
            "data": {"path": plan.data, "format": plan.format, "folds": plan.folds},
            "complete": self.is_complete,
            "runs": [self._complete_run(run, result) for run, result in self.results.items()],
            "missing": [self._missing_run(run) for run in self.missing],
            "summary": _nested_spreads(self.summary()),
            "by_seed": self._by_seed(),
            "config": plan.config.to_dict(),
        }

    def _complete_run(self, run: PlannedRun, result: RunResult) -> dict[str, Any]:
        scores = _nested(list_scores(result.scored))
        return {
            **self._place(run),
            "command": result.command,
            "device": result.device,
            "seconds": result.seconds,
            "sha256": run.fingerprint,
            "best": asdict(result.best),
            "ceiling": ceiling_records(result.ceilings),
            "dev": scores.get("dev"),
            "test": scores.get("test"),
        }

    def _missing_run(self, run: PlannedRun) -> dict[str, Any]:
        failure = self.failure(run)
        return {
            **self._place(run),
            "status": "not complete" if failure is None else "failed",
            "message": None if failure is None else failure.message,
            "log": None if failure is None else str(failure.log.relative_to(self.folder.absolute())),
        }

    def _place(self, run: PlannedRun) -> dict[str, Any]:
        return {"name": run.name, "path": str(self.folder.absolute() / run.name), "seed": run.seed, "fold": run.fold}

    def _by_seed(self) -> dict[str, Any] | None:
        """Return the means of each seed and their spread; None if there are no folds."""
        if all(run.fold is None for run in self.plan.runs):
            return None
        means = self.seed_means()
        return {
            "seeds": [{"seed": seed, **_nested(mean)} for seed, mean in means.items()],
            "summary": _nested_spreads(summarise([*means.values()])),
        }


def list_scores(parts: Mapping[str, Scores]) -> dict[Key, float]:
    """Return the scores of several parts by part, task, average and metric."""
    return {
        (part, task, average, metric): getattr(of_task.average(average), metric)
        for part, scores in parts.items()
        for task, of_task in scores.tasks()
        for average in AVERAGES
        for metric in METRICS
    }


def summarise(runs: Sequence[Mapping[Key, float]]) -> dict[Key, Spread]:
    """Return the mean and the standard deviation of every score that all of the runs have."""
    keys = [key for key in (runs[0] if runs else ()) if all(key in run for run in runs)]
    return {key: Spread.of([run[key] for run in runs]) for key in keys}


def find_common(values: Iterable[T]) -> T | list[T] | None:
    """Return the value that all runs share, or the list of their different values; None without runs."""
    different: list[T] = []
    for value in values:
        if value not in different:
            different.append(value)
    return different[0] if len(different) == 1 else different or None


def _nested_spreads(spreads: Mapping[Key, Spread]) -> dict[str, Any]:
    return _nested({key: spread.to_dict() for key, spread in spreads.items()})


def _nested(values: Mapping[Key, Any]) -> dict[str, Any]:
    """Turn values by tuples of names into nested dictionaries."""
    made: dict[str, Any] = {}
    for key, value in values.items():
        place = made
        for name in key[:-1]:
            place = place.setdefault(name, {})
        place[key[-1]] = value
    return made
