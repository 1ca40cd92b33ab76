"""Fitting the confidence scores of a trained model to annotated data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from relatum.data.fitting import Crossing, Overlaps
from relatum.errors import RelatumError
from relatum.evaluation import confidence
from relatum.evaluation.ceiling import Ceiling, Limits, measure_ceiling
from relatum.evaluation.confidence import Calibrated, Confidence
from relatum.extractor.extractor import Extractor
from relatum.extractor.finding import find_model, locate_model, shipped_models
from relatum.extractor.piping import OnProgress
from relatum.models.checkpoint import copy_model, write_calibration
from relatum.monitor import Monitor, Remarks
from relatum.training.evaluation import LoadingOptions, load_examples, predict_examples
from relatum.training.reports.confidence import with_confidence
from relatum.types import Calibration


@dataclass(frozen=True, slots=True)
class ModelCalibration:
    """A calibration that was saved with a model, and the reliability of the model's scores without and with it."""

    folder: Path
    """The folder of the calibrated model."""
    calibration: Calibration
    before: Confidence
    after: Confidence
    ceiling: Ceiling
    """The best scores that the model allows: gold that it cannot express or find counts as missed."""
    remarks: tuple[str, ...]
    """The messages that the monitor heard."""


def calibrate(  # noqa: PLR0913 -- an argument for each option of the command
    model: str | Path,
    data: str | Path,
    part: str = "dev",
    *,
    out: str | Path | None = None,
    format: str | None = None,
    overlaps: Overlaps | None = None,
    crossing: Crossing | None = None,
    monitor: Monitor | Callable[[str], object] | None = None,
    on_progress: OnProgress | None = None,
    **loading: Unpack[LoadingOptions],
) -> ModelCalibration:
    """Fit the scores of a model to annotated sentences that it was not trained on, and save that with the model.

    The model, a name or a folder, finds what it found before, with other scores. It is changed in its folder or, with
    `out`, a new folder, copied and left as it is; a model that comes with relatum is always copied. The data is a
    folder, of which `part` is read, or a file; its format is guessed if none is named. `overlaps` and `crossing` are
    those of `evaluate_model`.

    `monitor` hears messages: a function such as `print`, or a `relatum.monitor.Monitor`. `on_progress` is called with
    the number of sentences that have been read, and of all sentences. Further arguments are those of
    `Extractor.from_pretrained`: device, precision, batch_size, max_cells, words and sentences.
    """
    found = locate_model(model)
    folder = found.folder
    if out is None and found.revision is not None:
        raise RelatumError(
            f"{model} is in the cache of the hub and is not changed; name a folder for a copy of it with --out"
        )
    if out is None and folder.resolve() in {find_model(name).resolve() for name in shipped_models()}:
        raise RelatumError(f"{model} comes with relatum and is not changed; name a folder for a copy of it with --out")
    remarks = Remarks(monitor)
    extractor = Extractor.from_pretrained(folder, **loading)
    extractor.model = replace(extractor.model, calibration=None)
    config, schema = extractor.model.config, extractor.model.schema
    examples = load_examples(data, part, config, format, remarks, overlaps, crossing)
    given = config.evaluation.entities == "gold"
    predictions = predict_examples(extractor, examples, given, on_progress)
    pairs = [(example.full_gold, one.found) for example, one in zip(examples, predictions, strict=True)]
    calibrated = confidence.calibrate({part: pairs}, schema, given)
    assert calibrated.calibration is not None, "it was fitted on the part"
    limits = Limits.of(config, extractor.find_windows)
    ceiling = measure_ceiling(examples, extractor.model.tagging, limits=limits)
    _save(calibrated, folder, None if out is None else Path(out), with_confidence(extractor.card, calibrated))
    return ModelCalibration(
        folder if out is None else Path(out),
        calibrated.calibration,
        calibrated.before[part],
        calibrated.after[part],
        ceiling,
        tuple(remarks.said),
    )


def _save(calibrated: Calibrated, folder: Path, out: Path | None, card: str) -> None:
    """Write a calibration and a card into the folder of a model, or into a copy of it at `out`."""
    if out is None:
        write_calibration(folder, calibrated.calibration, card)
        return
    with copy_model(folder, out) as draft:
        write_calibration(draft, calibrated.calibration, card)
