"""`relatum calibrate`: scores that say how likely it is that what was found is right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relatum.cli.options import BatchSize, Crossing, DataFormat, MaxCells, Overlaps, Splitting, read_splitting
from relatum.cli.train import Device


def calibrate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The folder of a model, or the name of one.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Annotated data: a folder of parts, or a file.")],
    part: Annotated[str, typer.Option(metavar="NAME", help="The part of a folder to calibrate on.")] = "dev",
    from_: DataFormat = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Leave the model as it is, and make a calibrated copy of it.")
    ] = None,
    device: Device = None,
    batch_size: BatchSize = None,
    max_cells: MaxCells = None,
    splitting: Splitting = None,
    overlaps: Overlaps = None,
    crossing: Crossing = None,
) -> None:
    """Fit the scores of a model to annotated sentences that it was not trained on, and save that with the model.

    What the model finds stays the same. relatum train has done this already, on dev; do it again for text of another
    kind. A model that comes with relatum is not changed: name a new folder with --out.
    """
    from relatum.cli.console import CommandMonitor, results, say
    from relatum.cli.progress import show_progress
    from relatum.cli.score_tables import print_ceiling, show_confidence
    from relatum.training import calibration

    rules = read_splitting(splitting)
    with show_progress(str(data)) as on_progress:
        calibrated = calibration.calibrate(
            model,
            data,
            part,
            out=out,
            format=from_,
            overlaps=overlaps,
            crossing=crossing,
            monitor=CommandMonitor(),
            on_progress=on_progress,
            device=device,
            batch_size=batch_size,
            max_cells=max_cells,
            words=rules.get("words"),
            sentences=rules.get("sentences"),
        )
    for title, measured in (("before", calibrated.before), ("after", calibrated.after)):
        print(f"{title}:", end=" ")
        show_confidence(results(), measured, by_threshold=title == "after")
    print_ceiling(calibrated.ceiling)
    say(f"wrote {calibrated.folder}")
