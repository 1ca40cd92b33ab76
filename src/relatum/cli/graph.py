"""`relatum graph`: a knowledge graph from texts, results of `relatum extract` or annotated data."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from relatum.cli.options import BatchSize, DataFormat, MaxCells, Others, Precision
from relatum.extractor.finding import DEFAULT_MODEL

if TYPE_CHECKING:
    from relatum.data.problems import Problems
    from relatum.extractor.extractor import Extractor
    from relatum.extractor.result import Extraction
    from relatum.graph import KnowledgeGraph
    from relatum.graph.saving import GraphFormat
    from relatum.types import Document


def graph(
    inputs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="INPUT",
            help="Files or folders: texts as relatum extract reads them, results of relatum extract, or annotated "
            "data. Default: the text on standard input.",
        ),
    ] = None,
    model: Annotated[
        str, typer.Option(metavar="NAME_OR_PATH", help="The model that reads texts; unused for other input.")
    ] = DEFAULT_MODEL,
    others: Others = None,
    from_: DataFormat = None,
    format: Annotated[
        Literal["table", "json", "html", "graphml", "turtle", "jsonld", "cypher", "csv"] | None,
        typer.Option(help="Output format. Default: by the suffix of --out, or a table on a terminal, or else json."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="The file to write: .html, .json, .graphml, .ttl, .jsonld or .cypher; for csv, a new folder.",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="SCORE", help="Leave out entities and relations with a lower score."),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Keep the N best places of each node and edge, and count the others."),
    ] = None,
    base: Annotated[
        str, typer.Option(metavar="IRI", help="The beginning of IRIs in turtle and jsonld.")
    ] = "https://example.org/",
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="The device for the model.")] = "auto",
    precision: Precision = "fp32",
    batch_size: BatchSize = None,
    max_cells: MaxCells = None,
    on_error: Annotated[
        Literal["fail", "skip"], typer.Option(help="Bad documents: write nothing, or skip and count them.")
    ] = "fail",
) -> None:
    """Merge the entities and relations of many documents into a knowledge graph.

    Mentions of the same type and name are one node, whichever document they are in. Each edge keeps the documents,
    sentences and scores that it was found in.
    """
    from relatum.cli.console import say, warn_about
    from relatum.data.atomic import check_target
    from relatum.data.problems import SKIP_CURE, Problems
    from relatum.graph import KnowledgeGraph
    from relatum.graph.rdf import check_base
    from relatum.graph.saving import find_format

    check_base(base)
    if format == "table" and out is not None:
        raise typer.BadParameter("a table is printed; leave out --out")
    if format == "csv" and out is None:
        raise typer.BadParameter("csv is a folder of two files; name a new folder with --out")
    to_write = find_format(out) if out is not None and format is None else format
    if out is not None:
        check_target(out, folder=to_write == "csv")

    def load() -> Extractor:
        from relatum.extractor.extractor import Extractor  # it takes torch with it, which other input does not need

        names = [model, *others] if others else model
        return Extractor.from_pretrained(names, device, precision, batch_size, max_cells)

    problems = Problems()
    with _paths(inputs or []) as paths:
        made = KnowledgeGraph.of(_read(paths, from_, load, problems), keep, threshold)
    if on_error == "fail":
        problems.raise_if_any(SKIP_CURE)
    warn_about(problems)
    if left_out := sum(edge.left_out for edge in made.edges):
        say(f"kept at most {keep} of the places of each edge; places that are only counted: {left_out:,}")
    if out is None:
        _print(made, to_write, base)
    else:
        assert to_write != "table"
        made.save(out, to_write, base)
        say(f"wrote {out}: {made.describe()}")


@contextmanager
def _paths(inputs: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield the paths to read; standard input is saved as a file first."""
    if inputs:
        yield list(inputs)
        return
    from tempfile import TemporaryDirectory

    if sys.stdin is None or sys.stdin.isatty():
        raise typer.BadParameter("there is no input; name files or folders, or pipe text or results of extract in")
    data = sys.stdin.buffer.read()
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"stdin{_suffix(data)}"
        path.write_bytes(data)
        yield [path]


def _suffix(data: bytes) -> str:
    """Return the suffix for piped data: JSON Lines, JSON, or text."""
    from relatum.data.json_files import decode, parse_json
    from relatum.data.records import BadRecord

    for suffix, part in ((".jsonl", data.lstrip().partition(b"\n")[0]), (".json", data)):
        try:
            value = parse_json(decode(part.removeprefix(codecs.BOM_UTF8)))
        except BadRecord:
            continue
        if isinstance(value, dict):
            return suffix
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            return ".json"
    return ".txt"


def _read(
    paths: Sequence[Path], format: str | None, load: Callable[[], Extractor], problems: Problems
) -> Iterator[Extraction | Document]:
    """Yield the documents of all inputs; the model is loaded when the first text needs it.

    If there are several inputs, the id of a document begins with the path of its input.
    """
    from functools import cache

    from relatum.cli.console import warn_about, watch
    from relatum.cli.extract import run_extractor
    from relatum.cli.progress import show_progress
    from relatum.cli.sources import find_source
    from relatum.errors import RelatumError
    from relatum.graph.reading import find_reader

    load = cache(load)
    several = len(paths) > 1
    # All inputs are looked at before anything is read, so that a wrong name is known at once.
    readers = [find_reader(path, format) for path in paths]
    for path, reader in zip(paths, readers, strict=True):
        if reader is None and path.is_file() and path.suffix.lower() == ".json":
            raise RelatumError(
                f"{path}: found no results of relatum extract and no annotated data in a known format; if it is "
                "annotated data, name its format with --from"
            )
    sources = [find_source(None, path) if reader is None else None for path, reader in zip(paths, readers, strict=True)]
    count = 0
    for path, reader, source in zip(paths, readers, sources, strict=True):
        if reader is not None:
            for document in watch(reader(problems), str(path)):
                count += 1
                yield replace(document, id=f"{path.as_posix()}/{document.id}") if several else document
        else:
            assert source is not None
            with show_progress(source.where) as on_progress:
                for extraction in run_extractor(load(), source.read(problems), None, on_progress):
                    count += 1
                    whole = path / extraction.document.id if source.many else path.with_suffix("")
                    yield extraction.with_id(whole.as_posix()) if several else extraction
    if not count:
        problems.raise_if_any("There is nothing else to read; fix these.")
        warn_about(problems)
        raise RelatumError(f"{', '.join(map(str, paths))}: there are no documents; expected texts or annotated data")


def _print(made: KnowledgeGraph, format: str | None, base: str) -> None:
    from relatum.cli.console import show_json
    from relatum.graph.saving import to_text

    if format == "table" or (format is None and sys.stdout.isatty()):
        _print_table(made)
    elif format in (None, "json"):
        show_json(made.to_dict(), 1)
    else:
        print(to_text(made, cast("GraphFormat", format), base), end="")


def _print_table(made: KnowledgeGraph) -> None:
    from rich import box
    from rich.table import Table

    from relatum.cli.console import results

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("head", "type", "relation", "tail", "type", "score", "found"):
        table.add_column(column, justify="right" if column in ("score", "found") else "left")
    nodes = {node.id: node for node in made.nodes}
    for edge in made.edges:
        head, tail = nodes[edge.head], nodes[edge.tail]
        score = "" if edge.score is None else f"{edge.score:.2f}"
        table.add_row(head.name, head.label, edge.label, tail.name, tail.label, score, f"{edge.count:,}")
    console = results()
    console.print(table if made.edges else "no relations")
    console.print(made.describe())
