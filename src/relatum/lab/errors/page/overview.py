"""The tables above the sentences: scores by type, kinds of error, confusions."""

from __future__ import annotations

from typing import NamedTuple

from relatum.evaluation.metrics import Scores, per_cent
from relatum.lab.errors.analysis import Confusion, ErrorAnalysis, TaskErrors

_TASKS = {"entities": "Entities (NER)", "relations": "Relations (RE)", "relations_strict": "Relations, strict (RE+)"}
Row = tuple[str, ...]


class ConfusionMatrix(NamedTuple):
    """Counts by gold type (rows) and found type (columns); None stands for nothing."""

    gold: list[str | None]
    found: list[str | None]
    counts: Confusion
    most: int
    """The most confusions of a cell off the diagonal."""


def score_tables(scores: Scores) -> dict[str, list[Row]]:
    """Return the rows of a table for each task: its types, then micro and macro."""
    tables: dict[str, list[Row]] = {}
    for name, task in scores.tasks():
        rows = (*task.types.items(), ("micro", task.micro), ("macro", task.macro))
        tables[_TASKS[name]] = [
            (label, *map(per_cent, (score.precision, score.recall, score.f1)), f"{score.support:,}")
            for label, score in rows
        ]
    return tables


def kind_tables(analysis: ErrorAnalysis) -> dict[str, list[Row]]:
    """Return the rows of a table for each task: how often each kind of error is there, and what it costs."""
    return {"Entities": _kinds(analysis.entities), "Relations, strict (RE+)": _kinds(analysis.relations)}


def _kinds(task: TaskErrors) -> list[Row]:
    total = task.total
    f1 = total.score().f1
    rows: list[Row] = [("right", "", f"{total.right:,}", f"{total.right:,}", per_cent(f1), "")]
    for kind, meaning in task.kinds.items():
        mended = total.f1_without([kind])
        counts = f"{total.gold[kind]:,}", f"{total.found[kind]:,}"
        rows.append((kind.replace("_", " "), meaning, *counts, per_cent(mended), f"{100 * (mended - f1):+.2f}"))
    return rows


def confusion_matrices(analysis: ErrorAnalysis) -> dict[str, ConfusionMatrix]:
    """Return a matrix for each task: gold types by found types."""
    confusions = {"Entities": analysis.entities.confusion, "Relations": analysis.relations.confusion}
    return {title: _matrix(confusion) for title, confusion in confusions.items()}


def _matrix(confusion: Confusion) -> ConfusionMatrix:
    gold = list(dict.fromkeys(gold for gold, _ in confusion))
    found = sorted({found for _, found in confusion}, key=lambda label: (label is None, label or ""))
    wrong = [count for (gold_label, found_label), count in confusion.items() if gold_label != found_label]
    return ConfusionMatrix(gold, found, confusion, max(wrong, default=1))
