"""Two runs, or two groups of runs with the same seeds and folds, compared by their F1.

Two runs are compared on the sentences of a part, by what each found there. Two groups are compared by the differences
of the runs that share seed and fold. Where there are several folds, the runs of a fold share their test sentences and
are no independent witnesses: their differences are averaged first, and the folds are what is tested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

from relatum.errors import RelatumError
from relatum.evaluation.matching import TASKS, count
from relatum.evaluation.metrics import usable_macro
from relatum.evaluation.paired import PairedTest, sign_flip_test
from relatum.evaluation.report import N_RESAMPLES
from relatum.evaluation.significance import AVERAGES, Comparison, compare
from relatum.schema import Schema
from relatum.training.folder import RunFolder, resume_command
from relatum.training.reports.predictions import read_predictions
from relatum.training.result import RunResult
from relatum.training.runs.plan import RunsFolder, is_runs_folder
from relatum.training.runs.summary import Spread

ScoredPart = Literal["dev", "test"]


@dataclass(frozen=True, slots=True)
class TwoRuns:
    """One run against another, sentence by sentence."""

    part: ScoredPart
    n_sentences: int
    comparison: Comparison
    gold_entities: bool

    def to_dict(self) -> dict[str, Any]:
        return {"kind": "sentences", "part": self.part, "sentences": self.n_sentences, **self.comparison.to_dict()}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs with the same seed on the same fold, and their F1 by task and average."""

    seed: int
    fold: int | None
    a: Mapping[tuple[str, str], float]
    b: Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class ManyRuns:
    """A group of runs against another, pair by pair."""

    part: ScoredPart
    pairs: tuple[Pair, ...]
    unit: Literal["run", "fold"]
    """The unit that the test counts: each pair of runs, or each fold."""
    tests: Mapping[tuple[str, str], PairedTest]
    unpaired: tuple[str, ...]
    """Runs that were left out, because the other group has none with their seed and fold."""
    gold_entities: bool

    def spread(self, side: Literal["a", "b"], task: str, average: str) -> Spread:
        return Spread.of([getattr(pair, side)[task, average] for pair in self.pairs])

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "runs",
            "part": self.part,
            "unit": self.unit,
            "pairs": [self._describe_pair(pair) for pair in self.pairs],
            "unpaired": list(self.unpaired),
            **{task: self._describe_task(task) for task in TASKS},
        }

    @staticmethod
    def _describe_pair(pair: Pair) -> dict[str, Any]:
        described: dict[str, Any] = {"seed": pair.seed, "fold": pair.fold}
        for task in TASKS:
            described[task] = {
                average: {"a": pair.a[task, average], "b": pair.b[task, average]} for average in AVERAGES
            }
        return described

    def _describe_task(self, task: str) -> dict[str, Any]:
        described = {}
        for average in AVERAGES:
            spreads = {"a": self.spread("a", task, average).to_dict(), "b": self.spread("b", task, average).to_dict()}
            described[average] = {**spreads, **self.tests[task, average].to_dict()}
        return described


def compare_runs(
    a: Path, b: Path, part: ScoredPart = "test", n_resamples: int = N_RESAMPLES, seed: int = 0
) -> TwoRuns | ManyRuns:
    """Compare what is in two folders: a complete run in each, or several runs in each.

    Runs on other data, or with gold entities on one side alone, are refused.
    """
    several = [is_runs_folder(path) for path in (a, b)]
    if several[0] != several[1]:
        single, many = (a, b) if several[1] else (b, a)
        raise RelatumError(
            f"{many} holds several runs and {single} is one; name one of the runs in {many}, or two such folders"
        )
    return _compare_many(a, b, part, seed) if several[0] else _compare_two(a, b, part, n_resamples, seed)


