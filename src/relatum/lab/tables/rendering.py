"""The display of a table from its record: cells, Markdown, CSV.

A number is followed, in brackets, by its difference from the number of the default row. These differences can be
compared even where the published numbers are of another corpus or encoder.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from relatum.lab.tables.record import RowRecord, TableRecord
from relatum.lab.tables.table import PARAMETERS, Column

_STATUS = {"failed": "failed", "needs": "not run", "partial": "not complete", "not run": "not run"}


@dataclass(frozen=True, slots=True)
class Layout:
    """The cells of a table as text, section by section."""

    head: tuple[str, ...]
    sections: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]
    n_text: int
    """The number of columns with text, which come first; the other columns are numbers."""


def lay_out(record: TableRecord) -> Layout:
    """Format all cells of a table; corpus and encoder have columns of their own only if rows differ in them."""
    texts = _text_columns(record)
    head = [*texts]
    for column in record.columns:
        head += [f"{column.title} paper", f"{column.title} ours"]
    head.append("runs")
    default = record.default_row
    sections: dict[str, list[tuple[str, ...]]] = {}
    for number, row in enumerate(record.rows):
        cells = [text[number] for text in texts.values()]
        for column in record.columns:
            other = None if row is default or column == PARAMETERS else default
            cells += [_published_cell(row, other, column), _measured_cell(row, other, column)]
        cells.append(_n_runs(row))
        sections.setdefault(row.section, []).append(tuple(cells))
    return Layout(tuple(head), tuple((name, tuple(rows)) for name, rows in sections.items()), len(texts))


def caption(record: TableRecord) -> str:
    """Return sentences that say what the table shows, and what the paper's numbers and ours were measured on."""
    published = record.published
    corpus = "the corpus of each row" if published.corpus == "each" else published.corpus
    sentences = [
        f"Table {record.table} of {record.source}: {_lower(record.title)}.",
        f"Paper: {corpus}, {published.part}, {published.encoder}, mean of {published.n_runs} runs.",
        f"Ours: {', '.join(_ours(record))}.",
    ]
    interrupted = any(row.status in ("partial", "not run") for row in record.rows)
    n_wanted = sum(row.n_wanted for row in record.rows)
    n_missing = n_wanted - sum(len(row.runs) for row in record.rows)
    if interrupted and n_missing:
        sentences.append(
            f"Not complete: {n_missing} of {n_wanted} runs are missing; means are of those that are there."
        )
    if record.settings:
        sentences.append(f"With {', '.join(record.settings)}.")
    sentences.append("F1 in per cent.")
    if record.default_row is not None:
        sentences.append("In brackets: the difference from the default row.")
    return " ".join([*sentences, *record.notes])


def remarks(record: TableRecord) -> list[str]:
    """Return remarks on the best scores that the tagging allows, and on rows that lack some or all of their numbers."""
    lines = list(dict.fromkeys(_ceilings(record)))
    for row in record.rows:
        if row.status not in _STATUS:
            continue
        title = f"{row.section}, {row.label}" if row.section else row.label
        line = f"{title} ({row.key}): {_STATUS[row.status]}"
        if row.runs or row.status == "not run":
            line += f", {len(row.runs)} of {row.n_wanted} runs are complete"
        if row.message:
            line += f": {row.message}"
        lines.append(line)
    return lines


def _ceilings(record: TableRecord) -> Iterator[str]:
    """Yield a remark for each row whose tagging cannot express all of its gold; older records have no ceilings."""
    for row in record.rows:
        ceiling = row.ceiling or {}
        best = [f"{column.title} {ceiling[column.key]:.2f}" for column in record.columns if column.key in ceiling]
        if best:
            yield (
                f"{row.corpus}, {row.average}: gold that the tagging cannot express counts as missed; the best "
                f"F1 that it allows is {', '.join(best)}"
            )


def to_markdown(record: TableRecord) -> str:
    """The table with its caption and remarks."""
    layout = lay_out(record)
    lines = [_escape(caption(record)), "", _line(map(_escape, layout.head))]
    lines.append(_line(["---"] * layout.n_text + ["---:"] * (len(layout.head) - layout.n_text)))
    for name, rows in layout.sections:
        if name:
            lines.append(_line([f"**{_escape(name)}**", *[""] * (len(layout.head) - 1)]))
        lines += [_line(map(_escape, row)) for row in rows]
    notes = remarks(record)
    if notes:
        lines += ["", *(f"- {_escape(note)}" for note in notes)]
    return "\n".join(lines) + "\n"


