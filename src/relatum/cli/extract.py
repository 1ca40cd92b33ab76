"""`relatum extract`: entities and relations from raw text."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

import typer

if TYPE_CHECKING:
    from relatum.data.problems import Problems
    from relatum.extractor.extractor import Extractor
    from relatum.extractor.result import Extraction
    from relatum.types import Document

OutputFormat = Literal["json", "jsonl", "table", "brat", "html"]

_SUFFIXES: dict[str, OutputFormat] = {".json": "json", ".jsonl": "jsonl", ".html": "html", ".htm": "html"}
_SHOWN_TEXT = 2000
"""How many characters of a text a table begins with."""


def extract(
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The text to read; without it and --input, standard input.")
    ] = None,
    model: Annotated[
        str, typer.Option(metavar="NAME_OR_PATH", help="A model that comes with relatum, or the folder of one.")
    ] = "news",
    input: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help='A file with one text; a .jsonl file with a "text", and an "id" if you like, on each line; or a '
            "folder of .txt files.",
        ),
    ] = None,
    format: Annotated[
        OutputFormat | None,
        typer.Option(
            help="What to write; if not given, what the suffix of --out says, or a table on a terminal, or else json "
            "for one text and jsonl for several."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The file to write, or for brat the new folder.")
    ] = None,
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="Where the model runs.")] = "auto",
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="SCORE", help="Leave out what has a lower score."),
    ] = None,
    on_error: Annotated[
        Literal["fail", "skip"], typer.Option(help="Bad texts: write nothing, or leave them out and count them.")
    ] = "fail",
) -> None:
    """Extract entities and the relations between them from a text, a file, or a folder of files.

    The JSON of a text is {"text", "entities": [{"id", "start", "end", "text", "label", "score"}], "relations":
    [{"head", "tail", "label", "score"}]}: offsets are characters of the text, ends exclusive; head and tail are ids of
    entities. Where several texts may be read, each also has its "id": that of its line, or its path in the folder
    without .txt.
    """
    from relatum.cli.console import say, warn_about, watch
    from relatum.data.conversion import SKIP_CURE
    from relatum.data.problems import Problems
    from relatum.errors import RelatumError

    source = _find_source(text, input)
    chosen = format or _default_format(source, out)
    if chosen == "brat" and out is None:
        raise typer.BadParameter("brat is a folder of files; name a new one with --out")

    # Everything is read once before the model is, so that bad input is known before anything is done or written.
    problems = Problems()
    count = sum(1 for _ in source.read(problems))
    if on_error == "fail":
        problems.raise_if_any(SKIP_CURE)
    if not count:
        problems.raise_if_any("There is nothing else to read; mend these.")
        raise RelatumError(f"{source.where}: there are no texts in it; expected {source.expected}")

    problems = Problems()
    documents = source.read(problems)
    if source.many and (out is not None or not sys.stdout.isatty()):  # a table on the terminal shows its own progress
        documents = watch(documents, source.where)
    extractions = _run(_load(model, device), documents, threshold)

    def checked() -> Iterator[Extraction]:
        yield from extractions
        if on_error == "fail":
            problems.raise_if_any(SKIP_CURE)  # the input changed while it was read

    _write(checked(), chosen, out, source)
    warn_about(problems)
    if out is not None:
        say(f"wrote {out}")


@dataclass(frozen=True, slots=True)
class _Source:
    """Texts that can be read more than once; what cannot be used becomes a problem."""

    where: str
    read: Callable[[Problems], Iterator[Document]]
    many: bool = False
    """Whether it may hold several texts, however many it does hold."""
    expected: str = "text"


def _find_source(text: str | None, path: Path | None) -> _Source:
    from relatum.errors import RelatumError

    if text is not None and path is not None:
        raise typer.BadParameter("TEXT and --input are both given; leave one out")
    if path is None:
        return _one_text(_standard_input() if text is None else _argument(text))
    if path.is_dir():
        return _Source(str(path), lambda problems: _read_folder(path, problems), True, "files whose names end in .txt")
    if not path.exists():
        raise RelatumError(f"{path}: no such file or folder")
    if not path.is_file():
        raise RelatumError(f"{path}: neither a file nor a folder; pipe its text in, or save it as a file")
    if path.suffix.lower() == ".json":
        raise RelatumError(f'{path}: texts are not read from .json; expected .jsonl with {{"text": "…"}} on each line')
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        lines = '{"text": "…"} on each line'
        return _Source(str(path), lambda problems: _read_lines(path, problems), True, lines)
    return _Source(str(path), lambda problems: _read_file(path, path.stem, problems))


def _one_text(text: str) -> _Source:
    from relatum.types import Document

    return _Source("the text", lambda _: iter([Document("text", text)]))


def _argument(text: str) -> str:
    from contextlib import suppress

    from relatum.cli.console import say

    try:
        text.encode()
    except UnicodeEncodeError:
        raise typer.BadParameter("TEXT is not UTF-8; save it in a file of that encoding and use --input") from None
    with suppress(OSError):  # most texts cannot be the name of a file
        if Path(text).is_file():
            say(f"{text} is taken as the text itself; to read the file of that name use --input")
    return text


def _standard_input() -> str:
    import codecs

    from relatum.errors import RelatumError

    if sys.stdin is None or sys.stdin.isatty():
        raise typer.BadParameter(
            'there is no text; give it as an argument (relatum extract "…"), name a file or folder with --input, or '
            "pipe it in"
        )
    data = sys.stdin.buffer.read()
    try:
        return data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise RelatumError(
            f"standard input, line {line}: found the byte 0x{data[error.start]:02X}, which is not UTF-8; expected "
            "UTF-8 text; convert it with iconv -t UTF-8 -f and its encoding"
        ) from None


def _read_file(path: Path, id: str, problems: Problems) -> Iterator[Document]:
    import os

    from relatum.data.json_files import read_text
    from relatum.types import Document

    text = read_text(path, problems)
    if text is not None:
        yield Document(os.fsencode(id).decode(errors="replace"), text)


def _read_folder(folder: Path, problems: Problems) -> Iterator[Document]:
    from relatum.data.formats.base import natural_order

    found = [path for path in folder.rglob("*") if path.suffix.lower() == ".txt" and not path.is_dir()]
    names = {path.relative_to(folder).as_posix(): path for path in found}
    for name in sorted(names, key=natural_order):
        yield from _read_file(names[name], name.removesuffix(".txt"), problems)


def _read_lines(path: Path, problems: Problems) -> Iterator[Document]:
    from relatum.data.json_files import json_lines
    from relatum.data.records import Field, read_records
    from relatum.types import Document

    def parse(record: Field, name: str) -> Document:
        return Document(record.optional_name("id") or name, record.need("text").text(empty=True))

    return read_records(path, json_lines(path, problems), parse, problems)


def _default_format(source: _Source, out: Path | None) -> OutputFormat:
    if out is not None and out.suffix.lower() in _SUFFIXES:
        return _SUFFIXES[out.suffix.lower()]
    if out is None and sys.stdout.isatty():
        return "table"
    return "jsonl" if source.many else "json"


def _load(model: str, device: str) -> Extractor:
    from relatum.errors import RelatumError
    from relatum.extractor.extractor import Extractor

    if device == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise RelatumError("--device cuda: torch finds no CUDA device here; relatum doctor says why")
    return Extractor.from_pretrained(model, device=None if device == "auto" else device)


def _run(extractor: Extractor, documents: Iterable[Document], threshold: float | None) -> Iterator[Extraction]:
    """What is found in each document; the extractor may look ahead, so ids wait for their texts."""
    from collections import deque

    ids: deque[str] = deque()

    def texts() -> Iterator[str]:
        for document in documents:
            ids.append(document.id)
            yield document.text

    for extraction in extractor.pipe(texts()):
        named = extraction.with_id(ids.popleft())
        yield named if threshold is None else named.above(threshold)


def _write(extractions: Iterator[Extraction], format: OutputFormat, out: Path | None, source: _Source) -> None:
    from relatum.data.atomic import replacing_file

    if out is None:
        _print(extractions, format, sys.stdout, source)
        sys.stdout.flush()
    elif format == "brat":
        _write_brat(extractions, out)
    else:
        with replacing_file(out) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
            _print(extractions, format, file, source)


def _print(extractions: Iterator[Extraction], format: OutputFormat, out: TextIO, source: _Source) -> None:
    import json

    # A stream that lacks a letter gets it in the way that JSON and HTML have for that.
    plain = "utf" not in (out.encoding or "utf-8").lower()

    def record(extraction: Extraction, indent: int | None = None) -> str:
        named = {"id": extraction.document.id} if source.many else {}
        return json.dumps({**named, **extraction.to_dict()}, ensure_ascii=plain, indent=indent)

    if format == "table":
        _print_tables(extractions, out, source)
    elif format == "html":
        from relatum.extractor.html import page_parts

        shown = (extraction if source.many else extraction.with_id("") for extraction in extractions)
        parts = page_parts(shown, source.where if source.many else "Entities and relations")
        out.writelines(part.encode("ascii", "xmlcharrefreplace").decode() if plain else part for part in parts)
    elif format == "json" and source.many:
        out.write("[")
        out.writelines((",\n " if number else "") + record(found) for number, found in enumerate(extractions))
        out.write("]\n")
    else:
        indent = 2 if format == "json" else None
        out.writelines(record(extraction, indent) + "\n" for extraction in extractions)


def _print_tables(extractions: Iterator[Extraction], out: TextIO, source: _Source) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from relatum.cli.console import printable
    from relatum.extractor.result import mention

    # As in `console.results`: a file or pipe has no width to keep to.
    width = None if out.isatty() else 10_000
    console = Console(file=out, highlight=False, markup=False, emoji=False, width=width)

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
            console.print(printable(extraction.document.id), style="bold")
            console.print(printable(text[:_SHOWN_TEXT].strip() + cut))
        entities = table("entities", "entity", "type", "score", "start", "end")
        for entity in extraction.entities:
            start, end = map(str, entity.span)
            entities.add_row(printable(mention(entity, text)), entity.label, shown(entity.score), start, end)
        relations = table("relations", "head", "relation", "tail", "score")
        for relation in extraction.relations:
            head, tail = (printable(mention(end, text)) for end in (relation.head, relation.tail))
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
