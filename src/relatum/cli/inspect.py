"""`relatum inspect`: what is in annotated data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relatum.cli.config import ConfigFile, Override

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from rich.console import Console
    from rich.table import Table

    from relatum.data.inspection import Inspection, PartCounts

SHOWN_DUPLICATES = 50


def inspect(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="A file, or a folder with one file or subfolder a split.")
    ],
    from_: Annotated[
        str | None, typer.Option("--from", metavar="FORMAT", help="Its format; guessed if not given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    config: ConfigFile = None,
    override: Override = None,
) -> None:
    """Count documents, sentences, entities and relations, and show what will hurt.

    Entities and relations that the tags of a model cannot say are counted for the paper's tagging (tagging.kind=words)
    and for span tagging (tagging.kind=spans). Bad records are reported, left out, and end the command with status 1.
    """
    from relatum.cli.console import CommandMonitor, show_json
    from relatum.config import load_config
    from relatum.data import inspection

    settings = load_config(config, override or [])
    result = inspection.inspect(data, format=from_, config=settings, monitor=CommandMonitor())
    if as_json:
        show_json(result.to_dict())
    else:
        _show(result, data)
    if result.problems.count:
        raise typer.Exit(1)


class _Row:
    """A row of a table: a label, the count of every part, and the count of all parts, the sum if not given."""

    def __init__(self, label: str, counts: list[int], total: int | None = None) -> None:
        self.label, self.counts = label, counts
        self.total = sum(counts) if total is None else total


def _show(result: Inspection, data: Path) -> None:
    from relatum.cli.console import results

    console = results()
    parts = result.parts.values()
    formats = ", ".join(dict.fromkeys(counts.format for counts in parts))
    for title, rows in (
        (f"{data} ({formats})", _size_rows(result)),
        ("entities", _label_rows([counts.entities for counts in parts])),
        ("relations", _label_rows([counts.relations for counts in parts])),
        ("relation signatures", _signature_rows(parts)),
        ("what will hurt", _trouble_rows(parts)),
    ):
        if rows:
            console.print(_table(title, result.parts, rows))
    _show_duplicates(console, result)


def _table(title: str, parts: Mapping[str, PartCounts], rows: Iterable[_Row]) -> Table:
    """Make a table with a column for each part and, if there are several, a column for all of them."""
    from rich import box
    from rich.table import Table

    many = len(parts) > 1
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    table.add_column()
    for name in (*parts, *(["total"] if many else [])):
        table.add_column(name, justify="right")
    for row in rows:
        numbers = [*row.counts, row.total] if many else row.counts
        table.add_row(row.label, *map(str, numbers))
    return table


def _size_rows(result: Inspection) -> list[_Row]:
    parts = result.parts.values()
    longest = [counts.longest[0] for counts in parts]
    return [
        _Row("documents", [counts.documents for counts in parts]),
        _Row("sentences", [counts.sentences for counts in parts]),
        _Row("distinct sentences", [counts.distinct for counts in parts], result.distinct),
        _Row("words", [counts.words for counts in parts]),
        _Row("entities", [counts.entities.total() for counts in parts]),
        _Row("relations", [counts.relations.total() for counts in parts]),
        _Row("words in the longest sentence", longest, max(longest)),
    ]


def _label_rows(counts: Sequence[Counter[str]], prefix: str = "") -> list[_Row]:
    """Return a row for each label that is counted in some part, sorted by label."""
    labels = sorted({label for of_part in counts for label in of_part})
    return [_Row(f"{prefix}{label}", [of_part[label] for of_part in counts]) for label in labels]


def _signature_rows(parts: Collection[PartCounts]) -> list[_Row]:
    """Return a row for each relation type with the types of its ends."""
    signatures = sorted({signature for counts in parts for signature in counts.signatures})
    return [
        _Row(f"{label}: {head} → {tail}", [counts.signatures[label, head, tail] for counts in parts])
        for label, head, tail in signatures
    ]


def _trouble_rows(parts: Collection[PartCounts]) -> list[_Row]:
    """Return a row for each kind of annotation that a model cannot express; kinds that do not occur are left out."""
    rows = [
        _Row("entities that overlap", [counts.overlapping for counts in parts]),
        _Row("discontinuous entities", [counts.discontinuous for counts in parts]),
        _Row("relations between sentences", [counts.crossing for counts in parts]),
    ]
    for kind in next(iter(parts)).losses:
        losses = [counts.losses[kind] for counts in parts]
        rows += _label_rows([one.entities for one in losses], f"{kind}, entities without a tag: ")
        rows += _label_rows([one.relations for one in losses], f"{kind}, relations without a tag: ")
        gained = [one.gained_relations for one in losses]
        rows.append(_Row(f"{kind}, relations that tags add between overlapping entities", gained))
    return [row for row in rows if any(row.counts)]


def _show_duplicates(console: Console, result: Inspection) -> None:
    for name, counts in result.parts.items():
        if counts.distinct < counts.sentences:
            repeated = _sentences(counts.sentences - counts.distinct)
            console.print(f"{name}: {repeated} repeated from earlier in {name}")
    for (first, second), found in result.shared.items():
        if found.count:
            console.print(f"\n{_sentences(found.count, 'distinct ')} of {second} also in {first}:")
            for shared in found.sentences[:SHOWN_DUPLICATES]:
                console.print(f"  {shared.second} = {shared.first}: {shared.text}", soft_wrap=True)
            if found.count > SHOWN_DUPLICATES:
                console.print(f"  … and {found.count - SHOWN_DUPLICATES} more; --json lists them")


def _sentences(count: int, kind: str = "") -> str:
    return f"{count} {kind}sentence{'' if count == 1 else 's'}"
