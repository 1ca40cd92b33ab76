"""The output of `relatum extract`, printed or written to files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    from relatum.cli.sources import TextSource
    from relatum.extractor.result import Extraction
    from relatum.types import Document

OutputFormat = Literal["json", "jsonl", "table", "triples", "csv", "brat", "html", "parquet"]

_SUFFIXES: dict[str, OutputFormat] = {
    ".json": "json",
    ".jsonl": "jsonl",
    ".html": "html",
    ".htm": "html",
    ".csv": "csv",
    ".tsv": "triples",
}
_SHOWN_TEXT = 2000
"""The most characters of a text that are shown above its table."""


def default_format(source: TextSource, out: Path | None) -> OutputFormat:
    """Return the format to write if no format is asked for."""
    if out is not None and out.suffix.lower() in _SUFFIXES:
        return _SUFFIXES[out.suffix.lower()]
    if out is None and sys.stdout.isatty():
        return "table"
    return "jsonl" if source.many else "json"


def write_extractions(
    extractions: Iterator[Extraction], format: OutputFormat, out: Path | None, source: TextSource
) -> None:
    """Print extractions, or write them to a file or folder, which appears whole or not at all."""
    from relatum.data.atomic import replacing_file

    if out is None:
        _print(extractions, format, sys.stdout, source)
        sys.stdout.flush()
    elif format == "brat":
        _write_brat(extractions, out)
    else:
        with replacing_file(out) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
            _print(extractions, format, file, source)


def _print(extractions: Iterator[Extraction], format: OutputFormat, out: TextIO, source: TextSource) -> None:
    from relatum.cli.console import printable, to_json

    def record(extraction: Extraction, indent: int | None = None) -> str:
        named = {"id": extraction.document.id} if source.many else {}
        return to_json({**named, **extraction.to_dict()}, out, indent)

    if format == "table":
        _print_tables(extractions, out, source)
    elif format == "html":
        from relatum.extractor.drawing.html import page_parts

        shown = (extraction if source.many else extraction.with_id("") for extraction in extractions)
        parts = page_parts(shown, source.where if source.many else "Entities and relations")
        # A stream that lacks a letter gets it in the way that HTML has for that.
        plain = "utf" not in (out.encoding or "utf-8").lower()
        out.writelines(part.encode("ascii", "xmlcharrefreplace").decode() if plain else part for part in parts)
    elif format in ("triples", "csv"):
        lines = _triples(extractions) if format == "triples" else _csv(extractions)
        out.writelines(map(printable, lines) if out.isatty() else lines)
    elif format == "json" and source.many:
        out.write("[")
        out.writelines((",\n " if number else "") + record(found) for number, found in enumerate(extractions))
        out.write("]\n")
    else:
        indent = 2 if format == "json" else None
        out.writelines(record(extraction, indent) + "\n" for extraction in extractions)


def _triples(extractions: Iterator[Extraction]) -> Iterator[str]:
    """Yield a line for each relation: head, relation and tail between tabs."""
    for extraction in extractions:
        for record in extraction.to_records():
            triple = (record["head"], record["relation"], record["tail"])
            yield "\t".join(" ".join(part.split()) for part in triple) + "\n"


def _csv(extractions: Iterator[Extraction]) -> Iterator[str]:
    """Yield the lines of a table of relations."""
    import csv
    import io

    from relatum.extractor.result import RECORD_COLUMNS

    line = io.StringIO()
    writer = csv.DictWriter(line, RECORD_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for extraction in extractions:
        writer.writerows(extraction.to_records())
        yield line.getvalue()
        line.seek(0)
        line.truncate()
    yield line.getvalue()


def _print_tables(extractions: Iterator[Extraction], out: TextIO, source: TextSource) -> None:
    from rich import box
    from rich.table import Table

    from relatum.cli.console import results
    from relatum.extractor.result import mention

    console = results(out)

    def table(title: str, *columns: str) -> Table:
        made = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
        for column in columns:
            made.add_column(column, justify="right" if column in ("score", "start", "end") else "left")
        return made

    def shown(score: float | None) -> str:
        return "" if score is None else f"{score:.2f}"

    for extraction in extractions:
        text = extraction.text
        if source.many:
            cut = f"… ({len(text):,} characters)" if len(text) > _SHOWN_TEXT else ""
            console.print(extraction.document.id, style="bold")
            console.print(text[:_SHOWN_TEXT].strip() + cut)
        entities = table("entities", "entity", "type", "score", "start", "end")
        for entity in extraction.entities:
            start, end = map(str, entity.span)
            entities.add_row(mention(entity, text), entity.label, shown(entity.score), start, end)
        relations = table("relations", "head", "relation", "tail", "score")
        for relation in extraction.relations:
            head, tail = (mention(end, text) for end in (relation.head, relation.tail))
            relations.add_row(head, relation.label, tail, shown(relation.score))
        for made in (entities, relations):
            console.print(made if made.row_count else f"no {made.title}")
        console.print()


def _write_brat(extractions: Iterator[Extraction], folder: Path) -> None:
    from relatum.cli.console import say
    from relatum.data.atomic import new_folder
    from relatum.data.formats import get_format
    from relatum.schema import SchemaBuilder

    brat, schema = get_format("brat"), SchemaBuilder()

    def documents() -> Iterator[Document]:
        for extraction in extractions:
            schema.add(extraction.document.annotation)
            yield extraction.document

    with new_folder(folder) as draft:
        brat.write(draft, documents())
        if brat.companion:
            name, content = brat.companion(schema.build())
            (draft / name).write_text(content, encoding="utf-8")
    say("scores are left out, which brat cannot hold; --format jsonl keeps them")
