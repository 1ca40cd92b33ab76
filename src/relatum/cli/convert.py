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
        Literal["fail", "drop", "keep-longest"] | None,
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
    from relatum.cli.console import printable, say, warn_about, watch
    from relatum.config import load_config
    from relatum.data.conversion import convert as run
    from relatum.data.conversion import target_format
    from relatum.data.corpus import open_corpus
    from relatum.data.fitting import Policy
    from relatum.data.splitting import make_splitter

    named = {"data.on_error": on_error, "data.overlaps": overlaps, "data.crossing": crossing}
    options = [f"{key}={value}" for key, value in named.items() if value is not None]
    settings = load_config(config, [*(override or []), *options])
    corpus = open_corpus(source, from_)
    format = target_format(target, to, many=len(corpus.parts) > 1)
    for name, reason in corpus.skipped:
        say(f"skipped {name}: {reason}")
    say(f"reading {source} as {corpus.format_names}, writing {target} as {format.name}")
    result = run(
        corpus,
        target,
        format,
        make_splitter(settings.text.words, settings.text.sentences),
        Policy(settings.data.overlaps, settings.data.crossing, settings.data.inside_words),
        settings.data.on_error,
        watch,
    )
    warn_about(result.problems)
    for name, count in result.documents.items():
        print(printable(f"{name}: {count} documents"))
    print(printable("wrote " + ", ".join(map(str, result.written))))
