"""`relatum extract`: entities and relations from raw text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from relatum.cli import job
from relatum.cli.options import BatchSize, MaxCells, Others, Precision, Splitting, read_splitting
from relatum.cli.progress import show_progress
from relatum.cli.sources import TextSource, find_source
from relatum.cli.writers import OutputFormat, default_format, write_extractions
from relatum.extractor.finding import DEFAULT_MODEL

if TYPE_CHECKING:
    from relatum.extractor.extractor import Extractor
    from relatum.extractor.result import Extraction
    from relatum.types import Document


def extract(
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The text to read. Default: --input, or else standard input.")
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME_OR_PATH",
            help="A model that comes with relatum, the folder of a model, or OWNER/MODEL on the Hugging Face hub.",
        ),
    ] = DEFAULT_MODEL,
    others: Others = None,
    input: Annotated[
        str | None,
        typer.Option(
            metavar="PATH",
            help='A file with one text, a .jsonl file with "text" (and optionally "id") on each line, or a folder of '
            ".txt files. For jobs also .parquet, .csv, .tsv, compressed files, folders, patterns and URLs such as "
            "s3://….",
        ),
    ] = None,
    format: Annotated[
        OutputFormat | None,
        typer.Option(
            help="Output format. Default: by the suffix of --out, or a table on a terminal, or else json for one text "
            "and jsonl for several."
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="The file to write; for brat, a new folder; for a job, a new folder, also as a URL."
        ),
    ] = None,
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="The device for the model.")] = "auto",
    precision: Precision = "fp32",
    batch_size: BatchSize = None,
    max_cells: MaxCells = None,
    splitting: Splitting = None,
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="SCORE", help="Leave out entities and relations with a lower score."),
    ] = None,
    on_error: Annotated[
        Literal["fail", "skip"], typer.Option(help="Bad texts: write nothing, or skip and count them.")
    ] = "fail",
    engine: job.Engine = None,
    workers: job.Workers = None,
    threads: job.Threads = None,
    address: job.Address = None,
    text_column: job.TextColumn = None,
    id_column: job.IdColumn = None,
    keep: job.Keep = None,
    without_text: job.WithoutText = False,
    shard_documents: job.ShardDocuments = None,
    max_characters: job.MaxCharacters = None,
) -> None:
    """Extract entities and the relations between them from a text, a file, or a folder of files.

    The JSON of a text is {"text", "entities": [{"id", "start", "end", "text", "label", "score"}], "relations":
    [{"head", "tail", "label", "score"}]}. Offsets count characters of the text; ends are exclusive. head and tail are
    ids of entities. If there may be several texts, each also has an "id": from its line, or its path in the folder
    without .txt. csv is a table of relations, with both names and the sentence of each; triples are lines with head,
    relation and tail between tabs.

    If --out names a folder, the extraction is a job: worker processes write shards of results into the folder, as
    Parquet or JSONL. The same command goes on with a job that was stopped. A text that cannot be read becomes a row
    with an error.
    """
    rules = read_splitting(splitting)
    options = job.JobOptions(
        engine,
        workers,
        threads,
        address,
        text_column,
        id_column,
        keep,
        without_text,
        shard_documents,
        max_characters,
    )
    if text is None and job.is_job(input, out, format):
        assert input is not None
        if on_error == "skip":
            raise typer.BadParameter("a job writes bad texts as rows with an error; leave out --on-error")
        settings = options.to_settings(
            format="jsonl" if format == "jsonl" else "parquet",
            models=(model, *(others or ())),
            device=device,
            precision=precision,
            batch_size=batch_size,
            max_cells=max_cells,
            splitting=tuple(rules.items()),
            threshold=threshold,
        )
        job.run_job(input, out, options, settings)
        return
    job.refuse_without_job(input, out, options)
    if format == "parquet":
        raise typer.BadParameter("parquet is written by jobs, which read --input; name a file or folder with it")

    def load() -> Extractor:
        from relatum.extractor.extractor import Extractor  # it takes torch with it, which bad input need not wait for

        names = [model, *others] if others else model
        return Extractor.from_pretrained(
            names, device, precision, batch_size, max_cells, words=rules.get("words"), sentences=rules.get("sentences")
        )

    source = find_source(text, None if input is None else Path(input))
    _extract_here(source, None if out is None else Path(out), format, load, threshold, on_error)


def _extract_here(
    source: TextSource,
    out: Path | None,
    format: OutputFormat | None,
    load: Callable[[], Extractor],
    threshold: float | None,
    on_error: Literal["fail", "skip"],
) -> None:
    """Extract in this process, and write one file or print."""
    from relatum.cli.console import say, warn_about
    from relatum.data.problems import SKIP_CURE, Problems
    from relatum.errors import RelatumError

    chosen = format or default_format(source, out)
    if chosen == "brat" and out is None:
        raise typer.BadParameter("brat is a folder of files; name a new one with --out")

    # Everything is read once before the model is, so that bad input is known before anything is done or written.
    problems = Problems()
    count = sum(1 for _ in source.read(problems))
    if on_error == "fail":
        problems.raise_if_any(SKIP_CURE)
    if not count:
        problems.raise_if_any("There is nothing else to read; fix these.")
        raise RelatumError(f"{source.where}: there are no texts in it; expected {source.expected}")
    problems = Problems()
    extractor = load()

    def found(on_progress: Callable[[int, int], None]) -> Iterator[Extraction]:
        yield from run_extractor(extractor, source.read(problems), threshold, on_progress)
        if on_error == "fail":
            problems.raise_if_any(SKIP_CURE)  # the input changed while it was read

    with show_progress(source.where) as on_progress:
        write_extractions(found(on_progress), chosen, out, source)
    warn_about(problems)
    if out is not None:
        say(f"wrote {out}")


def run_extractor(
    extractor: Extractor,
    documents: Iterable[Document],
    threshold: float | None,
    on_progress: Callable[[int, int], None],
) -> Iterator[Extraction]:
    """Yield the extraction of each document; the extractor may read ahead, so ids are queued until their texts come."""
    from collections import deque

    ids: deque[str] = deque()

    def texts() -> Iterator[str]:
        for document in documents:
            ids.append(document.id)
            yield document.text

    for extraction in extractor.pipe(texts(), on_progress=on_progress):
        named = extraction.with_id(ids.popleft())
        yield named if threshold is None else named.above(threshold)
