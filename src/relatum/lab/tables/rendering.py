"""The display of a table from its record: cells, Markdown, CSV.

A number is followed, in brackets, by its difference from the number of the default row. These differences can be
compared even where the published numbers are of another corpus or encoder.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from relatum.lab.tables.table import COLUMNS

_STATUS = {"failed": "failed", "needs": "not run", "partial": "not complete", "not run": "not run"}


@dataclass(frozen=True, slots=True)
class Layout:
    """The cells of a table as text, section by section."""

    head: tuple[str, ...]
    sections: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...]
    n_text: int
    """The number of columns with text, which come first; the other columns are numbers."""


def lay_out(record: Mapping[str, Any]) -> Layout:
    """Format all cells of a table; corpus and encoder have columns of their own only if rows differ in them."""
    columns = [COLUMNS[key] for key in record["columns"]]
    run = [row for row in record["rows"] if row["status"] != "quoted"]
    extra = [
        name for name in ("corpus", "encoder") if len({row.get(name) for row in run}) > 1 and _needed(record, name)
    ]
    head = ["setting", *extra]
    for column in columns:
        head += [f"{column.title} paper", f"{column.title} ours"]
    default = next((row for row in record["rows"] if row["key"] == record["default"]), None)
    sections: dict[str, list[tuple[str, ...]]] = {}
    for row in record["rows"]:
        cells = [row["label"], *(row.get(name, "") for name in extra)]
        for column in columns:
            cells += [_published(row, default, column.key), _measured(row, default, column.key)]
        sections.setdefault(row["section"], []).append((*cells, _n_runs(row)))
    head.append("runs")
    return Layout(tuple(head), tuple((name, tuple(rows)) for name, rows in sections.items()), 1 + len(extra))


def caption(record: Mapping[str, Any]) -> str:
    """Return sentences that say what the table shows, and what the paper's numbers and ours were measured on."""
    published = record["published"]
    corpus = "the corpus of each row" if published["corpus"] == "each" else published["corpus"]
    sentences = [
        f"Table {record['table']} of {record['source']}: {_lower(record['title'])}.",
        f"Paper: {corpus}, {published['part']}, {published['encoder']}, mean of {published['n_runs']} runs.",
        f"Ours: {', '.join(_ours(record))}.",
    ]
    n_missing, n_wanted = _missing(record)
    if n_missing:
        sentences.append(
            f"Not complete: {n_missing} of {n_wanted} runs are missing; means are of those that are there."
        )
    if record["settings"]:
        sentences.append(f"With {', '.join(record['settings'])}.")
    sentences.append("F1 in per cent.")
    if record["default"] is not None and any(row["key"] == record["default"] for row in record["rows"]):
        sentences.append("In brackets: the difference from the default row.")
    return " ".join([*sentences, *record["notes"]])


def remarks(record: Mapping[str, Any]) -> list[str]:
    """Return remarks on the best scores that the tagging allows, and on rows that lack some or all of their numbers."""
    lines = list(dict.fromkeys(_ceilings(record)))
    for row in record["rows"]:
        if row["status"] not in _STATUS:
            continue
        counted = row.get("runs") or row["status"] == "not run"
        n = f", {len(row['runs'])} of {row['n_wanted']} runs are complete" if counted else ""
        why = f": {row['message']}" if row.get("message") else ""
        lines.append(f"{_title(row)} ({row['key']}): {_STATUS[row['status']]}{n}{why}")
    return lines


def _ceilings(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield a remark for each row whose tagging cannot express all of its gold; older records have no ceilings."""
    for row in record["rows"]:
        best = [f"{COLUMNS[key].title} {value:.2f}" for key, value in row.get("ceiling", {}).items()]
        if best:
            yield (
                f"{row['corpus']}, {row['average']}: gold that the tagging cannot express counts as missed; the best "
                f"F1 that it allows is {', '.join(best)}"
            )


def to_markdown(record: Mapping[str, Any]) -> str:
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


def to_csv(*records: Mapping[str, Any]) -> str:
    """Write a line for every row and column, with the numbers of the record; several tables share one header line."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        "table section row key corpus encoder part average column published published_difference mean std n difference "
        "status".split()
    )
    for record in records:
        writer.writerows(_csv_lines(record))
    return text.getvalue()


