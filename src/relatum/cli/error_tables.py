"""An error analysis as tables on the terminal; rich is imported only when there is something to show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from relatum.cli.score_tables import new_table
from relatum.errors import printable
from relatum.evaluation.metrics import per_cent
from relatum.lab.errors.analysis import Confusion, ErrorAnalysis, TaskErrors
from relatum.lab.errors.breakdowns import Breakdown
from relatum.lab.errors.kinds import FOUND_ONLY, Tally
from relatum.lab.errors.listing import sentence_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_NONE = "(none)"
_WIDEST = 120
"""The columns beyond which a matrix of types is shown as a list."""
_MOST_CONFUSIONS = 20
_NOTE = (
    "F1 if mended: what micro F1 would be if these errors alone were gone, so that gold items are found and wrong ones "
    "in their place are not. It is a bound: mending one thing does not always mend all that hangs on it.\n"
    "Gold and found types: of items that were matched, whatever else is wrong with them."
)


def show_errors(console: Console, analysis: ErrorAnalysis, trained_on: str | None = None) -> None:
    """Print the kinds of error and their cost, by type, the confusions of types, and every breakdown.

    `trained_on` says where the words seen in training come from.
    """
    tasks = (("Entities", analysis.entities), ("Relations, strict (RE+)", analysis.relations))
    for title, task in tasks:
        _show_kinds(console, title, task)
    for title, task in tasks:
        _show_types(console, title, task)
    for title, task in tasks:
        _show_confusion(console, title, task.confusion)
    for breakdown in analysis.breakdowns:
        _show_breakdown(console, breakdown, analysis.entities.total, analysis.relations.total)
    console.print(_NOTE, soft_wrap=True)
    if trained_on is not None:
        console.print(f"Seen in training: {printable(trained_on)}, without regard to case.", soft_wrap=True)


def show_worst(console: Console, analysis: ErrorAnalysis, n: int) -> None:
    """Print the sentences with most errors, gold and found side by side."""
    for number, sentence in enumerate(analysis.worst(n), 1):
        errors = "1 error" if sentence.n_errors == 1 else f"{sentence.n_errors} errors"
        console.print(f"{number}. {printable(sentence.id)}: {errors}", style="bold", soft_wrap=True)
        console.print(printable(" ".join(sentence.text.split())), soft_wrap=True)
        table = new_table("")
        for heading in ("gold", "found", "error"):
            table.add_column(heading)
        for line in sentence_lines(sentence):
            table.add_row(
                printable(line.gold), printable(line.found), "" if line.kind == "right" else _words(line.kind)
            )
        console.print(table)


def _show_kinds(console: Console, title: str, task: TaskErrors) -> None:
    table = new_table(f"{title}: kinds of error")
    table.add_column("kind")
    for heading in ("gold", "found", "F1 if mended", "gain"):
        table.add_column(heading, justify="right")
    table.add_column("meaning")
    total = task.total
    table.add_row("right", f"{total.right:,}", f"{total.right:,}", per_cent(total.score().f1), "", "")
    for kind, meaning in task.kinds.items():
        table.add_row(_words(kind), *_cost(total, (kind,)), meaning)
    table.add_section()
    for name, kinds in task.families.items():
        table.add_row(name, *_cost(total, kinds), " + ".join(map(_words, kinds)))
    console.print(table)


def _cost(total: Tally, kinds: tuple[str, ...]) -> list[str]:
    gold, found = (sum(counts[kind] for kind in kinds) for counts in (total.gold, total.found))
    f1 = total.f1_without(kinds)
    return [f"{gold:,}", f"{found:,}", per_cent(f1), f"{100 * (f1 - total.score().f1):+.2f}"]


def _show_types(console: Console, title: str, task: TaskErrors) -> None:
    table = new_table(f"{title}: kinds of error by type of gold; spurious ones by theirs")
    table.add_column("type")
    columns = ["gold", "right", *(_words(kind).replace(" ", "\n") for kind in task.kinds), "F1 if\nmended"]
    for heading in columns:
        table.add_column(heading, justify="right")
    for label, tally in task.types.items():
        counts = [(tally.found if kind in FOUND_ONLY else tally.gold)[kind] for kind in task.kinds]
        cells = [tally.gold.total(), tally.right, *counts]
        table.add_row(
            printable(label), *(f"{cell:,}" for cell in cells), per_cent(task.total.f1_without_errors_of(tally))
        )
    console.print(table)


def _show_confusion(console: Console, title: str, confusion: Confusion) -> None:
    """Print the types as a matrix, or as a list of the most frequent confusions where the matrix is too wide."""
    matrix = _confusion_matrix(title, confusion)
    if console.measure(matrix).maximum <= min(console.width, _WIDEST):
        console.print(matrix)
    else:
        _show_confusion_list(console, title, confusion)


def _confusion_matrix(title: str, confusion: Confusion) -> Table:
    golds = list(dict.fromkeys(gold for gold, _ in confusion))
    founds = sorted({found for _, found in confusion}, key=lambda label: (label is None, label or ""))
    table = new_table(f"{title}: gold types (rows), found types")
    table.add_column("gold")
    for found in founds:
        table.add_column(_name(found), justify="right")
    for gold in golds:
        counts = (confusion.get((gold, found), 0) for found in founds)
        table.add_row(_name(gold), *(f"{count:,}" if count else "·" for count in counts))
    return table


def _show_confusion_list(console: Console, title: str, confusion: Confusion) -> None:
    wrong = {pair: count for pair, count in confusion.items() if pair[0] != pair[1]}
    most = sorted(wrong, key=lambda pair: -wrong[pair])
    table = new_table(f"{title}: types that were taken for others, most frequent first")
    table.add_column("gold")
    table.add_column("found")
    table.add_column("times", justify="right")
    for pair in most[:_MOST_CONFUSIONS]:
        table.add_row(*map(_name, pair), f"{wrong[pair]:,}")
    console.print(table)
    if len(most) > _MOST_CONFUSIONS:
        rest = sum(wrong[pair] for pair in most[_MOST_CONFUSIONS:])
        more = f"And {len(most) - _MOST_CONFUSIONS:,} more pairs of types, {rest:,} times in all"
        console.print(f"{more}: --json and --report have them.", soft_wrap=True)


def _show_breakdown(console: Console, breakdown: Breakdown, entities: Tally, relations: Tally) -> None:
    tasks: list[tuple[str, Mapping[str, Tally], Tally]] = [
        (short, groups, whole)
        for short, groups, whole in (("NER", breakdown.entities, entities), ("RE+", breakdown.relations, relations))
        if groups
    ]
    table = new_table(breakdown.title)
    table.add_column("")
    for short, _, _ in tasks:
        for heading in ("gold", "P", "R", "F1", "F1 if\nmended"):
            table.add_column(f"{short}\n{heading}" if heading == "gold" else heading, justify="right")
    _add_groups(table, tasks)
    console.print(table)


def _add_groups(table: Table, tasks: list[tuple[str, Mapping[str, Tally], Tally]]) -> None:
    # Groups are in the same order for all tasks, but one task may lack some of them.
    names = list(dict.fromkeys(name for _, groups, _ in tasks for name in groups))
    for name in names:
        cells: list[str] = []
        for _, groups, whole in tasks:
            tally = groups.get(name)
            if tally is None:
                cells += [""] * 5
                continue
            score = tally.score()
            values = (score.precision, score.recall, score.f1, whole.f1_without_errors_of(tally))
            cells += [f"{score.support:,}", *map(per_cent, values)]
        table.add_row(name, *cells)


def _name(label: str | None) -> str:
    return _NONE if label is None else printable(label)


def _words(kind: str) -> str:
    return kind.replace("_", " ")
