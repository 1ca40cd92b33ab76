"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Precision = Annotated[
    Literal["fp32", "bf16"],
    typer.Option(help="The numbers to compute with; bf16 is faster where the device has instructions for it."),
]
BatchSize = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Sentences read at once; as the model says if not given.")
]
MaxCells = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="The most table cells in a batch, which memory grows with; a sentence that has more is read in windows. "
        "As the model says if not given.",
    ),
]
Others = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="MODEL",
        help="Another model of the same labels, to read with as one: the mean of their probabilities; may be repeated.",
    ),
]
DataFormat = Annotated[
    str | None, typer.Option("--from", metavar="FORMAT", help="Format of DATA; guessed if not given.")
]
Seed = Annotated[int | None, typer.Option(min=0, metavar="N", help="As --set training.seed=N.")]
