"""Relations as a table of tags, one a pair of words, in every formulation of the paper's appendix E, and back.

The paper's own formulation (section 3, and the last row of appendix E's table) is the default: a relation r from one
entity to another puts →r into every cell whose row is a word of its head and whose column is a word of its tail, and
←r into the mirrored cells. The others fill only the part below or above the diagonal (`fill`), only the cell of the two
last words (`cells`), or have one tag for both directions (`directed`).

Everything follows from what a tag at row i and column j says, and from which cells are asked:

- →r says that the row's entity is the head of r, ←r that the column's is.
- Undirected tags in the whole table: r says that the row's entity is the head, and a pair (a, b) is decided by the
  rows of a and the columns of b alone.
- Undirected tags in half a table: each pair of words has one cell, so that nothing is left to tell the direction with;
  r says that the entity of the earlier word is the head. Relations that point backwards cannot be expressed.
- Symmetric types have one tag in every formulation and are put into their canonical order, the earlier entity as the
  head, before they are encoded; decoding gives them in that order. For the pair in the other order their tags count
  as no relation.

Section 5 decides a pair by the mass of the tags over its cells (equation 17). Here `TableTags.deciding_cells` names
these cells and what each tag votes for in them: encoding writes the tags that vote for a relation, hard decoding counts
them, and a decoder of probabilities may sum them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from relatum.errors import ConfigError
from relatum.schema import Schema
from relatum.tagging.sequence import check_fit
from relatum.types import Annotation, Entity, Relation

Fill = Literal["entire", "lower", "upper"]
Cells = Literal["entity", "last"]
Conflicts = Literal["last", "first"]
Cell = tuple[int, int]
"""Row and column, from 0."""

NO_RELATION = "⊥"

MISSING = "its head or tail is not among the entities"
ITSELF = "it connects an entity with itself"
SHARED_WORDS = "its head and tail share words"
BACKWARDS = "its head does not come first, which undirected tags in half a table cannot say"
SAME_PAIR = "another relation connects the same pair"
OPPOSITE_PAIR = "a relation in the opposite direction takes its cells"
OVERLAPPED = "a relation of an overlapping entity takes some of its cells"


@dataclass(frozen=True, slots=True)
class Block:
    """Cells that vote on one ordered pair on the same terms.

    `tag_votes[tag]` is what the tag votes for: 0 for no relation, else 1 + the index of a relation type. Every tag has
    exactly one outcome, so that probabilities summed over the cells and gathered by outcome lose no mass.
    """

    cells: tuple[Cell, ...]
    tag_votes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LostRelation:
    """A relation that the table of its sentence does not express, and why."""

    relation: Relation
    reason: str


@dataclass(frozen=True, slots=True)
class TableLabels:
    """The tag indices of the cells that have one; all other cells hold 0, no relation.

    Decoding the tags with the entities of the annotation gives its relations less the `lost` ones, plus the `gained`
    ones, which exist only where entities share words: the cells of one entity are then cells of the other too.
    """

    cells: Mapping[Cell, int]
    lost: tuple[LostRelation, ...] = ()
    gained: tuple[Relation, ...] = ()


def canonical(relation: Relation, schema: Schema) -> Relation:
    """Return the relation in the order in which decoding gives it: if symmetric, the earlier entity is the head.

    If both entities have the same span, their labels decide, then their fragments.
    """
    if comes_before(relation.tail, relation.head) and schema.is_symmetric(relation.label):
        return replace(relation, head=relation.tail, tail=relation.head)
    return relation


def comes_before(one: Entity, other: Entity) -> bool:
    """True if an entity is the earlier of two, which is the head of a symmetric relation."""
    return (one.span, one.label, one.fragments) < (other.span, other.label, other.fragments)


@dataclass(frozen=True, slots=True)
class _Tag:
    name: str
    kind: int
    row_is_head: bool
    column_is_head: bool


@dataclass(frozen=True)
class TableTags:
    """The tags of a formulation for the relation types of a schema; `names[0]` is the tag for no relation."""

    schema: Schema
    fill: Fill = "entire"
    cells: Cells = "entity"
    directed: bool = True
    conflicts: Conflicts = "last"
    """The relation, in the order of the annotation, that is written where two want the same cell."""
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _tag_votes: Mapping[tuple[bool, bool], tuple[int, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for what, value, choices in (
            ("fill", self.fill, get_args(Fill)),
            ("cells", self.cells, get_args(Cells)),
            ("conflicts", self.conflicts, get_args(Conflicts)),
        ):
            if value not in choices:
                raise ConfigError(f"tagging.{what} is {value!r}; choose from {', '.join(choices)}")
        tags = self._tags()
        votes = {}
        for row_is_head, in_order in product((True, False), repeat=2):
            outcomes = [self._outcome(tag, row_is_head, in_order) for tag in tags]
            votes[row_is_head, in_order] = (0, *outcomes)
        object.__setattr__(self, "names", (NO_RELATION, *(tag.name for tag in tags)))
        object.__setattr__(self, "_tag_votes", votes)

    def _tags(self) -> list[_Tag]:
        """Return the tags after the first, in the order of the relation types."""
        tags = []
        for index, kind in enumerate(self.schema.relation_types):
            if kind.symmetric:
                tags.append(_Tag(f"↔{kind.name}", index, True, True))
            elif self.directed:
                tags += [_Tag(f"→{kind.name}", index, True, False), _Tag(f"←{kind.name}", index, False, True)]
            else:
                # Below the diagonal the column has the earlier word of the two.
                lower = self.fill == "lower"
                tags.append(_Tag(kind.name, index, not lower, lower))
        return tags

    def _outcome(self, tag: _Tag, row_is_head: bool, in_order: bool) -> int:
        """Return the outcome that a tag votes for in a cell whose row (or else column) belongs to the pair's head."""
        says_so = tag.row_is_head if row_is_head else tag.column_is_head
        canonical = in_order or not self.schema.relation_types[tag.kind].symmetric
        return 1 + tag.kind if says_so and canonical else 0

    def deciding_cells(self, head: Entity, tail: Entity) -> tuple[Block, ...]:
        """Return the cells that decide the relation from head to tail; none if the two share words.

        This is the sum of equation 17, with one difference from its text: the tags of the opposite direction count as
        no relation. Otherwise a certain relation from tail to head would leave nothing for no relation to win with,
        and produce a relation from head to tail.
        """
        rows, columns = self.words(head), self.words(tail)
        if not set(rows).isdisjoint(columns):
            return ()
        in_order = head.span < tail.span
        forward = tuple((i, j) for i in rows for j in columns if self._fills(i, j))
        blocks = [Block(forward, self.tag_votes(True, in_order))]
        if self.uses_mirrored_cells:
            mirrored = tuple((j, i) for i in rows for j in columns if self._fills(j, i))
            blocks.append(Block(mirrored, self.tag_votes(False, in_order)))
        return tuple(block for block in blocks if block.cells)

    @property
    def uses_mirrored_cells(self) -> bool:
        """True if a pair is decided by its mirrored cells too: rows of the tail, columns of the head."""
        return self.directed or self.fill != "entire"

    def tag_votes(self, row_is_head: bool, in_order: bool) -> tuple[int, ...]:
        """Return the `Block.tag_votes` of cells whose row (or else column) is the head's.

        `in_order` says that the head comes before the tail.
        """
        return self._tag_votes[row_is_head, in_order]

    @cached_property
    def allowed(self) -> NDArray[np.bool_]:
        """(type of the row's entity, type of the column's entity, tags): True if the schema allows the tag for the two.

        Types have the order of the schema; one more follows, for all labels that the schema does not have.
        """
        labels = (*self.schema.entity_types, "")
        allowed = np.ones((len(labels), len(labels), len(self.names)), dtype=bool)
        for number, tag in enumerate(self._tags(), 1):
            kind = self.schema.relation_types[tag.kind]
            for (i, row), (j, column) in product(enumerate(labels), repeat=2):
                from_row = tag.row_is_head and kind.allows(row, column)
                from_column = tag.column_is_head and kind.allows(column, row)
                allowed[i, j, number] = from_row or from_column
        return allowed

    def words(self, entity: Entity) -> tuple[int, ...]:
        """Return the words that stand for an entity in the table."""
        if self.cells == "last":
            return (entity.span.end - 1,)
        if not entity.fragments:
            return tuple(range(*entity.span))
        return tuple(word for piece in entity.pieces() for word in range(piece.start, piece.end))

    def _fills(self, row: int, column: int) -> bool:
        return self.fill == "entire" or (row > column if self.fill == "lower" else row < column)

    def fill_mask(self, n_words: int) -> NDArray[np.bool_]:
        """Return a mask (rows, columns) of the cells of a table that are filled."""
        mask = np.ones((n_words, n_words), dtype=bool)
        if self.fill == "entire":
            return mask
        return np.tril(mask, -1) if self.fill == "lower" else np.triu(mask, 1)

    def encode(self, annotation: Annotation, n_words: int) -> TableLabels:
        """Write each relation into all cells that vote on it, or into none and report why.

        If two relations want the same cell, `conflicts` says which of them gets all its cells. A relation that is given
        twice (if symmetric, in either order) is written once. Relations in both directions of a pair, of one
        type or two, fit only into a whole table of undirected tags. An entity that does not fit into the sentence, or
        a relation type that the schema does not know, is an error.
        """
        for entity in annotation.entities:
            check_fit(entity, n_words)
        entities = set(annotation.entities)
        cells: dict[Cell, int] = {}
        writers: dict[Cell, Relation] = {}
        lost = []
        order = -1 if self.conflicts == "last" else 1
        for relation in annotation.relations[::order]:
            wanted, reason = self._wanted(relation, entities)
            taken = next((cell for cell, tag in wanted.items() if cells.get(cell, tag) != tag), None)
            if taken is not None:
                reason = self._conflict(relation, writers[taken])
            if reason is not None:
                lost.append(LostRelation(relation, reason))
                continue
            cells |= wanted
            writers |= dict.fromkeys(wanted, relation)
        lost = lost[::order]
        if not self._share_words(entities):
            return TableLabels(cells, tuple(lost))
        # The cells of one entity are also cells of another: only decoding can tell what the table says of each.
        decoded = self.decode(cells, annotation.entities)
        given = set(map(self.canonical, annotation.relations))
        return TableLabels(
            cells,
            tuple(loss for loss in lost if self.canonical(loss.relation) not in decoded),
            tuple(relation for relation in decoded if relation not in given),
        )

    def _wanted(self, relation: Relation, entities: set[Entity]) -> tuple[dict[Cell, int], str | None]:
        """Return the tag for each cell that votes on the relation, or no tags and the reason why."""
        outcome = 1 + self.schema.relation_index(relation.label)
        relation = self.canonical(relation)
        if not {relation.head, relation.tail} <= entities:
            return {}, MISSING
        if relation.head == relation.tail:
            return {}, ITSELF
        blocks = self.deciding_cells(relation.head, relation.tail)
        if not blocks:
            return {}, SHARED_WORDS
        if not all(outcome in block.tag_votes for block in blocks):
            return {}, BACKWARDS
        return {cell: block.tag_votes.index(outcome) for block in blocks for cell in block.cells}, None

    def _conflict(self, relation: Relation, writer: Relation) -> str:
        """Return why the relation cannot be written into a cell that `writer` has taken."""
        relation, writer = self.canonical(relation), self.canonical(writer)
        if (relation.head, relation.tail) == (writer.head, writer.tail):
            return SAME_PAIR
        return OPPOSITE_PAIR if (relation.head, relation.tail) == (writer.tail, writer.head) else OVERLAPPED

    def _share_words(self, entities: Iterable[Entity]) -> bool:
        words = [word for entity in entities for word in self.words(entity)]
        return len(set(words)) < len(words)

    def canonical(self, relation: Relation) -> Relation:
        return canonical(relation, self.schema)

    def decode(self, cells: Mapping[Cell, int], entities: Iterable[Entity]) -> tuple[Relation, ...]:
        """Return the relations between the entities that any table of tags stands for, in the order of the entities.

        This is equation 17 with all probability on the given tags: each ordered pair of entities gets the outcome with
        the most votes. A tie goes to no relation, then to the type that the schema has first. The pairs (a, b) and
        (b, a) are decided independently, each for one relation at most. So undirected tags in the whole table can give
        relations in both directions, of one type or two; in the other formulations a tag that speaks for one direction
        counts against the other, and only one direction can win.
        """
        wrong = next((cell for cell, tag in cells.items() if not 0 <= tag < len(self.names)), None)
        if wrong is not None:
            raise ValueError(f"cell {wrong} has the tag {cells[wrong]}; the tags are 0 to {len(self.names) - 1}")
        kinds = self.schema.relation_types
        known = tuple(dict.fromkeys(entities))
        relations = []
        for head in known:
            for tail in known:
                votes = [0] * (1 + len(kinds))
                for block in self.deciding_cells(head, tail):
                    for cell in block.cells:
                        votes[block.tag_votes[cells.get(cell, 0)]] += 1
                winner = votes.index(max(votes))
                if winner:
                    relations.append(Relation(head, tail, kinds[winner - 1].name))
        return tuple(relations)
