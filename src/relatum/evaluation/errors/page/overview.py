"""The tables above the sentences: scores by type, kinds of error, confusions."""

from __future__ import annotations

from relatum.evaluation.errors.analysis import Confusion, ErrorAnalysis, TaskErrors
from relatum.evaluation.errors.page.text import safe, table, words_of
from relatum.evaluation.metrics import Scores
from relatum.evaluation.tables import per_cent

_TASKS = {"entities": "Entities (NER)", "relations": "Relations (RE)", "relations_strict": "Relations, strict (RE+)"}


def score_tables(scores: Scores) -> str:
    """A table for each task, a row for each type."""
    tables = []
    for name, task in scores.tasks():
        rows = [
            (
                safe(label),
                *map(per_cent, (score.precision, score.recall, score.f1)),
                f"{score.support:,}",
            )
            for label, score in (*task.types.items(), ("micro", task.micro), ("macro", task.macro))
        ]
        tables.append(table(_TASKS[name], ("type", "P", "R", "F1", "in gold"), rows, foot=2))
    return f'<div class="tables">{"".join(tables)}</div>'


def kind_tables(analysis: ErrorAnalysis) -> str:
    """A table for each task: how often each kind of error is there, and what it costs."""
    parts = [_kinds("Entities", analysis.entities), _kinds("Relations, strict (RE+)", analysis.relations)]
    return f'<div class="tables">{"".join(parts)}</div>'


def _kinds(title: str, task: TaskErrors) -> str:
    total = task.total
    f1 = total.score().f1
    rows = [("right", "", f"{total.right:,}", f"{total.right:,}", per_cent(f1), "")]
    for kind, meaning in task.kinds.items():
        mended = total.f1_without([kind])
        rows.append(
            (
                safe(words_of(kind)),
                f'<span class="faint">{safe(meaning)}</span>',
                f"{total.gold[kind]:,}",
                f"{total.found[kind]:,}",
                per_cent(mended),
                f"{100 * (mended - f1):+.2f}",
            )
        )
    return table(title, ("kind", "meaning", "gold", "found", "F1 if mended", "gain"), rows, n_text=2)


def confusion_tables(analysis: ErrorAnalysis) -> str:
    """A matrix for each task: gold types by found types."""
    parts = [_confusion("Entities", analysis.entities.confusion), _confusion("Relations", analysis.relations.confusion)]
    return f'<div class="tables">{"".join(parts)}</div>'


def _confusion(title: str, confusion: Confusion) -> str:
    golds = list(dict.fromkeys(gold for gold, _ in confusion))
    founds = sorted({found for _, found in confusion}, key=lambda label: (label is None, label or ""))
    most = max((count for (gold, found), count in confusion.items() if gold != found), default=1)
    rows = []
    for gold in golds:
        cells = []
        for found in founds:
            count = confusion.get((gold, found), 0)
            if gold is None and found is None:
                cells.append("")
            elif gold == found:
                cells.append(f'<span class="same">{count:,}</span>')
            else:
                strength = round(100 * count / most)
                cells.append(f'<span class="off" style="--heat: {strength}%">{count:,}</span>' if count else "·")
        rows.append((_label(gold), *cells))
    return table(title, ("gold ╲ found", *map(_label, founds)), rows)


def _label(label: str | None) -> str:
    return "<i>nothing</i>" if label is None else safe(label)
