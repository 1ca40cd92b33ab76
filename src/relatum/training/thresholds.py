"""The score above which a span model finds relations, fitted on dev."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from relatum.config import change_section
from relatum.models.model import Model
from relatum.types import Annotation, Prediction

USUAL = 0.5
THRESHOLDS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, USUAL, 0.55, 0.6, 0.65, 0.7)
"""The thresholds that are tried."""


def needs_threshold(model: Model) -> bool:
    """True if the threshold of relations is left to training."""
    return model.tagging.has_tag_sets and model.config.decoding.relation_threshold is None


def with_threshold(model: Model, threshold: float) -> Model:
    """Return the model with another threshold of relations."""
    decoding = change_section(model.config.decoding, relation_threshold=threshold)
    return replace(model, config=model.config.model_copy(update={"decoding": decoding}))


def fit_threshold(found: Sequence[Prediction], score: Callable[[list[Prediction]], float]) -> float:
    """Return the threshold with the highest score, of equal ones the nearest to 0.5.

    `found` has all relations above the lowest threshold.
    """
    scores = {threshold: score([_keep(one, threshold) for one in found]) for threshold in THRESHOLDS}
    return max(scores, key=lambda threshold: (scores[threshold], -abs(threshold - USUAL)))


def _keep(prediction: Prediction, threshold: float) -> Prediction:
    """Return the prediction without relations that do not exceed the threshold."""
    found = prediction.found
    relations = tuple(one for one in found.relations if (one.score or 0) > threshold)
    return replace(prediction, found=Annotation(found.entities, relations))
