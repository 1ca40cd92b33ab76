"""Mean and deviation of several runs."""

from __future__ import annotations

import io
import statistics
from pathlib import Path

import pytest
from rich.console import Console

from relatum.cli.runs import show_results
from relatum.config import load_config
from relatum.training.result import BestModel, RunResult
from relatum.training.runs.plan import PlannedRun, RunsPlan
from relatum.training.runs.summary import Failure, Runs, Spread, list_scores, summarise

from ...small_results import make_result, make_scores


def test_spread_is_the_sample_standard_deviation() -> None:
    values = [0.71, 0.69, 0.74, 0.70]
    spread = Spread.of(values)
    assert spread.mean == pytest.approx(statistics.mean(values))
    assert spread.std == pytest.approx(statistics.stdev(values))
    assert Spread.of([0.5]) == Spread(0.5, None, 1)


def make_runs(*results: RunResult, n_planned: int = 2) -> Runs:
    """Runs with these results, of which those that have no result have failed."""
    planned = [PlannedRun(f"seed-{seed}", seed, None, "data") for seed in range(n_planned)]
    plan = RunsPlan(
        config=load_config(None, ["training.selection=macro"]),
        data="news",
        format=None,
        folds=None,
        one_fold=None,
        device="cpu",
        n_jobs=1,
        by_memory=False,
        threads=None,
        command="",
        arguments=(),
        runs=tuple(planned),
        remarks=(),
    )
    failures = [Failure(run, "the moon is full", Path("output.txt")) for run in planned[len(results) :]]
    return Runs(Path("runs"), plan, dict(zip(planned, results, strict=False)), tuple(failures))


def show(runs: Runs) -> str:
    shown = io.StringIO()
    show_results(Console(file=shown, width=200), runs)
    return shown.getvalue()


def test_scores_that_some_runs_lack_are_not_summarised() -> None:
    both = list_scores({"dev": make_scores(0.5, recall=0.5), "test": make_scores(0.25)})
    assert len(both) == 2 * 3 * 2 * 3
    dev_alone = list_scores({"dev": make_scores(0.7, recall=0.7)})
    summary = summarise([both, dev_alone])
    assert {key[0] for key in summary} == {"dev"}
    assert summary["dev", "relations_strict", "macro", "recall"].mean == pytest.approx(0.6)
    assert summarise([]) == {}


def test_table_has_a_row_for_each_run_and_the_mean() -> None:
    best = BestModel(1500, 0.5)
    results = [make_result(best=best, dev=make_scores(0.5 + 0.2 * seed)) for seed in (0, 1)]
    shown = show(make_runs(*results, n_planned=3))
    lines = [line.split() for line in shown.splitlines()]
    assert ["F1", "(macro)", "of", "2", "runs"] in lines
    assert ["seed-0", "1,500", "50.00", "50.00", "50.00"] in lines
    assert ["seed-1", "1,500", "70.00", "70.00", "70.00"] in lines
    assert ["mean", "±", "std", *["60.00", "±", "14.14"] * 3] in lines
    assert "seed-2: failed, without scores" in shown
    assert "ceiling" not in shown


def test_table_of_runs_without_scores_has_their_last_steps() -> None:
    lines = [line.split() for line in show(make_runs(make_result(dev=None), make_result(dev=None))).splitlines()]
    assert ["run", "last", "step"] in lines
    assert ["seed-1", "4"] in lines


def test_table_shows_the_ceiling_where_gold_is_more_than_the_tags_express() -> None:
    results = [make_result(ceilings={"dev": make_scores(f1 + 0.01, recall=f1)}) for f1 in (0.98, 0.96)]
    assert ["ceiling", "98.00", "98.00", "98.00"] in [line.split() for line in show(make_runs(*results)).splitlines()]