def _csv_lines(record: Mapping[str, Any]) -> Iterator[list[object]]:
    default = next((row for row in record["rows"] if row["key"] == record["default"]), None)
    for row in record["rows"]:
        for key in record["columns"]:
            if key not in row["published"]:
                continue
            spread = row.get("measured", {}).get(key, {})
            yield [
                *(record["table"], row["section"], row["label"], row["key"], row["corpus"], row.get("encoder")),
                record["part"],
                row["average"],
                key,
                row["published"][key],
                _round(_difference(row["published"].get(key), default and default["published"].get(key))),
                *(_round(spread.get(name)) for name in ("mean", "std")),
                spread.get("n", 0),
                _round(_difference(_mean(row, key), _mean(default, key))),
                row["status"],
            ]


def _ours(record: Mapping[str, Any]) -> Iterator[str]:
    run = [row for row in record["rows"] if row["status"] != "quoted"]
    for name, several in (("corpus", "the corpus of each row"), ("encoder", "the encoder of each row")):
        values = sorted({row[name] for row in run if name in row})
        yield values[0] if len(values) == 1 else several
    yield record["part"]
    steps = record["steps"]
    if steps is not None:
        yield f"{steps:,} updates"
    yield "mean ± standard deviation of the runs" if record["n_runs"] > 1 else "one run"


def _missing(record: Mapping[str, Any]) -> tuple[int, int]:
    """Count the runs that an interrupted table lacks, and the runs that it is to have; zeros if none was cut short."""
    if not any(row["status"] in ("partial", "not run") for row in record["rows"]):
        return 0, 0
    planned = [row for row in record["rows"] if "n_wanted" in row]
    n_wanted = sum(row["n_wanted"] for row in planned)
    return n_wanted - sum(len(row["runs"]) for row in planned), n_wanted


def _needed(record: Mapping[str, Any], name: str) -> bool:
    """True if rows need this column to be told apart; if the sections of a table are corpora, the corpus needs none."""
    return name == "encoder" or not any(row["section"] == row["corpus"] for row in record["rows"])


def _title(row: Mapping[str, Any]) -> str:
    return f"{row['section']}, {row['label']}" if row["section"] else row["label"]


def _published(row: Mapping[str, Any], default: Mapping[str, Any] | None, key: str) -> str:
    if row["published"].get(key) is None:
        return "–"
    value: float = row["published"][key]
    other = None if default is None else default["published"].get(key)
    return f"{value:.1f}{_bracket(row, default, key, value, other, 1)}"


def _measured(row: Mapping[str, Any], default: Mapping[str, Any] | None, key: str) -> str:
    if key not in row["published"]:
        return "–"
    spread = row.get("measured", {}).get(key)
    if spread is None:
        return "" if row["status"] != "quoted" else "–"
    if key == "parameters":
        return f"{spread['mean']:.2f}"
    std = "" if spread["std"] is None else f" ± {spread['std']:.2f}"
    return f"{spread['mean']:.2f}{std}{_bracket(row, default, key, spread['mean'], _mean(default, key), 2)}"


def _bracket(
    row: Mapping[str, Any],
    default: Mapping[str, Any] | None,
    key: str,
    value: float,
    other: float | None,
    digits: int,
) -> str:
    if default is None or row is default or other is None or key == "parameters":
        return ""
    return f" ({value - other:+.{digits}f})".replace("-", "−")


def _n_runs(row: Mapping[str, Any]) -> str:
    """Format the number of seeds and the folds of each that means are over; for a partial row, runs made and wanted."""
    if row["status"] == "quoted":
        return ""
    if row["status"] == "partial":
        return f"{len(row['runs'])} of {row['n_wanted']} ({_STATUS['partial']})"
    seeds = {run["seed"] for run in row.get("runs", ())}
    folds = row.get("data", {}).get("folds")
    n = str(len(seeds)) + (f" × {folds} folds" if folds else "")
    return n if row["status"] == "complete" else f"{n} ({_STATUS[row['status']]})"


def _mean(row: Mapping[str, Any] | None, key: str) -> float | None:
    return None if row is None else row.get("measured", {}).get(key, {}).get("mean")


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