def _compare_two(a: Path, b: Path, part: ScoredPart, n_resamples: int, seed: int) -> TwoRuns:
    results = [_result(path) for path in (a, b)]
    _check_alike(a, b, results, part)
    sides = [read_predictions(RunFolder(path).predictions, part).documents for path in (a, b)]
    if [(gold.text, gold.annotation) for gold, _ in sides[0]] != [(gold.text, gold.annotation) for gold, _ in sides[1]]:
        raise RelatumError(
            f"{a} and {b}: the gold annotations beside their predictions differ, though their data does not"
        )
    schema = Schema.load(RunFolder(a).model / "schema.json")
    counts = [[count(gold.annotation, found.annotation, schema) for gold, found in side] for side in sides]
    evaluation = results[0].config.evaluation
    macro_over = usable_macro(evaluation.macro_over, schema, (gold.annotation for gold, _ in sides[0]))
    comparison = compare(counts[0], counts[1], schema, macro_over, n_resamples, seed)
    return TwoRuns(part, len(sides[0]), comparison, evaluation.entities == "gold")


def _compare_many(a: Path, b: Path, part: ScoredPart, seed: int) -> ManyRuns:
    sides = [_complete_runs(path) for path in (a, b)]
    shared = [key for key in sides[0] if key in sides[1]]
    if not shared:
        raise RelatumError(
            f"{a} and {b} have no complete runs with the same seed and fold, which are compared in pairs; "
            "give both the same --seed, --runs and --folds"
        )
    pairs = []
    for key in shared:
        run_a, run_b = (side[key] for side in sides)
        results = [_result(run_a), _result(run_b)]
        _check_alike(run_a, run_b, results, part)
        pairs.append(Pair(*key, *(_f1(result, part) for result in results)))
    unpaired = [str(side[key]) for side, other in (sides, sides[::-1]) for key in side if key not in other]
    by_fold: dict[int | None, list[Pair]] = {}
    for pair in pairs:
        by_fold.setdefault(pair.fold, []).append(pair)
    has_folds = len(by_fold) > 1
    units = list(by_fold.values()) if has_folds else [[pair] for pair in pairs]
    tests = {}
    for task, average in product(TASKS, AVERAGES):
        differences = [_mean_difference(unit, task, average) for unit in units]
        tests[task, average] = sign_flip_test(differences, seed)
    gold = results[0].config.evaluation.entities == "gold"
    return ManyRuns(part, tuple(pairs), "fold" if has_folds else "run", tests, tuple(unpaired), gold)


def _complete_runs(path: Path) -> dict[tuple[int, int | None], Path]:
    folder = RunsFolder(path)
    runs = {(run.seed, run.fold): folder.run(run) for run in folder.read_runs()}
    return {key: run.path for key, run in runs.items() if run.result.exists()}


def _result(path: Path) -> RunResult:
    folder = RunFolder(path)
    if not folder.result.exists():
        cure = f"complete it: {resume_command(path)}" if folder.is_started else "name the folder of a run"
        raise RelatumError(f"{path}: there is no complete run here (no {folder.result.name}); {cure}")
    return RunResult.read(folder.result)


def _check_alike(a: Path, b: Path, results: Sequence[RunResult], part: ScoredPart) -> None:
    """Refuse runs whose scores do not mean the same."""
    one, two = results
    if one.data.sha256 != two.data.sha256:
        held_out = " (without a dev part, each seed holds out another)" if one.seed != two.seed else ""
        raise RelatumError(
            f"{a} and {b} were trained or scored on different data ({one.data.path}, {two.data.path}), "
            f"so that their scores do not compare{held_out}; predictions on the same gold data can be compared with "
            "relatum score"
        )
    first, second = one.config.evaluation, two.config.evaluation
    for key, what, is_same in (
        ("macro_over", "macro averages over other types", first.macro_over == second.macro_over),
        ("entities", "gold entities on one side alone", first.entities == second.entities),
    ):
        if not is_same:
            raise RelatumError(f"{a} and {b} do not compare: {what} (evaluation.{key}); train both with the same")
    if part not in one.scored:
        other = "test" if part == "dev" else "dev"
        raise RelatumError(f"{a} has no {part} part; compare on {other} with --part {other}")


def _f1(result: RunResult, part: ScoredPart) -> dict[tuple[str, str], float]:
    """Return the F1 of a part that was scored, by task and average."""
    f1: dict[tuple[str, str], float] = {}
    for task, scores in result.scored[part].tasks():
        f1 |= {(task, "micro"): scores.micro.f1, (task, "macro"): scores.macro.f1}
    return f1


def _mean_difference(pairs: Sequence[Pair], task: str, average: str) -> float:
    return Spread.of([pair.b[task, average] - pair.a[task, average] for pair in pairs]).mean