def to_csv(*records: TableRecord) -> str:
    """Write a line for every row and column, with the numbers of the record; several tables share one header line."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        "table section row key corpus encoder part average column published published_difference mean std n difference "
        "status".split()
    )
    for record in records:
        for row in record.rows:
            columns = [column for column in record.columns if column.key in row.published]
            writer.writerows(_csv_line(record, row, column) for column in columns)
    return text.getvalue()


def _csv_line(record: TableRecord, row: RowRecord, column: Column) -> list[object]:
    default = record.default_row
    spread = row.measured.get(column.key)
    return [
        record.table,
        row.section,
        row.label,
        row.key,
        row.corpus,
        row.encoder,
        record.part,
        row.average,
        column.key,
        row.published[column.key],
        _round(_published_difference(row, default, column)),
        None if spread is None else _round(spread.mean),
        None if spread is None else _round(spread.std),
        0 if spread is None else spread.n,
        _round(_measured_difference(row, default, column)),
        row.status,
    ]


def _text_columns(record: TableRecord) -> dict[str, list[str]]:
    """Return the columns of text, each with a cell for every row.

    If the sections of a table are corpora, rows need no column to tell their corpora apart.
    """
    texts = {"setting": [row.label for row in record.rows]}
    corpora = {row.corpus for row in record.runnable_rows}
    if len(corpora) > 1 and not any(row.section == row.corpus for row in record.rows):
        texts["corpus"] = [row.corpus for row in record.rows]
    encoders = {row.encoder for row in record.runnable_rows}
    if len(encoders) > 1:
        texts["encoder"] = [row.encoder for row in record.rows]
    return texts


def _ours(record: TableRecord) -> Iterator[str]:
    corpora = {row.corpus for row in record.runnable_rows}
    yield corpora.pop() if len(corpora) == 1 else "the corpus of each row"
    encoders = {row.encoder for row in record.runnable_rows if row.encoder}
    yield encoders.pop() if len(encoders) == 1 else "the encoder of each row"
    yield record.part
    if record.steps is not None:
        yield f"{record.steps:,} updates"
    yield "mean ± standard deviation of the runs" if record.n_runs > 1 else "one run"


def _published_cell(row: RowRecord, other: RowRecord | None, column: Column) -> str:
    """Format a published number, with its difference from the number of another row."""
    value = row.published.get(column.key)
    if value is None:
        return "–"
    return f"{value:.1f}" + _bracket(_published_difference(row, other, column), 1)


def _measured_cell(row: RowRecord, other: RowRecord | None, column: Column) -> str:
    """Format a number of ours, with its difference from the number of another row."""
    if column.key not in row.published:
        return "–"
    spread = row.measured.get(column.key)
    if spread is None:
        return "–" if row.status == "quoted" else ""
    std = "" if spread.std is None or column == PARAMETERS else f" ± {spread.std:.2f}"
    return f"{spread.mean:.2f}{std}" + _bracket(_measured_difference(row, other, column), 2)


def _bracket(difference: float | None, digits: int) -> str:
    if difference is None:
        return ""
    return f" ({difference:+.{digits}f})".replace("-", "−")


def _n_runs(row: RowRecord) -> str:
    """Format the number of seeds and the folds of each that means are over; for a partial row, runs made and wanted."""
    if row.status == "quoted":
        return ""
    if row.status == "partial":
        return f"{len(row.runs)} of {row.n_wanted} ({_STATUS['partial']})"
    n = str(len({run.seed for run in row.runs}))
    if row.data.folds:
        n += f" × {row.data.folds} folds"
    return n if row.status == "complete" else f"{n} ({_STATUS[row.status]})"


def _published_difference(row: RowRecord, other: RowRecord | None, column: Column) -> float | None:
    return None if other is None else _difference(row.published.get(column.key), other.published.get(column.key))


def _measured_difference(row: RowRecord, other: RowRecord | None, column: Column) -> float | None:
    return None if other is None else _difference(row.mean(column), other.mean(column))


def _difference(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _lower(title: str) -> str:
    """Write a title as it is inside a sentence; abbreviations keep their capital letters."""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escape(text: str) -> str:
    """Escape text for a cell of Markdown."""
    for sign in ("\\", "|", "*", "_", "<", "`"):
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())
