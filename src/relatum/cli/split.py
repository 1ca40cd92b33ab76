"""`relatum split`: train, dev and test parts, or folds, from one corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relatum.cli.options import DataFormat


def split(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A file or folder; its parts are taken together.")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="New folder to write; NAME-split if not given.")
    ] = None,
    folds: Annotated[int | None, typer.Option(metavar="K", help="Make K folds for cross-validation.")] = None,
    dev: Annotated[
        float, typer.Option(help="Share held out for development: of the whole, or of a fold's rest.")
    ] = 0.15,
    test: Annotated[
        float | None, typer.Option(help="Share held out for the test, without --folds; 0.2 if not given.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same parts.")] = 0,
    lists: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|DIR", help="Given parts: JSON lists of record numbers or ids, or a folder of lists of ids."
        ),
    ] = None,
    lists_only: Annotated[bool, typer.Option("--lists-only", help="Write folds.json without the data.")] = False,
    from_: DataFormat = None,
) -> None:
    """Divide annotated data. Documents with equal texts stay together; what is written is relatum JSONL.

    DIR gets train.jsonl, dev.jsonl and test.jsonl (in fold-1, fold-2, … where there are several folds) and folds.json,
    the record numbers, counted from 0, of every part.
    """
    from relatum.cli.console import CommandMonitor, say
    from relatum.data import partition

    if folds is not None and test is not None:
        raise typer.BadParameter("with --folds the test parts are the folds; leave --test out")
    if lists is not None and (folds is not None or test is not None):
        raise typer.BadParameter("with --lists the parts are given; leave --folds and --test out")
    made = partition.split(
        data,
        out,
        folds=folds,
        dev=dev,
        test=test,
        seed=seed,
        lists=lists,
        lists_only=lists_only,
        format=from_,
        monitor=CommandMonitor(),
    )
    for number, fold in enumerate(made.folds, 1):
        sizes = ", ".join(f"{name} {len(members):,}" for name, members in fold.parts().items())
        print(f"fold {number}: {sizes}" if len(made.folds) > 1 else sizes)
    say(f"wrote {made.folder}")
