"""`relatum convert`: annotated data from one format to another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from relatum.cli.config import ConfigFile, Override


def convert(
    source: Annotated[
        Path, typer.Argument(metavar="SRC", help="A file, or a folder with one file or subfolder a split.")
    ],
    target: Annotated[Path, typer.Argument(metavar="DST", help="The file or folder to write.")],
    from_: Annotated[
        str | None, typer.Option("--from", metavar="FORMAT", help="Format of SRC; guessed if not given.")
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="Format of DST; told by its suffix if not given.")
    ] = None,
    on_error: Annotated[
        Literal["fail", "skip"] | None,
        typer.Option(help="Bad records: write nothing, or leave them out and count them."),
    ] = None,
    overlaps: Annotated[
        Literal["fail", "drop", "keep-longest", "keep"] | None,
        typer.Option(
            help="Nested, overlapping, discontinuous entities; by default kept where DST can hold them, else an error.",
        ),
    ] = None,
    crossing: Annotated[
        Literal["fail", "drop", "join"] | None,
        typer.Option(
            help="Relations between sentences, where DST holds single sentences: an error, left out, or the sentences "
            "are joined.",
        ),
    ] = None,
    config: ConfigFile = None,
    override: Override = None,
) -> None:
    """Convert annotated data. Nothing is dropped without being counted; DST appears whole or not at all."""
    from relatum.cli.console import CommandMonitor, show
    from relatum.config import load_config
    from relatum.data import conversion

    result = conversion.convert(
        source,
        target,
        from_format=from_,
        to_format=to,
        on_error=on_error,
        overlaps=overlaps,
        crossing=crossing,
        config=load_config(config, override or []),
        monitor=CommandMonitor(),
    )
    for name, count in result.documents.items():
        show(f"{name}: {count} documents")
    show("wrote " + ", ".join(map(str, result.written)))
