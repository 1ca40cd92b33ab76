"""The definition of right predictions, and their counts.

Three tasks are counted, each by exact match and each with duplicates counted once:

- `entities`: the span, its fragments and the label agree.
- `relations` (RE): the label and the boundaries of both ends agree.
- `relations_strict` (RE+): the labels of both ends agree as well.

Head and tail of a relation must not be swapped, unless the schema says that its type is symmetric.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias

from relatum.data.problems import Problems
from relatum.data.records import show
from relatum.errors import Problem
from relatum.schema import Schema
from relatum.types import Annotation, Entity, Span

TASKS = ("entities", "relations", "relations_strict")

GOLD_SPANS_CURE = (
    "Scores with gold entities are for a model that was given them: let it predict on the gold entity spans, "
    "or score without the demand for gold entities."
)

_Boundaries: TypeAlias = tuple[int, int, tuple[Span, ...]]
_Key: TypeAlias = tuple[str, Hashable, Hashable]
"""An entity or a relation by value, its label first: tuples are far quicker to hash than the dataclasses."""


@dataclass(slots=True)
class Count:
    """The number of right predictions, of predictions, and of gold items of one type."""

    correct: int = 0
    predicted: int = 0
    gold: int = 0


def _by_label() -> defaultdict[str, Count]:
    return defaultdict(Count)


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of one document, or of many together: by task, then by label."""

    entities: defaultdict[str, Count] = field(default_factory=_by_label)
    relations: defaultdict[str, Count] = field(default_factory=_by_label)
    relations_strict: defaultdict[str, Count] = field(default_factory=_by_label)

    def tasks(self) -> Iterator[tuple[str, defaultdict[str, Count]]]:
        return ((task, getattr(self, task)) for task in TASKS)

    def add(self, gold: Annotation, predicted: Annotation, schema: Schema | None = None) -> None:
        """Count what was predicted for one text against its gold annotation; spans need one unit for both."""
        _tally(_entity_keys(gold), _entity_keys(predicted), self.entities)
        if gold.relations or predicted.relations:
            loose, strict = _relation_keys(gold, schema)
            loose_predicted, strict_predicted = _relation_keys(predicted, schema)
            _tally(loose, loose_predicted, self.relations)
            _tally(strict, strict_predicted, self.relations_strict)


def count(gold: Annotation, predicted: Annotation, schema: Schema | None = None) -> Counts:
    """The counts of one document."""
    counts = Counts()
    counts.add(gold, predicted, schema)
    return counts


def check_gold_spans(
    gold: Annotation,
    predicted: Annotation,
    problems: Problems,
    path: str = "predictions",
    record: int | None = None,
    document: str | None = None,
) -> None:
    """Add a problem for every predicted mention whose span is not a gold entity's; the other arguments locate it."""
    given = {_boundaries(entity) for entity in _mentions(gold)}
    mentions = {_boundaries(entity): entity for entity in _mentions(predicted)}
    where = None if document is None else f"document {show(document)}"
    wrong = []
    for boundaries, entity in mentions.items():
        if boundaries not in given:
            spans = ", ".join(f"[{piece.start}, {piece.end})" for piece in entity.pieces())
            what = f"the entity {spans} {show(entity.label)}"
            wrong.append(Problem(path, what, "the span of a gold entity", record=record, field=where))
    problems.add(*wrong)


def _mentions(annotation: Annotation) -> Iterator[Entity]:
    """Return the entities and the ends of relations, which need not be among the entities."""
    return chain(annotation.entities, *((relation.head, relation.tail) for relation in annotation.relations))


def _tally(gold: Set[_Key], predicted: Set[_Key], counts: defaultdict[str, Count]) -> None:
    for key in gold:
        counts[key[0]].gold += 1
    for key in predicted:
        of_type = counts[key[0]]
        of_type.predicted += 1
        of_type.correct += key in gold


def _boundaries(entity: Entity) -> _Boundaries:
    return entity.span.start, entity.span.end, entity.fragments


def _entity_keys(annotation: Annotation) -> set[_Key]:
    return {(entity.label, _boundaries(entity), None) for entity in annotation.entities}


def _relation_keys(annotation: Annotation, schema: Schema | None) -> tuple[set[_Key], set[_Key]]:
    """The relations by boundaries, and strictly, with the labels of their ends."""
    loose: set[_Key] = set()
    strict: set[_Key] = set()
    for relation in annotation.relations:
        head = _boundaries(relation.head), relation.head.label
        tail = _boundaries(relation.tail), relation.tail.label
        if tail < head and schema is not None and schema.is_symmetric(relation.label):
            head, tail = tail, head
        loose.add((relation.label, head[0], tail[0]))
        strict.add((relation.label, head, tail))
    return loose, strict
