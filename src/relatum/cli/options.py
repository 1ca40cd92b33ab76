"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import typer

Precision = Annotated[
    Literal["fp32", "bf16", "int8"],
    typer.Option(help="Precision; bf16 and int8 (CPU only) are faster if the device has instructions for them."),
]
BatchSize = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Sentences per batch. Default: the model's setting.")
]
MaxCells = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="The most table cells in a batch; lower it to save memory. A sentence with more cells is read in windows. "
        "Default: the model's setting.",
    ),
]
Others = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="MODEL",
        help="Another model with the same labels, for an ensemble that averages probabilities; may be repeated.",
    ),
]
DataFormat = Annotated[str | None, typer.Option("--from", metavar="FORMAT", help="Format of DATA. Default: guessed.")]
Overlaps = Annotated[
    Literal["fail", "drop", "keep-longest", "keep"] | None,
    typer.Option(
        help="Nested, overlapping, discontinuous gold entities: refuse them, or count those that training would "
        "leave out as missed; as in training if not given."
    ),
]
Crossing = Annotated[
    Literal["fail", "drop", "join"] | None,
    typer.Option(
        help="Gold relations between sentences: refuse them, count them as missed, or join the sentences; as in "
        "training if not given."
    ),
]
Splitting = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="text.KEY=VALUE",
        help="Split texts in another way than the model: text.words or text.sentences, such as "
        "text.words=my_module:my_function; may be repeated.",
    ),
]
Seed = Annotated[int | None, typer.Option(min=0, metavar="N", help="Seed; the same as --set training.seed=N.")]


def read_splitting(
    overrides: Sequence[str] | None, refusal: str = "the other settings are the model's own"
) -> dict[str, str]:
    """Return the rules for splitting text that `--set` gives, by the keys of the section text; refuse other keys."""
    from relatum.config import trace_config

    _, settings = trace_config(None, overrides or ())
    known = {"text.words": "words", "text.sentences": "sentences"}
    for name in settings:
        if name not in known:
            raise typer.BadParameter(f"--set {name}: expected {' or '.join(known)}; {refusal}")
    return {known[name]: str(setting.value) for name, setting in settings.items()}
