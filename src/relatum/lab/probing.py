"""The scores of every layer of a network, and the changes of each layer to the output of the layer before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass
from typing import Any

from relatum.evaluation.metrics import MacroOver, Scores, evaluate
from relatum.extractor.extractor import Extractor
from relatum.extractor.piping import OnProgress
from relatum.schema import Schema
from relatum.types import Annotation, Entity, Relation, Sentence


@dataclass(frozen=True, slots=True)
class Passage:
    """Counts of items that become right or wrong from one layer to the next; each item is counted once.

    An entity that gets its right type is two corrections: a wrong entity is dropped, and a missed entity is found.
    """

    right: int = 0
    """The number of items in gold that the layer before found."""
    missed: int = 0
    """The number of items in gold that the layer before did not find."""
    wrong: int = 0
    """The number of items not in gold that the layer before found."""
    found: int = 0
    """The number of missed items that this layer finds."""
    dropped: int = 0
    """The number of wrong items that this layer does not find any more."""
    lost: int = 0
    """The number of right items that this layer does not find any more."""
    added: int = 0
    """The number of items not in gold that this layer finds and the layer before did not."""

    @property
    def corrected(self) -> int:
        return self.found + self.dropped

    @property
    def broken(self) -> int:
        return self.lost + self.added

    @property
    def corrected_share(self) -> float:
        """The share of the errors of the layer before that this layer corrects; 0 if there are none."""
        return self.corrected / (self.missed + self.wrong) if self.missed + self.wrong else 0.0

    @property
    def lost_share(self) -> float:
        """The share of the right items of the layer before that this layer loses; 0 if there are none."""
        return self.lost / self.right if self.right else 0.0

    def to_dict(self) -> dict[str, int]:
        return {**asdict(self), "corrected": self.corrected, "broken": self.broken}


@dataclass(frozen=True, slots=True)
class LayerFigures:
    """The scores of one layer, and its changes to the layer before it; None for the first layer."""

    scores: Scores
    entities: Passage | None
    relations: Passage | None
    """The changes of relations, judged strictly, with the types of both ends."""

    def to_dict(self) -> dict[str, Any]:
        before = {"entities": self.entities, "relations_strict": self.relations}
        changes = {name: passage.to_dict() for name, passage in before.items() if passage is not None}
        return {"scores": self.scores.to_dict(), "changes": changes}


def predict_layers(
    extractor: Extractor,
    sentences: Sequence[Sentence],
    entities: Sequence[Sequence[Entity]] | None = None,
    on_progress: OnProgress | None = None,
) -> list[list[Annotation]]:
    """Return each layer's annotation of every sentence, in words, first layer first; the last is as by `predict`."""
    annotations: list[list[Annotation]] = [[] for _ in sentences]
    for number, readings in extractor.read_layers(sentences, entities, on_progress):
        given = None if entities is None else entities[number]
        for layers in zip(*(reading.layers for reading in readings), strict=True):
            parts = [(reading.window, layer.found) for reading, layer in zip(readings, layers, strict=True)]
            joined = extractor.join_windows(parts, len(sentences[number]), given)
            annotations[number].append(joined)
    return annotations


def measure_layers(
    gold: Sequence[Annotation],
    found: Sequence[Sequence[Annotation]],
    schema: Schema | None = None,
    macro_over: MacroOver = "gold",
) -> list[LayerFigures]:
    """Return the figures of each layer, from the gold annotation of each text and each layer's annotation of it.

    The list of a text without words, for which no layer has an annotation, may be empty.
    """
    n_layers = max(map(len, found), default=0)

    def annotations_of(number: int) -> list[Annotation]:
        return [of_text[number] if of_text else Annotation() for of_text in found]

    layers = [annotations_of(number) for number in range(n_layers)]

    def entities(annotation: Annotation) -> AbstractSet[Hashable]:
        return set(annotation.entities)

    def relations(annotation: Annotation) -> AbstractSet[Hashable]:
        return {_in_order(relation, schema) for relation in annotation.relations}

    def passage(number: int, keys: Callable[[Annotation], AbstractSet[Hashable]]) -> Passage | None:
        if number == 0:
            return None
        before = map(keys, layers[number - 1])
        after = map(keys, layers[number])
        return _follow(zip(map(keys, gold), before, after, strict=True))

    return [
        LayerFigures(
            evaluate(zip(gold, layer, strict=True), schema, macro_over),
            passage(number, entities),
            passage(number, relations),
        )
        for number, layer in enumerate(layers)
    ]


def _follow(texts: Iterable[tuple[AbstractSet[Hashable], ...]]) -> Passage:
    """Count changes over texts; each text has the items of gold, of the layer before, and of this layer."""
    totals: Counter[str] = Counter()
    for gold, before, after in texts:
        right = before & gold
        missed = gold - before
        wrong = before - gold
        totals.update(
            right=len(right),
            missed=len(missed),
            wrong=len(wrong),
            found=len(missed & after),
            dropped=len(wrong - after),
            lost=len(right - after),
            added=len(after - gold - before),
        )
    return Passage(**totals)


def _in_order(relation: Relation, schema: Schema | None) -> Relation:
    """Return the relation; if its type is symmetric, with the earlier end as its head."""
    head, tail = relation.head, relation.tail
    if schema is None or not schema.is_symmetric(relation.label):
        return relation
    if (head.span, head.fragments, head.label) <= (tail.span, tail.fragments, tail.label):
        return relation
    return Relation(tail, head, relation.label)
