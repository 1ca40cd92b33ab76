"""`relatum inspect`: what is in annotated data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relatum.cli.config import ConfigFile, Override

if TYPE_CHECKING:
    from rich.console import Console

    from relatum.data.inspection import Inspection

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

    Entities and relations that the tags of a model cannot say are counted for the tagging in the configuration. Bad
    records are reported, left out, and end the command with status 1.
    """
    from relatum.cli.console import say, show_json, warn_about, watch
    from relatum.config import load_config
    from relatum.data.corpus import open_corpus
    from relatum.data.inspection import inspect_corpus
    from relatum.data.splitting import make_splitter
    from relatum.schema import Schema
    from relatum.tagging.sequence import SequenceTags
    from relatum.tagging.table import TableTags

    settings = load_config(config, override or [])
    corpus = open_corpus(data, from_)
    for name, reason in corpus.skipped:
        say(f"skipped {name}: {reason}")
    tagging = settings.tagging

    def make_tags(schema: Schema) -> tuple[SequenceTags, TableTags]:
        table = TableTags(schema, tagging.fill, tagging.cells, tagging.directed, tagging.conflicts)
        return SequenceTags(schema, tagging.scheme), table

    result = inspect_corpus(
        corpus,
        make_splitter(settings.text.words, settings.text.sentences),
        make_tags,
        watch,
    )
    warn_about(result.problems)
    if as_json:
        show_json(result.to_dict())
    else:
        _show(result, data)
    if result.problems.count:
        raise typer.Exit(1)


def _show(result: Inspection, data: Path) -> None:
    from rich import box
    from rich.table import Table

    from relatum.cli.console import results

    console = results()
    parts = result.parts
    total = result.to_dict()["total"]
    many = len(parts) > 1

    def table(title: str, *, first: str = "") -> Table:
        made = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
        made.add_column(first)
        for name in (*parts, *(["total"] if many else [])):
            made.add_column(name, justify="right")
        return made

    def row(made: Table, label: str, values: list[int], sum_: int | None = None) -> None:
        every = [*values, sum(values) if sum_ is None else sum_] if many else values
        made.add_row(label, *map(str, every))

    sizes = table(f"{data} ({', '.join(dict.fromkeys(counts.format for counts in parts.values()))})")
    row(sizes, "documents", [counts.documents for counts in parts.values()])
    row(sizes, "sentences", [counts.sentences for counts in parts.values()])
    row(sizes, "distinct sentences", [counts.distinct for counts in parts.values()], total["distinct_sentences"])
    row(sizes, "words", [counts.words for counts in parts.values()])
    row(sizes, "entities", [counts.entities.total() for counts in parts.values()])
    row(sizes, "relations", [counts.relations.total() for counts in parts.values()])
    row(
        sizes,
        "words in the longest sentence",
        [c.longest[0] for c in parts.values()],
        max(c.longest[0] for c in parts.values()),
    )
    console.print(sizes)

    for what in ("entities", "relations"):
        labels = sorted({label for counts in parts.values() for label in getattr(counts, what)})
        if labels:
            types = table(what)
            for label in labels:
                row(types, label, [getattr(counts, what)[label] for counts in parts.values()])
            console.print(types)

    signatures = sorted({signature for counts in parts.values() for signature in counts.signatures})
    if signatures:
        shapes = table("relation signatures")
        for label, head, tail in signatures:
            row(shapes, f"{label}: {head} → {tail}", [c.signatures[label, head, tail] for c in parts.values()])
        console.print(shapes)

    hurts = table("what will hurt")
    for label, name in (
        ("entities that overlap", "overlapping"),
        ("discontinuous entities", "discontinuous"),
        ("relations between sentences", "crossing"),
    ):
        if any(getattr(counts, name) for counts in parts.values()):
            row(hurts, label, [getattr(counts, name) for counts in parts.values()])
    for what in ("entities", "relations"):
        lost = [getattr(counts, f"lost_{what}") for counts in parts.values()]
        for reason in sorted({reason for counts in lost for reason in counts}):
            row(hurts, f"{what} without a tag: {reason}", [counts[reason] for counts in lost])
    if any(counts.gained_relations for counts in parts.values()):
        row(hurts, "relations that tags add between overlapping entities", [c.gained_relations for c in parts.values()])
    if hurts.row_count:
        console.print(hurts)
    _show_duplicates(console, result)


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
