"""How well every layer of a network does, and what each makes of what the one before it said."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from typing import Any

from relatum.evaluation.metrics import MacroOver, Scores, evaluate
from relatum.schema import Schema
from relatum.types import Annotation, Relation


@dataclass(frozen=True, slots=True)
class Passage:
    """What becomes of right and wrong things from one layer to the next; each thing is counted once.

    An entity that gets its right type is two corrections: one that was wrong is dropped, one that was missed is found.
    """

    right: int = 0
    """Said by the layer before, and in gold."""
    missed: int = 0
    """In gold, and not said by the layer before."""
    wrong: int = 0
    """Said by the layer before, and not in gold."""
    found: int = 0
    """Of those that were missed."""
    dropped: int = 0
    """Of those that were wrong."""
    lost: int = 0
    """Of those that were right."""
    added: int = 0
    """Not in gold, not said by the layer before, and said by this one."""

    @property
    def corrected(self) -> int:
        return self.found + self.dropped

    @property
    def broken(self) -> int:
        return self.lost + self.added

    @property
    def corrected_share(self) -> float:
        """Of the errors of the layer before; 0 where it makes none."""
        return self.corrected / (self.missed + self.wrong) if self.missed + self.wrong else 0.0

    @property
    def lost_share(self) -> float:
        """Of what the layer before has right; 0 where that is nothing."""
        return self.lost / self.right if self.right else 0.0

    def to_dict(self) -> dict[str, int]:
        return {**asdict(self), "corrected": self.corrected, "broken": self.broken}


@dataclass(frozen=True, slots=True)
class LayerFigures:
    """How well one layer does; the first one has none before it."""

    scores: Scores
    entities: Passage | None
    relations: Passage | None
    """Strictly, with the types of both ends."""

    def to_dict(self) -> dict[str, Any]:
        before = {"entities": self.entities, "relations_strict": self.relations}
        changes = {name: passage.to_dict() for name, passage in before.items() if passage is not None}
        return {"scores": self.scores.to_dict(), "changes": changes}


def measure_layers(
    gold: Sequence[Annotation],
    found: Sequence[Sequence[Annotation]],
    schema: Schema | None = None,
    macro_over: MacroOver = "gold",
) -> list[LayerFigures]:
    """The figures of each layer from the gold annotation of each text and what each layer found in it.

    Texts of which no layer said anything, since they have no words, may have an empty list.
    """
    n_layers = max(map(len, found), default=0)
    layers = [[one[number] if one else Annotation() for one in found] for number in range(n_layers)]

    def entities(annotation: Annotation) -> AbstractSet[Hashable]:
        return set(annotation.entities)

    def relations(annotation: Annotation) -> AbstractSet[Hashable]:
        return {_in_order(relation, schema) for relation in annotation.relations}

    def passage(number: int, keys: Callable[[Annotation], AbstractSet[Hashable]]) -> Passage | None:
        if number == 0:
            return None
        return _follow(zip(*(map(keys, part) for part in (gold, layers[number - 1], layers[number])), strict=True))

    return [
        LayerFigures(
            evaluate(zip(gold, layer, strict=True), schema, macro_over),
            passage(number, entities),
            passage(number, relations),
        )
        for number, layer in enumerate(layers)
    ]


def _follow(texts: Iterable[tuple[AbstractSet[Hashable], ...]]) -> Passage:
    """Count over texts, each with what is in gold, what the layer before said, and what this layer says."""
    totals = [0] * 7
    for gold, before, after in texts:
        right, missed, wrong = before & gold, gold - before, before - gold
        changes = (missed & after, wrong - after, right - after, after - gold - before)
        totals = [total + len(part) for total, part in zip(totals, (right, missed, wrong, *changes), strict=True)]
    return Passage(*totals)


def _in_order(relation: Relation, schema: Schema | None) -> Relation:
    """The relation, of a symmetric type with the earlier end as its head."""
    head, tail = relation.head, relation.tail
    if schema is None or not schema.is_symmetric(relation.label):
        return relation
    if (head.span, head.fragments, head.label) <= (tail.span, tail.fragments, tail.label):
        return relation
    return Relation(tail, head, relation.label)
