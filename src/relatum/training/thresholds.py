"""The scores above which a span model finds entities and relations, fitted on dev.

There is one threshold for all entity types and one for all relation types. Thresholds of each type did not help
(docs/accuracy.md).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from relatum.config import change_section
from relatum.models.model import Model
from relatum.types import Annotation, Prediction

USUAL = 0.5
THRESHOLDS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, USUAL, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9)
"""The thresholds that are tried."""

Predict = Callable[[Model], list[Prediction]]
Score = Callable[[list[Prediction]], float]


def fit_thresholds(
    model: Model, predict: Predict, score_entities: Score, score_relations: Score
) -> tuple[Model, list[Prediction]]:
    """Return the model with the thresholds that are best on dev, and its predictions; set thresholds stay as they are.

    `predict` reads dev with a model. The threshold of entities comes first, since relations are found between entities.
    """
    decoding = model.config.decoding
    has_tag_sets = model.tagging.has_tag_sets
    if has_tag_sets and decoding.entity_threshold is None and model.config.evaluation.entities == "predicted":
        with _expecting_too_much():
            found = predict(with_thresholds(model, entity_threshold=THRESHOLDS[0]))
        model = with_thresholds(model, entity_threshold=_find_best(found, _keep_entities, score_entities))
    if not has_tag_sets or decoding.relation_threshold is not None:
        return model, predict(model)
    with _expecting_too_much():
        found = predict(with_thresholds(model, relation_threshold=THRESHOLDS[0]))
    best = _find_best(found, _keep_relations, score_relations)
    kept = [replace(one, found=_keep_relations(one.found, best)) for one in found]
    return with_thresholds(model, relation_threshold=best), kept


def with_thresholds(
    model: Model, entity_threshold: float | None = None, relation_threshold: float | None = None
) -> Model:
    """Return the model with other thresholds; None leaves a threshold as it is."""
    decoding = change_section(
        model.config.decoding, entity_threshold=entity_threshold, relation_threshold=relation_threshold
    )
    return replace(model, config=model.config.model_copy(update={"decoding": decoding}))


@contextmanager
def _expecting_too_much() -> Iterator[None]:
    """Within the block, nobody is warned that more is found than sentences may have: the threshold is very low."""
    log = logging.getLogger("relatum.decoding.spans")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _find_best(found: Sequence[Prediction], keep: Callable[[Annotation, float], Annotation], score: Score) -> float:
    """Return the threshold with the highest score, of equal ones the nearest to 0.5.

    `found` has everything above the lowest threshold.
    """
    scores = {
        threshold: score([replace(one, found=keep(one.found, threshold)) for one in found]) for threshold in THRESHOLDS
    }
    return max(scores, key=lambda threshold: (scores[threshold], -abs(threshold - USUAL)))


def _keep_entities(found: Annotation, threshold: float) -> Annotation:
    """Return the entities that exceed a threshold, without relations."""
    return Annotation(tuple(one for one in found.entities if (one.score or 0) > threshold))


def _keep_relations(found: Annotation, threshold: float) -> Annotation:
    """Return all entities, and the relations that exceed a threshold."""
    return Annotation(found.entities, tuple(one for one in found.relations if (one.score or 0) > threshold))
