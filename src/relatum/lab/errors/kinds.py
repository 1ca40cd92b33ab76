"""The kinds of error, how often each occurs, and what F1 would be without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from relatum.evaluation.metrics import Score
from relatum.types import Entity, Relation

EntityKind = Literal["right", "type", "boundary", "boundary_and_type", "missed", "spurious"]
RelationKind = Literal[
    "right",
    "argument_type",
    "argument_boundary",
    "argument_missed",
    "argument_spurious",
    "direction",
    "label",
    "missed",
    "spurious",
]

ENTITY_KINDS: dict[str, str] = {
    "type": "the span is right, the type is not",
    "boundary": "overlaps what is right, with its type",
    "boundary_and_type": "overlaps what is right, with another type",
    "missed": "gold, and nothing was found for it",
    "spurious": "found, and nothing in gold for it",
}
"""Every kind of wrong entity, and what it means."""

RELATION_KINDS: dict[str, str] = {
    "argument_type": "the spans of both arguments are right, the type of one is not",
    "argument_boundary": "an argument has wrong boundaries",
    "argument_missed": "gold, and an argument was not found",
    "argument_spurious": "found, with an argument that is none",
    "direction": "head and tail are swapped",
    "label": "another relation between the right spans",
    "missed": "gold, both arguments right, the relation was not found",
    "spurious": "found between right entities, and not in gold",
}
"""Every kind of wrong relation, and what it means."""

FOUND_ONLY = ("argument_spurious", "spurious")
"""Kinds that occur among found items only, never among gold items."""

ENTITY_FAMILIES: dict[str, tuple[str, ...]] = {
    "any boundary": ("boundary", "boundary_and_type"),
    "missed or spurious": ("missed", "spurious"),
}
RELATION_FAMILIES: dict[str, tuple[str, ...]] = {
    "any argument": ("argument_type", "argument_boundary", "argument_missed", "argument_spurious"),
    "missed or spurious": ("missed", "spurious"),
    "all of relations alone": ("direction", "label", "missed", "spurious"),
}
"""Kinds that one remedy would mend together."""


@dataclass(frozen=True, slots=True)
class EntityMatch:
    """A gold entity, a found entity, or a pair of both that belong together, and the kind of error."""

    kind: EntityKind
    gold: Entity | None
    found: Entity | None


@dataclass(frozen=True, slots=True)
class RelationMatch:
    """A gold relation, a found relation, or a pair of both that belong together, and the kind of error."""

    kind: RelationKind
    gold: Relation | None
    found: Relation | None


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of gold items and of found items of each kind, including "right"."""

    gold: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)

    @property
    def right(self) -> int:
        return self.gold["right"]

    @property
    def n_wrong(self) -> tuple[int, int]:
        """The number of gold items that are not right, and the number of found items that are not."""
        return self.gold.total() - self.gold["right"], self.found.total() - self.found["right"]

    def score(self) -> Score:
        n_gold = self.gold.total()
        n_found = self.found.total()
        precision = _ratio(self.right, n_found)
        recall = _ratio(self.right, n_gold)
        f1 = _ratio(2 * self.right, n_gold + n_found)
        return Score(precision, recall, f1, n_gold)

    def f1_without(self, kinds: Iterable[str]) -> float:
        """Return F1 if errors of these kinds were mended: the gold items found, the wrong items in their place gone."""
        chosen = set(kinds) - {"right"}
        n_gold = sum(self.gold[kind] for kind in chosen)
        n_found = sum(self.found[kind] for kind in chosen)
        return self.f1_if(n_gold, n_found)

    def f1_without_errors_of(self, part: Tally) -> float:
        """Return F1 if all errors in a part of the items of this tally were mended."""
        return self.f1_if(*part.n_wrong)

    def f1_if(self, mended: int, gone: int) -> float:
        """Return F1 if `mended` more gold items were found, and `gone` wrong items were not found."""
        gold = self.gold.total()
        return _ratio(2 * (self.right + mended), gold + self.found.total() + mended - gone)

    def to_dict(self, whole: Tally | None = None) -> dict[str, Any]:
        """Return scores and counts; for a part of `whole`, also the F1 of `whole` if the part's errors were mended."""
        score = self.score()
        return {
            "precision": score.precision,
            "recall": score.recall,
            "f1": score.f1,
            "support": score.support,
            "gold": dict(self.gold),
            "found": dict(self.found),
            **({} if whole is None else {"f1_if_mended": whole.f1_without_errors_of(self)}),
        }


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
