"""Entities and relations as labels of cells, each independent of the others, and back.

Here a cell may have several tags. So entities may nest and overlap, several types may share the same words, and a pair
of entities may have several relations.

- An entity of the words i to j puts the tag of its type into the cell (i, j), and into its mirrored cell (j, i).
- A relation r from one entity to another puts →r into every cell whose row is a word of its head and whose column is a
  word of its tail, and ←r into the mirrored cells, as in the paper. A symmetric type has ↔r instead of both, and the
  earlier of its entities is the head.
- Every pair of entities that has a relation puts `first` into the cell of its two first words, `last` into the cell of
  its two last words, and both into the mirrored cells. These corners tell entities apart that share words: "New York
  University" and "York" have cells in common, but not their corners.

A relation between entities that share no words with others is read from the mean of its cells alone, as in the paper.
Otherwise the two corners must be there too, with the tag of the relation. Entities of exactly the same words have the
same cells; a relation is then of those whose types it may connect by the schema, if there are any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Literal

from relatum.schema import RelationType, Schema
from relatum.tagging.sequence import DISCONTINUOUS, LostEntity, check_fit
from relatum.tagging.table import ITSELF, MISSING, Cell, LostRelation, canonical
from relatum.types import Annotation, Entity, Relation, Span

Overlap = Literal["none", "nested", "any"]
CORNERS = ("first", "last")
MISPLACED = "its types are not in the schema, but others on the same words are"


@dataclass(frozen=True, slots=True)
class SpanLabels:
    """The tags of each cell that has any, in ascending order.

    Decoding gives back the annotation less the `lost` entities and relations, plus the `gained` relations, which exist
    only where entities share words.
    """

    cells: Mapping[Cell, tuple[int, ...]]
    lost_entities: tuple[LostEntity, ...] = ()
    lost_relations: tuple[LostRelation, ...] = ()
    gained: tuple[Relation, ...] = ()


@dataclass(frozen=True)
class SpanTags:
    """The tags of cells for the types of a schema: those of entity types, of relation types, and of corners."""

    schema: Schema
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    forward: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """The tag of each relation type in cells whose row is the head's."""
    mirrored: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """The tag of each relation type in cells whose column is the head's."""

    def __post_init__(self) -> None:
        names = list(self.schema.entity_types)
        forward = []
        mirrored = []
        for kind in self.schema.relation_types:
            arrows = "↔" if kind.symmetric else "→←"
            forward.append(len(names))
            names += [f"{arrow}{kind.name}" for arrow in arrows]
            mirrored.append(len(names) - 1)
        object.__setattr__(self, "names", (*names, *CORNERS))
        object.__setattr__(self, "forward", tuple(forward))
        object.__setattr__(self, "mirrored", tuple(mirrored))

    @property
    def corners(self) -> tuple[int, int]:
        """The tags of the two first words of a related pair, and of its two last words."""
        return len(self.names) - 2, len(self.names) - 1

    def entity_tags(self, entity: Entity) -> Iterator[tuple[Cell, int]]:
        """Yield the cells of an entity, each with its tag."""
        kind = self.schema.entity_index(entity.label)
        first, last = entity.span.start, entity.span.end - 1
        yield (first, last), kind
        yield (last, first), kind

    def relation_tags(self, relation: Relation) -> Iterator[tuple[Cell, int]]:
        """Yield the cells of a relation, each with its tag; without its corners."""
        kind = self.schema.relation_index(relation.label)
        for i, j in product(words_of(relation.head), words_of(relation.tail)):
            yield (i, j), self.forward[kind]
            yield (j, i), self.mirrored[kind]

    def corner_tags(self, relation: Relation) -> Iterator[tuple[Cell, int]]:
        """Yield the corners of a relation, each with its tag."""
        for (i, j), tag in zip(find_corners(relation.head, relation.tail), self.corners, strict=True):
            yield (i, j), tag
            yield (j, i), tag

    def encode(self, annotation: Annotation, n_words: int) -> SpanLabels:
        """Write each entity and relation into its cells.

        Discontinuous entities are lost, and relations with an entity that is lost or missing, of an entity with itself,
        or that the schema only allows between other entities of the same words. An entity that does not fit into the
        sentence, or a type that the schema does not have, is an error.
        """
        lost_entities = []
        lost_relations = []
        tags: dict[Cell, set[int]] = {}
        written: set[Entity] = set()
        for entity in dict.fromkeys(annotation.entities):
            check_fit(entity, n_words)
            pairs = list(self.entity_tags(entity))
            if entity.fragments:
                lost_entities.append(LostEntity(entity, DISCONTINUOUS))
                continue
            written.add(entity)
            _add(tags, pairs)
        same = find_same_words(written)
        for relation in annotation.relations:
            one = canonical(relation, self.schema)
            pairs = [*self.relation_tags(one), *self.corner_tags(one)]
            if not {one.head, one.tail} <= written:
                lost_relations.append(LostRelation(relation, MISSING))
            elif one.head == one.tail:
                lost_relations.append(LostRelation(relation, ITSELF))
            elif self.is_misplaced(relation, same):
                lost_relations.append(LostRelation(relation, MISPLACED))
            else:
                _add(tags, pairs)
        gained = self._find_gained(tags, written, annotation)
        cells = {cell: tuple(sorted(numbers)) for cell, numbers in tags.items()}
        return SpanLabels(cells, tuple(lost_entities), tuple(lost_relations), gained)

    def is_misplaced(self, relation: Relation, same: Mapping[Entity, Sequence[Entity]]) -> bool:
        """True if the schema does not allow a relation, but allows it between other entities of the same words.

        `same` is what `find_same_words` returns.
        """
        head, tail = relation.head, relation.tail
        kind = self.schema.relation_type(relation.label)
        return bool(same) and is_other_allowed(kind, (head.label, tail.label), list_types(head, tail, same))

    def _find_gained(
        self, tags: Mapping[Cell, set[int]], written: set[Entity], annotation: Annotation
    ) -> tuple[Relation, ...]:
        """Return the relations that the tags express but that were not annotated."""
        sharing = find_sharing(written)
        if not sharing:
            return ()
        given = {canonical(relation, self.schema) for relation in annotation.relations}
        entities = [entity for entity in dict.fromkeys(annotation.entities) if entity in written]
        same = find_same_words(written)
        gained = []
        for head, tail in product(entities, repeat=2):
            if head == tail or not {head, tail} & sharing:
                continue
            for name in self.schema.relation_names:
                relation = Relation(head, tail, name)
                if relation not in given and canonical(relation, self.schema) == relation:
                    is_gained = self._is_expressed(relation, tags) and not self.is_misplaced(relation, same)
                    gained += [relation] if is_gained else []
        return tuple(gained)

    def _is_expressed(self, relation: Relation, tags: Mapping[Cell, set[int]]) -> bool:
        """True if the corners of a relation have all their tags, and more than half of its cells have theirs."""
        if not all(tag in tags.get(cell, ()) for cell, tag in self.corner_tags(relation)):
            return False
        corners = find_corners(relation.head, relation.tail)
        found = [(cell, tag in tags.get(cell, ())) for cell, tag in self.relation_tags(relation)]
        at_corners = all(is_there for cell, is_there in found if cell in corners)
        return at_corners and 2 * sum(is_there for _, is_there in found) > len(found)


