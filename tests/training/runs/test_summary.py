"""Mean and deviation of several runs."""

from __future__ import annotations

import io
import statistics
from typing import Any

import pytest
from rich.console import Console

from relatum.cli.runs import show_results
from relatum.evaluation.matching import TASKS
from relatum.training.runs.summary import AVERAGES, METRICS, Spread, scores_of, summarise


def test_spread_is_the_sample_standard_deviation() -> None:
    values = [0.71, 0.69, 0.74, 0.70]
    spread = Spread.of(values)
    assert spread.mean == pytest.approx(statistics.mean(values))
    assert spread.std == pytest.approx(statistics.stdev(values))
    assert Spread.of([0.5]) == Spread(0.5, None, 1)


def task(value: float) -> dict[str, object]:
    return {name: {average: dict.fromkeys(METRICS, value) for average in AVERAGES} for name in TASKS}


def test_scores_that_some_runs_lack_are_not_summarised() -> None:
    both = scores_of({"dev": task(0.5), "test": task(0.25)})
    assert len(both) == 2 * 3 * 2 * 3
    dev_alone = scores_of({"dev": task(0.7), "test": None})
    summary = summarise([both, dev_alone])
    assert {key[0] for key in summary} == {"dev"}
    assert summary["dev", "relations_strict", "macro", "recall"].mean == pytest.approx(0.6)
    assert summarise([]) == {}


def test_table_has_a_row_for_each_run_and_the_mean() -> None:
    spread = {"mean": 0.6, "std": 0.1414, "n": 2}
    nested = {name: {"macro": {"f1": spread}} for name in TASKS}
    record = {
        "config": {"training": {"selection": "macro"}},
        "runs": [
            {"name": f"seed-{seed}", "best": {"step": 1500}, "dev": task(0.5 + 0.2 * seed), "test": None}
            for seed in (0, 1)
        ],
        "missing": [{"name": "seed-2", "status": "failed"}],
        "summary": {"dev": nested},
        "by_seed": None,
    }
    shown = io.StringIO()
    show_results(Console(file=shown, width=200), record)
    lines = [line.split() for line in shown.getvalue().splitlines()]
    assert ["F1", "(macro)", "of", "2", "runs"] in lines
    assert ["seed-0", "1,500", "50.00", "50.00", "50.00"] in lines
    assert ["seed-1", "1,500", "70.00", "70.00", "70.00"] in lines
    assert ["mean", "±", "std", *["60.00", "±", "14.14"] * 3] in lines
    assert "seed-2: failed, without scores" in shown.getvalue()
    assert "ceiling" not in shown.getvalue()


def test_table_shows_the_ceiling_where_gold_is_more_than_the_tags_express() -> None:
    def ceiling(recall: float) -> dict[str, Any]:
        best = {"recall": recall, "f1": recall + 0.01, "support": 9}
        return {"dev": {name: {"micro": best, "macro": best} for name in TASKS}}

    nested = {name: {"macro": {"f1": {"mean": 0.6, "std": 0.1, "n": 2}}} for name in TASKS}
    run = {"name": "seed-0", "best": {"step": 1500}, "dev": task(0.5), "test": None}
    record = {
        "config": {"training": {"selection": "macro"}},
        "runs": [{**run, "ceiling": ceiling(0.98)}, {**run, "ceiling": ceiling(0.96)}],
        "missing": [],
        "summary": {"dev": nested},
        "by_seed": None,
    }
    shown = io.StringIO()
    show_results(Console(file=shown, width=200), record)
    assert ["ceiling", "98.00", "98.00", "98.00"] in [line.split() for line in shown.getvalue().splitlines()]
