"""The shape of annotations, by which `relatum train` chooses what may be found together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from relatum.tagging.spans import find_overlap
from relatum.types import Annotation

FEW = 0.005
"""The share of relations up to which those beyond the first of a pair are left out."""

_LEVELS: tuple[Literal["none", "nested", "any"], ...] = ("none", "nested", "any")


@dataclass(frozen=True, slots=True)
class Shape:
    """The annotations that the paper's tagging cannot express, in numbers."""

    overlap: Literal["none", "nested", "any"] = "none"
    """The entities that share words: none, only one inside another, or any."""
    n_overlapping: int = 0
    """The number of sentences with entities that share words."""
    n_relations: int = 0
    n_further: int = 0
    """The number of relations beyond the first of a pair of entities, in either direction."""
    n_same_direction: int = 0
    """The number of relations beyond the first from one entity to another."""

    @property
    def has_several_relations(self) -> bool:
        """True if more than a few relations go from one entity to another beside others."""
        return self.n_same_direction > FEW * self.n_relations

    def describe(self) -> str:
        """Say what the paper's tagging would lose; empty if nothing."""
        reasons = []
        if self.n_overlapping:
            what = "inside one another" if self.overlap == "nested" else "that share words"
            reasons.append(f"sentences with entities {what}: {self.n_overlapping:,}")
        if self.n_further:
            reasons.append(f"relations that share their pair with another: {self.n_further:,} of {self.n_relations:,}")
        return "; ".join(reasons)


def measure_shape(annotations: Iterable[Annotation]) -> Shape:
    """Measure the shape of the annotations of sentences."""
    level = n_overlapping = n_relations = n_further = n_same = 0
    for annotation in annotations:
        overlap = _LEVELS.index(find_overlap(entity.span for entity in set(annotation.entities)))
        level = max(level, overlap)
        n_overlapping += overlap > 0
        relations = set(annotation.relations)
        n_relations += len(relations)
        n_further += len(relations) - len({frozenset((one.head, one.tail)) for one in relations})
        n_same += len(relations) - len({(one.head, one.tail) for one in relations})
    return Shape(_LEVELS[level], n_overlapping, n_relations, n_further, n_same)