def words_of(entity: Entity) -> tuple[int, ...]:
    """Return the words of an entity."""
    if not entity.fragments:
        return tuple(range(*entity.span))
    return tuple(word for piece in entity.fragments for word in range(*piece))


def find_corners(head: Entity, tail: Entity) -> tuple[Cell, Cell]:
    """Return the cell of the two first words of a pair, and that of its two last words."""
    return (head.span.start, tail.span.start), (head.span.end - 1, tail.span.end - 1)


def find_sharing(entities: Iterable[Entity]) -> set[Entity]:
    """Return the entities whose spans share words with the span of another entity."""
    sharing: set[Entity] = set()
    farthest: Entity | None = None
    for entity in sorted(set(entities), key=lambda one: one.span):
        if farthest is not None and entity.span.start < farthest.span.end:
            sharing |= {entity, farthest}
        if farthest is None or entity.span.end > farthest.span.end:
            farthest = entity
    return sharing


def find_same_words(entities: Iterable[Entity]) -> dict[Entity, tuple[Entity, ...]]:
    """Return the entities of the same words for each entity that shares all its words with another, itself included."""
    groups: dict[tuple[int, ...], list[Entity]] = {}
    for entity in dict.fromkeys(entities):
        groups.setdefault(words_of(entity), []).append(entity)
    return {entity: tuple(group) for group in groups.values() if len(group) > 1 for entity in group}


def list_types(head: Entity, tail: Entity, same: Mapping[Entity, Sequence[Entity]]) -> tuple[tuple[str, str], ...]:
    """Return the types of head and tail of all pairs of the same words as these two; empty if these are the only pair.

    `same` is what `find_same_words` returns.
    """
    heads, tails = same.get(head, (head,)), same.get(tail, (tail,))
    if len(heads) == len(tails) == 1:
        return ()
    return tuple((one.label, other.label) for one, other in product(heads, tails) if one != other)


def is_other_allowed(kind: RelationType, labels: tuple[str, str], others: Iterable[tuple[str, str]]) -> bool:
    """True if a relation type may not connect entities of two types, but may connect some of the other types."""
    return not kind.allows(*labels) and any(kind.allows(*other) for other in others)


def _add(tags: dict[Cell, set[int]], pairs: Iterable[tuple[Cell, int]]) -> None:
    for cell, tag in pairs:
        tags.setdefault(cell, set()).add(tag)


def keep_compatible(entities: Sequence[Entity], overlap: Overlap) -> list[Entity]:
    """Return the entities that may stand together; of those that may not, the first is kept."""
    if overlap == "any" or len(entities) < 2:
        return list(entities)
    kept: list[Entity] = []
    for entity in entities:
        if not any(_conflict(entity.span, other.span, overlap) for other in kept):
            kept.append(entity)
    return kept


def _conflict(one: Span, other: Span, overlap: Overlap) -> bool:
    nested = overlap == "nested" and (one.contains(other) or other.contains(one))
    return one.overlaps(other) and not nested


def find_overlap(spans: Iterable[Span]) -> Overlap:
    """Return how spans share words: not at all, only as one inside another or as the same span twice, or otherwise."""
    found: Literal["none", "nested"] = "none"
    around: list[Span] = []
    for span in sorted(spans, key=lambda one: (one.start, -one.end)):
        while around and around[-1].end <= span.start:
            around.pop()
        if around:
            if span.end > around[-1].end:
                return "any"
            found = "nested"
        around.append(span)
    return found
