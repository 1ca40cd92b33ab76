"""The reliability of the confidence scores of entities and relations, measured on annotated text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from relatum.evaluation.calibration import (
    THRESHOLDS,
    AtThreshold,
    Bin,
    by_threshold,
    calibration_error,
    fit_map,
    reliability,
)
from relatum.schema import Schema
from relatum.types import Annotation, Calibration, Entity, Relation, ScoreMap

Pairs = Iterable[tuple[Annotation, Annotation]]
"""Gold and predicted annotations, one pair for each text."""


@dataclass(frozen=True, slots=True)
class TaskConfidence:
    """The reliability of the confidence scores of one task."""

    bins: tuple[Bin, ...]
    thresholds: tuple[AtThreshold, ...]

    @property
    def n(self) -> int:
        return sum(bin.n for bin in self.bins)

    @property
    def error(self) -> float | None:
        """The expected calibration error; None if no found item has a score."""
        return calibration_error(self.bins)

    def to_dict(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "ece": self.error,
            "reliability": [bin.to_dict() for bin in self.bins],
            "thresholds": [row.to_dict() for row in self.thresholds],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TaskConfidence:
        bins = tuple(Bin(**one) for one in values["reliability"])
        return cls(bins, tuple(AtThreshold(**row) for row in values["thresholds"]))


@dataclass(frozen=True, slots=True)
class Confidence:
    """The reliability of the scores of entities and of relations.

    A relation is right only if both its entities are right in boundaries and type.
    """

    entities: TaskConfidence
    relations_strict: TaskConfidence

    def tasks(self) -> Iterator[tuple[str, TaskConfidence]]:
        yield "entities", self.entities
        yield "relations_strict", self.relations_strict

    def to_dict(self) -> dict[str, Any]:
        return {name: task.to_dict() for name, task in self.tasks()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Confidence:
        tasks = (values["entities"], values["relations_strict"])
        return cls(*map(TaskConfidence.from_dict, tasks))


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A calibration, fitted on the first part, and the reliability of scores without it and with it, by part."""

    calibration: Calibration | None
    """None if there was nothing to fit a calibration on."""
    before: Mapping[str, Confidence]
    after: Mapping[str, Confidence]

    def to_dict(self) -> dict[str, Any]:
        return {
            "calibration": None if self.calibration is None else asdict(self.calibration),
            "parts": {
                part: {"before": self.before[part].to_dict(), "after": self.after[part].to_dict()}
                for part in self.before
            },
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Calibrated:
        maps, parts = values["calibration"], values["parts"]
        return cls(
            None if maps is None else Calibration(*(ScoreMap(**maps[task]) for task in ("entities", "relations"))),
            {part: Confidence.from_dict(measured["before"]) for part, measured in parts.items()},
            {part: Confidence.from_dict(measured["after"]) for part, measured in parts.items()},
        )


def calibrate(
    parts: Mapping[str, Sequence[tuple[Annotation, Annotation]]], schema: Schema | None = None, given: bool = False
) -> Calibrated:
    """Fit maps of scores on the first part, and measure the reliability of scores on all parts."""
    first = next(iter(parts.values()))
    entities, relations = _judge(first, schema, given)
    calibration = Calibration(fit_map(entities.scores, entities.right), fit_map(relations.scores, relations.right))
    before = {}
    after = {}
    for part, pairs in parts.items():
        calibrated = ((gold, calibration.apply(predicted, given=given)) for gold, predicted in pairs)
        before[part] = measure_confidence(pairs, schema, given)
        after[part] = measure_confidence(calibrated, schema, given)
    return Calibrated(calibration, before, after)


def measure_confidence(pairs: Pairs, schema: Schema | None = None, given: bool = False) -> Confidence:
    """Measure how reliable scores are; the schema says which relation types are symmetric.

    A threshold keeps what `Extraction.above` keeps: a relation is left out if one of its entities is. The scores of
    entities that were `given` to the model are not the model's own, and are ignored.
    """
    entities, relations = _judge(pairs, schema, given)
    return Confidence(entities.measure(), relations.measure())


@dataclass(slots=True)
class _Judged:
    """All found items that have a score, each right or wrong."""

    scores: list[float] = field(default_factory=list)
    lowest: list[float] = field(default_factory=list)
    """For each item, the highest threshold that keeps it."""
    right: list[bool] = field(default_factory=list)
    n_gold: int = 0

    def add(self, score: float | None, right: bool, *others: float | None) -> None:
        if score is not None:
            self.scores.append(score)
            self.lowest.append(min([score, *(other for other in others if other is not None)]))
            self.right.append(right)

    def measure(self) -> TaskConfidence:
        thresholds = by_threshold(self.lowest, self.right, self.n_gold, THRESHOLDS)
        return TaskConfidence(tuple(reliability(self.scores, self.right)), tuple(thresholds))


def _judge(pairs: Pairs, schema: Schema | None, given: bool) -> tuple[_Judged, _Judged]:
    """Judge each found item once as right or wrong: return the judged entities, and the relations judged strictly."""
    entities, relations = _Judged(), _Judged()
    for gold, predicted in pairs:
        known = set(gold.entities)
        entities.n_gold += len(known)
        for entity in () if given else dict.fromkeys(predicted.entities):
            entities.add(entity.score, entity in known)
        related = {_in_order(relation, schema) for relation in gold.relations}
        relations.n_gold += len(related)
        best: dict[Relation, Relation] = {}
        for relation in predicted.relations:
            ordered = _in_order(relation, schema)
            best[ordered] = max(best.get(ordered, ordered), ordered, key=lambda own: own.score or 0.0)
        for relation in best.values():
            ends = () if given else (relation.head.score, relation.tail.score)
            relations.add(relation.score, relation in related, *ends)
    return entities, relations


def _in_order(relation: Relation, schema: Schema | None) -> Relation:
    """Return the relation, with head and tail swapped if its type is symmetric and its tail comes first."""
    head, tail = relation.head, relation.tail
    if _place(tail) < _place(head) and schema is not None and schema.is_symmetric(relation.label):
        return Relation(tail, head, relation.label, relation.score, relation.id)
    return relation


def _place(entity: Entity) -> tuple[object, ...]:
    return entity.span, entity.fragments, entity.label
