"""`relatum suggest`: tasks for an annotation tool, with what a model finds in them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from relatum.cli.options import BatchSize, MaxCells, Precision, Splitting, read_splitting
from relatum.cli.sources import find_source
from relatum.extractor.finding import DEFAULT_MODEL


def suggest(
    texts: Annotated[
        Path | None,
        typer.Argument(
            metavar="TEXTS",
            help='A file with one text, a .jsonl file with "text" (and optionally "id") on each line, or a folder of '
            ".txt files. Default: standard input.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The file to write; for brat, a new folder. Required.")
    ] = None,
    to: Annotated[
        Literal["label-studio", "brat", "doccano", "jsonl"], typer.Option(help="The annotation tool or format.")
    ] = "label-studio",
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME_OR_PATH",
            help="A model that comes with relatum, the folder of a model, or OWNER/MODEL on the Hugging Face hub.",
        ),
    ] = DEFAULT_MODEL,
    unit: Annotated[
        Literal["document", "paragraph", "sentence"], typer.Option(help="What becomes a task of its own.")
    ] = "document",
    sort: Annotated[
        Literal["uncertain", "as-is"],
        typer.Option(help="The order of tasks: the most uncertain first, or the order of the texts."),
    ] = "uncertain",
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="The most tasks to write. Default: all.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="SCORE", help="Leave out entities and relations with a lower score."),
    ] = None,
    device: Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="The device for the model.")] = "auto",
    precision: Precision = "fp32",
    batch_size: BatchSize = None,
    max_cells: MaxCells = None,
    splitting: Splitting = None,
    on_error: Annotated[
        Literal["fail", "skip"], typer.Option(help="Bad texts: write nothing, or skip and count them.")
    ] = "fail",
) -> None:
    """Annotate texts with a model, for people to correct in an annotation tool; the most uncertain texts first.

    The labels of the model are written beside the tasks, as the tool needs them. Correct the tasks, export them, and
    train with relatum train.
    """
    from relatum.cli.console import say, warn_about
    from relatum.cli.progress import show_progress
    from relatum.data.problems import SKIP_CURE, Problems
    from relatum.errors import RelatumError

    if out is None:
        raise typer.BadParameter("there is no --out; name the file to write, or a new folder for brat")
    given = read_splitting(splitting)
    rules = given.get("words"), given.get("sentences")
    problems = Problems()
    source = find_source(None, texts)
    documents = list(source.read(problems))
    if on_error == "fail":
        problems.raise_if_any(SKIP_CURE)
    warn_about(problems)
    if not documents:
        raise RelatumError(f"{source.where}: there are no texts in it; expected {source.expected}")
    from relatum.extractor.extractor import Extractor
    from relatum.extractor.suggestion import suggest as write_suggestions

    extractor = Extractor.from_pretrained(model, device, precision, batch_size, max_cells, *rules)
    with show_progress(source.where) as on_progress:
        done = write_suggestions(
            documents,
            out,
            model=extractor,
            to_format=to,
            unit=unit,
            sort=sort,
            limit=limit,
            threshold=threshold,
            on_progress=on_progress,
        )
    warn_about(done.problems)
    order = "the most uncertain first" if sort == "uncertain" else "in the order of the texts"
    say(
        f"wrote {done.n_tasks:,} of {done.n_possible:,} tasks, {order}, with the predictions of {done.model_version}; "
        f"nothing was found in {done.n_empty:,}"
    )
    for path in done.written:
        say(f"wrote {path}")
