"""Scores and results of runs that nobody has made, for tests of all that reads them."""

from __future__ import annotations

from typing import Any

from relatum.config import load_config
from relatum.scores import Score, Scores, TaskScores
from relatum.training.result import BestModel, DataSummary, RunResult


def make_task(f1: float, recall: float = 0.5) -> TaskScores:
    score = Score(0.5, recall, f1, 4)
    return TaskScores(score, score)


def make_scores(f1: float, recall: float = 0.5) -> Scores:
    """Make scores in which all three tasks have the same F1."""
    task = make_task(f1, recall)
    return Scores(task, task, task)


def make_result(**values: Any) -> RunResult:
    """Make the result of a run of four updates."""
    made = {
        "command": "relatum train news",
        "commit": "abc",
        "versions": {"python": "3"},
        "device": "fake",
        "seconds": 1.0,
        "seed": 0,
        "data": DataSummary("news", None, "data", {}, ()),
        "n_parameters": 1_234_567,
        "steps": 4,
        "stopped_early": False,
        "best": BestModel(4, 0.5),
        "dev": make_scores(0.5),
        "test": None,
        "part_cells": None,
        "messages": (),
        "config": load_config(),
        "history": (),
    }
    return RunResult(**{**made, **values})
