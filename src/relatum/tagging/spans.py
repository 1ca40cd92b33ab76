"""Entities and relations as labels of cells, each independent of the others, and back.

Here a cell may have several tags. So entities may nest and overlap, several types may share the same words, and a pair
of entities may have several relations.

- An entity of the words i to j puts the tag of its type into the cell (i, j), and into its mirrored cell (j, i).
- A relation r from one entity to another puts →r into cells whose row belongs to its head and whose column belongs to
  its tail, and ←r into the mirrored cells. With `cells="ends"` these are two cells with tags of their own: that of the
  two first words, and that of the two last words. With `cells="entity"` they are all cells of the two entities, as in
  the paper.
- A symmetric type has ↔r instead of both, and the earlier of its entities is the head.

First words and last words have different tags since an entity may begin where another one ends: a relation of "New York
University" must not be a relation of "University" too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Literal

from relatum.schema import Schema
from relatum.tagging.sequence import DISCONTINUOUS, LostEntity, check_fit
from relatum.tagging.table import ITSELF, MISSING, Cell, LostRelation, canonical
from relatum.types import Annotation, Entity, Relation, Span

SpanCells = Literal["ends", "entity"]
Part = Literal["first", "last", "all"]
"""The words of two entities whose cells hold a tag: the first of each, the last of each, or all."""


@dataclass(frozen=True, slots=True)
class SpanLabels:
    """The tags of each cell that has any, in ascending order.

    Decoding gives back the annotation less the `lost` entities and relations, plus the `gained` relations, which exist
    only between entities that share words.
    """

    cells: Mapping[Cell, tuple[int, ...]]
    lost_entities: tuple[LostEntity, ...] = ()
    lost_relations: tuple[LostRelation, ...] = ()
    gained: tuple[Relation, ...] = ()


@dataclass(frozen=True)
class SpanTags:
    """The tags of cells for the types of a schema: first those of entity types, then those of relation types."""

    schema: Schema
    cells: SpanCells = "ends"
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _numbers: Mapping[tuple[int, Part, bool], int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = list(self.schema.entity_types)
        numbers: dict[tuple[int, Part, bool], int] = {}
        for kind, relation in enumerate(self.schema.relation_types):
            for part in self.parts:
                where = "" if part == "all" else f" {part}"
                for row_is_head in (True, False):
                    if relation.symmetric and not row_is_head:
                        numbers[kind, part, False] = numbers[kind, part, True]
                        continue
                    arrow = "↔" if relation.symmetric else "→" if row_is_head else "←"
                    numbers[kind, part, row_is_head] = len(names)
                    names.append(f"{arrow}{relation.name}{where}")
        object.__setattr__(self, "names", tuple(names))
        object.__setattr__(self, "_numbers", numbers)

    @property
    def parts(self) -> tuple[Part, ...]:
        return ("first", "last") if self.cells == "ends" else ("all",)

    def number(self, kind: int, part: Part, row_is_head: bool) -> int:
        """Return the tag of a relation type in cells whose row (or else column) is the head's."""
        return self._numbers[kind, part, row_is_head]

    def words(self, entity: Entity, part: Part) -> tuple[int, ...]:
        """Return the words that stand for an entity in the cells of a part."""
        span = entity.span
        if part == "all":
            return tuple(range(*span))
        return (span.start if part == "first" else span.end - 1,)

    def entity_tags(self, entity: Entity) -> Iterator[tuple[Cell, int]]:
        """Yield the cells of an entity, each with its tag."""
        kind = self.schema.entity_index(entity.label)
        first, last = entity.span.start, entity.span.end - 1
        yield (first, last), kind
        yield (last, first), kind

    def relation_tags(self, relation: Relation) -> Iterator[tuple[Cell, int]]:
        """Yield the cells of a relation, each with its tag."""
        kind = self.schema.relation_index(relation.label)
        for part in self.parts:
            rows, columns = self.words(relation.head, part), self.words(relation.tail, part)
            for i, j in product(rows, columns):
                yield (i, j), self.number(kind, part, True)
                yield (j, i), self.number(kind, part, False)

    def encode(self, annotation: Annotation, n_words: int) -> SpanLabels:
        """Write each entity and relation into its cells.

        Discontinuous entities are lost, and relations with an entity that is lost or missing, or of an entity with
        itself. An entity that does not fit into the sentence, or a type that the schema does not have, is an error.
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
        for relation in annotation.relations:
            one = canonical(relation, self.schema)
            pairs = list(self.relation_tags(one))
            if not {one.head, one.tail} <= written:
                lost_relations.append(LostRelation(relation, MISSING))
            elif one.head == one.tail:
                lost_relations.append(LostRelation(relation, ITSELF))
            else:
                _add(tags, pairs)
        gained = self._find_gained(tags, written, annotation) if _share_words(written) else ()
        cells = {cell: tuple(sorted(numbers)) for cell, numbers in tags.items()}
        return SpanLabels(cells, tuple(lost_entities), tuple(lost_relations), gained)

    def _find_gained(
        self, tags: Mapping[Cell, set[int]], written: set[Entity], annotation: Annotation
    ) -> tuple[Relation, ...]:
        """Return the relations that the tags express but that were not annotated."""
        given = {canonical(relation, self.schema) for relation in annotation.relations}
        entities = [entity for entity in dict.fromkeys(annotation.entities) if entity in written]
        gained = []
        for head, tail in product(entities, repeat=2):
            for name in self.schema.relation_names:
                relation = Relation(head, tail, name)
                if head == tail or relation in given or canonical(relation, self.schema) != relation:
                    continue
                if all(tag in tags.get(cell, ()) for cell, tag in self.relation_tags(relation)):
                    gained.append(relation)
        return tuple(gained)


def _add(tags: dict[Cell, set[int]], pairs: Iterable[tuple[Cell, int]]) -> None:
    for cell, tag in pairs:
        tags.setdefault(cell, set()).add(tag)


def _share_words(entities: Iterable[Entity]) -> bool:
    reach = 0
    for span in sorted(entity.span for entity in entities):
        if span.start < reach:
            return True
        reach = max(reach, span.end)
    return False


def find_overlap(spans: Iterable[Span]) -> Literal["none", "nested", "any"]:
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
