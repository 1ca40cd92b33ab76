"""Annotated sentences for the commands that look inside a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from relatum.cli.options import Crossing, Overlaps

if TYPE_CHECKING:
    from relatum.models.model import Model
    from relatum.types import Example

ModelName = Annotated[
    str, typer.Option(metavar="NAME_OR_PATH", help="A model that comes with relatum, or the folder of one.")
]


def load_annotated(
    data: Path,
    part: str,
    format: str | None,
    model: Model,
    name: str,
    overlaps: Overlaps = None,
    crossing: Crossing = None,
) -> tuple[list[Example], bool]:
    """Return the sentences of a part as training reads them, and true if the model knows all their types.

    Remarks about the data, and types that the model does not know, are printed.
    """
    from relatum.cli.console import CommandMonitor, say
    from relatum.training.evaluation import load_examples

    examples = load_examples(data, part, model.config, format, CommandMonitor(), overlaps, crossing)
    unknown = model.schema.unknown_types(example.full_gold for example in examples)
    if unknown:
        say(f"{name} does not know these types of {data}, and finds none of them: {', '.join(unknown)}")
    return examples, not unknown
