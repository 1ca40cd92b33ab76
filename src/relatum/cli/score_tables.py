"""Scores as tables on the terminal; rich is imported only when there is something to show."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relatum.errors import printable
from relatum.evaluation.ceiling import Ceiling, describe_ceiling, is_limited
from relatum.evaluation.metrics import Score, Scores, per_cent

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from relatum.evaluation.confidence import Confidence
    from relatum.evaluation.significance import Comparison, Interval, Intervals

_TITLES = {"entities": "Entities", "relations": "Relations (RE)", "relations_strict": "Relations, strict (RE+)"}
_SHORT_TITLES = {"entities": "Entities", "relations": "RE", "relations_strict": "RE+"}
_GIVEN = ", gold entities given"
_MACRO_OVER = {"gold": "in gold", "schema": "of the schema", "all": "in gold or predicted"}


def print_ceiling(ceiling: Ceiling) -> None:
    """Print the best scores that a model allows and the reasons, if they are less than 100 %."""
    from relatum.cli.console import results

    if is_limited(ceiling):
        print(f"Gold that the model cannot find counts as missed; the best it allows: {describe_ceiling(ceiling)}.")
        _show_losses(results(), ceiling)


def _show_losses(console: Console, ceiling: Ceiling) -> None:
    for loss in ceiling.losses:
        console.print(f"  {printable(str(loss))}", soft_wrap=True)


def show_scores(
    console: Console,
    scores: Scores,
    intervals: Intervals | None = None,
    gold_entities: bool = False,
    ceiling: Ceiling | None = None,
) -> None:
    """Print a table for each task, in per cent, then the types that the macro averages are over.

    Below the averages stands the ceiling, the best that the model allows, if that is less than 100 %.
    """
    limit = ceiling if ceiling is not None and is_limited(ceiling) else None
    interval = f"{100 * intervals.confidence:g}% interval" if intervals else ""
    # One width for the first columns of all tables lets the numbers stand below each other.
    first = ("micro", interval, "ceiling, micro" if limit is not None else "")
    width = max(len(printable(label)) for _, task in scores.tasks() for label in (*task.types, *first))
    for name, task in scores.tasks():
        table = new_table(_TITLES[name] + (_GIVEN if gold_entities and name != "entities" else ""))
        table.add_column("type", min_width=width)
        for heading in ("P", "R", "F1"):
            table.add_column(heading, justify="right", min_width=len("100.00–100.00") if intervals else None)
        table.add_column("support", justify="right")
        for label, score in task.types.items():
            table.add_row(printable(label), *_cells(score))
        table.add_section()
        for average, score in (("micro", task.micro), ("macro", task.macro)):
            table.add_row(average, *_cells(score))
            if intervals:
                bounds = (intervals.values[name, average, metric] for metric in ("precision", "recall", "f1"))
                table.add_row(interval, *map(_bounds, bounds))
        if limit is not None:
            best = limit.task(name)
            table.add_section()
            table.add_row("ceiling, micro", *_cells(best.micro))
            table.add_row("ceiling, macro", *_cells(best.macro))
        console.print(table)
    if limit is not None:
        console.print("Ceiling: the best that this model allows. What it cannot find counts as missed:", soft_wrap=True)
        _show_losses(console, limit)
    _show_macro_types(console, scores)
    if intervals:
        console.print(
            f"Intervals: bootstrap over documents, {intervals.n_resamples:,} resamples, seed {intervals.seed}."
        )


def _show_macro_types(console: Console, scores: Scores) -> None:
    """Print the types that the macro averages are over, if they are known."""
    if scores.macro_over is None:
        return
    console.print(f"Macro: the plain mean over the types {_MACRO_OVER[scores.macro_over]}.")
    for title, types in (("Entities", scores.entities.macro_types), ("Relations", scores.relations.macro_types)):
        console.print(f"  {title} ({len(types)}): {', '.join(map(printable, types)) or 'none'}", soft_wrap=True)


def show_confidence(console: Console, confidence: Confidence, by_threshold: bool = False) -> None:
    """Print the calibration errors of the confidence scores, and precision, recall and F1 at several thresholds."""
    errors = [
        f"{_SHORT_TITLES[name]} {'–' if task.error is None else per_cent(task.error)} ({task.n:,} found)"
        for name, task in confidence.tasks()
    ]
    console.print(f"Expected calibration error, %: {', '.join(errors)}.", soft_wrap=True)
    if not by_threshold:
        return
    for name, task in confidence.tasks():
        table = new_table(f"{_TITLES[name]} by threshold")
        for heading in ("threshold", "found", "P", "R", "F1"):
            table.add_column(heading, justify="right")
        for row in task.thresholds:
            precision = per_cent(row.precision) if row.n else "–"
            shown = f"{row.threshold:g}" if row.threshold else "none"
            table.add_row(shown, f"{row.n:,}", precision, per_cent(row.recall), per_cent(row.f1))
        console.print(table)


def show_comparison(
    console: Console, comparison: Comparison, a: str, b: str, gold_entities: bool = False, unit: str = "documents"
) -> None:
    """Print how the F1 of two systems differs, in per cent, and how likely that is by chance."""
    table = new_table("F1 of two systems" + (_GIVEN if gold_entities else ""))
    for heading in ("", "average"):
        table.add_column(heading)
    for heading in ("A", "B", "B − A", f"{100 * comparison.confidence:g}% interval", "p"):
        table.add_column(heading, justify="right")
    for (name, average), found in comparison.values.items():
        table.add_row(
            _SHORT_TITLES[name] if average == "micro" else "",
            average,
            per_cent(found.a),
            per_cent(found.b),
            f"{100 * found.difference:+.2f}",
            f"[{100 * found.interval.low:+.2f}, {100 * found.interval.high:+.2f}]",
            f"{found.p:.4f}",
        )
    console.print(table)
    console.print(f"A: {a}\nB: {b}", soft_wrap=True)
    console.print(
        f"Interval: paired bootstrap over {unit}, {comparison.n_resamples:,} resamples, seed {comparison.seed}.\n"
        f"p: two-sided approximate randomisation over {unit}, {comparison.n_resamples:,} swaps.",
    )


def new_table(title: str) -> Table:
    """Make a table in the style that all tables share."""
    from rich import box
    from rich.table import Table

    return Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")


def _cells(score: Score) -> list[str]:
    return [*map(per_cent, (score.precision, score.recall, score.f1)), f"{score.support:,}"]


def _bounds(interval: Interval) -> str:
    return f"{per_cent(interval.low)}–{per_cent(interval.high)}"
