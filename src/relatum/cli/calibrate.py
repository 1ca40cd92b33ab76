"""`relatum calibrate`: scores that say how likely it is that what was found is right."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from relatum.cli.options import BatchSize, DataFormat, MaxCells, Splitting, read_splitting
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
) -> None:
    """Fit the scores of a model to annotated sentences that it was not trained on, and save that with the model.

    What the model finds stays the same. relatum train has done this already, on dev; do it again for text of another
    kind. A model that comes with relatum is not changed: name a new folder with --out.
    """
    from dataclasses import replace

    from relatum.cli.console import results, say
    from relatum.cli.score_tables import show_confidence
    from relatum.errors import RelatumError
    from relatum.evaluation import confidence
    from relatum.evaluation.ceiling import describe_ceiling, is_limited, measure_ceiling
    from relatum.extractor.extractor import Extractor, find_model, shipped_models
    from relatum.models.checkpoint import copy_model, write_calibration
    from relatum.training.corpus import load_part
    from relatum.training.reports.confidence import with_confidence

    rules = read_splitting(splitting)
    folder = find_model(model)
    own = {find_model(name).resolve() for name in shipped_models()}
    if out is None and folder.resolve() in own:
        raise RelatumError(f"{model} comes with relatum and is not changed; name a folder for a copy of it with --out")
    extractor = Extractor.from_pretrained(folder, device, "fp32", batch_size, max_cells, **rules)
    extractor.model = replace(extractor.model, calibration=None)
    config = extractor.model.config
    examples, remarks = load_part(data, part, config, from_)
    for remark in remarks:
        say(remark)
    given = config.evaluation.entities == "gold"
    found = extractor.predict(
        [example.sentence for example in examples], [example.gold.entities for example in examples] if given else None
    )
    pairs = [(example.full_gold, one.found) for example, one in zip(examples, found, strict=True)]
    calibrated = confidence.calibrate({part: pairs}, extractor.model.schema, given)
    card = with_confidence(extractor.card, calibrated)
    if out is None:
        write_calibration(folder, calibrated.calibration, card)
    else:
        with copy_model(folder, out) as draft:
            write_calibration(draft, calibrated.calibration, card)
    for title, measured in (("before", calibrated.before[part]), ("after", calibrated.after[part])):
        print(f"{title}:", end=" ")
        show_confidence(results(), measured, by_threshold=title == "after")
    ceiling = measure_ceiling(examples, extractor.model.sequence_tags, extractor.model.table_tags)
    if is_limited(ceiling):
        print(
            f"Gold that the tagging cannot express counts as missed; the best it allows: {describe_ceiling(ceiling)}."
        )
    say(f"wrote {out or folder}")
