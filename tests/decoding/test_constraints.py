"""Relations that the schema allows only between some types of entities."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from relatum.decoding.relations import Opposite, decode_relations, decode_tables
from relatum.decoding.sentences import DecodingOptions, decode_sentences
from relatum.schema import RelationType, Schema
from relatum.tagging.sequence import SequenceTags
from relatum.tagging.table import Cells, Fill, TableTags
from relatum.tagging.tagging import Tagging
from relatum.types import Entity, Relation, Span

TYPES = (
    RelationType("live", head_labels=("P",), tail_labels=("L",)),
    RelationType("work", head_labels=("P", "O"), tail_labels=("O", "L"), pairs=(("P", "O"), ("O", "L"))),
    RelationType("kin", symmetric=True, pairs=(("P", "O"),)),
    RelationType("near"),
)
SCHEMA = Schema(("L", "O", "P"), TYPES)
FORMULATIONS = [
    TableTags(SCHEMA, fill, cells, directed)
    for fill, cells, directed in product(get_args(Fill), get_args(Cells), (True, False))
]
N_WORDS = 6

seeds = st.integers(0, 2**32 - 1)


def entity(start: int, end: int, label: str) -> Entity:
    return Entity(Span(start, end), label)


@st.composite
def entity_lists(draw: st.DrawFn) -> list[Entity]:
    """In any order; some overlap, some have a label that the schema does not know."""
    places = st.tuples(st.integers(0, N_WORDS - 1), st.integers(1, 3), st.sampled_from(("L", "O", "P", "Date")))
    drawn = draw(st.lists(places, max_size=5))
    return [entity(start, min(start + width, N_WORDS), label) for start, width, label in drawn]


def random_table(tags: TableTags, seed: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).dirichlet(np.full(len(tags.names), 0.2), (N_WORDS, N_WORDS))


def by_the_deciding_cells(
    table: NDArray[np.float64], entities: list[Entity], tags: TableTags, opposite: Opposite
) -> list[tuple[Relation, float]]:
    """One pair, cell and tag at a time; what a tag says of either direction is asked of the cells of both."""
    found = []
    known = list(dict.fromkeys(entities))
    for head, tail in product(known, known):
        votes = [0.0] * (1 + len(TYPES))
        blocks = tags.deciding_cells(head, tail)
        n_cells = sum(len(block.cells) for block in blocks)
        for block in blocks:
            for (row, column), (tag, outcome) in product(block.cells, enumerate(block.tag_votes)):
                name = tags.names[tag]
                row_is_heads = row in tags.words(head)
                ends = (head, tail) if row_is_heads else (tail, head)
                if tag:
                    kind = SCHEMA.relation_type(name.lstrip("→←↔"))
                    turned = name.startswith("←") or (name[0] not in "→↔" and tags.fill == "lower")
                    if not kind.allows(*(one.label for one in (reversed(ends) if turned else ends))):
                        continue
                if outcome or not tag or opposite == "no-relation":
                    votes[outcome] += float(table[row, column, tag])
        winner = votes.index(max(votes))
        if winner:
            found.append((Relation(head, tail, SCHEMA.relation_names[winner - 1]), votes[winner] / n_cells))
    return found


@given(st.sampled_from(FORMULATIONS), entity_lists(), st.sampled_from(get_args(Opposite)), seeds)
def test_constrained_relations_are_those_of_the_tags_that_are_allowed(
    tags: TableTags, entities: list[Entity], opposite: Opposite, seed: int
) -> None:
    table = random_table(tags, seed)
    found = decode_relations(table, entities, tags, opposite, "schema")
    expected = by_the_deciding_cells(table, entities, tags, opposite)
    assert found == tuple(relation for relation, _ in expected)
    assert [relation.score for relation in found] == pytest.approx([score for _, score in expected])
    assert all(SCHEMA.relation_type(one.label).allows(one.head.label, one.tail.label) for one in found)


@given(st.sampled_from(FORMULATIONS), st.lists(entity_lists(), min_size=1, max_size=4), seeds)
def test_constrained_relations_of_a_batch_are_those_of_each_sentence(
    tags: TableTags, entities: list[list[Entity]], seed: int
) -> None:
    tables = np.stack([random_table(tags, (seed + number) % 2**32) for number in range(len(entities))])
    found = decode_tables(tables, [N_WORDS] * len(entities), entities, tags, "no-relation", "schema")
    alone = [decode_relations(*one, tags, "no-relation", "schema") for one in zip(tables, entities, strict=True)]
    assert found == alone


@given(st.sampled_from(FORMULATIONS), entity_lists(), seeds)
def test_schema_without_ends_constrains_nothing(tags: TableTags, entities: list[Entity], seed: int) -> None:
    free = Schema(SCHEMA.entity_types, tuple(RelationType(one.name, one.symmetric) for one in TYPES))
    loose = TableTags(free, tags.fill, tags.cells, tags.directed)
    table = random_table(loose, seed)
    found = [decode_relations(table, entities, loose, "no-relation", how) for how in ("none", "schema")]
    assert found[0] == found[1]
    assert [one.score for one in found[0]] == [one.score for one in found[1]]


def certain(tags: TableTags, **masses: float) -> NDArray[np.float64]:
    """A table of two words whose two cells between them have these masses; the rest of 1 is for no relation."""
    table = np.zeros((2, 2, len(tags.names)))
    mirrored = {"→": "←", "←": "→"}
    for name, mass in masses.items():
        tag = name.replace("to_", "→").replace("from_", "←")
        table[0, 1, tags.names.index(tag)] = mass
        table[1, 0, tags.names.index(mirrored[tag[0]] + tag[1:])] = mass
    table[..., 0] = 1 - table.sum(-1)
    return table


def relations(table: NDArray[np.float64], tags: TableTags, head: str, tail: str) -> list[tuple[str, str, str]]:
    entities = (entity(0, 1, head), entity(1, 2, tail))
    found = decode_relations(table, entities, tags, "no-relation", "schema")
    return [(one.head.label, one.label, one.tail.label) for one in found]


def test_tags_that_are_not_allowed_count_neither_for_their_type_nor_for_no_relation() -> None:
    tags = TableTags(SCHEMA)
    table = certain(tags, to_work=0.5, to_live=0.3)
    assert relations(table, tags, "P", "L") == [("P", "live", "L")]
    assert relations(table, tags, "P", "O") == [("P", "work", "O")]
    assert relations(table, tags, "L", "L") == []
    assert relations(certain(tags, to_work=0.5, to_live=0.2), tags, "P", "L") == []  # 0.3 for no relation


def test_tags_of_an_opposite_direction_that_is_not_allowed_count_for_nothing() -> None:
    tags = TableTags(SCHEMA)
    table = certain(tags, to_live=0.4, from_live=0.35)
    assert relations(table, tags, "P", "L") == [("P", "live", "L")]
    assert relations(table, tags, "L", "P") == [("P", "live", "L")]
    # Both directions are allowed here, and each speaks against the other.
    assert relations(certain(tags, to_near=0.4, from_near=0.35), tags, "P", "L") == []


def test_symmetric_types_are_allowed_in_either_order() -> None:
    tags = TableTags(SCHEMA)
    table = np.zeros((2, 2, len(tags.names)))
    table[..., tags.names.index("↔kin")] = 1
    assert relations(table, tags, "P", "O") == [("P", "kin", "O")]
    assert relations(table, tags, "O", "P") == [("O", "kin", "P")]
    assert relations(table, tags, "P", "P") == []


def test_labels_that_the_schema_does_not_know_have_only_relations_without_ends() -> None:
    tags = TableTags(SCHEMA)
    assert relations(certain(tags, to_live=0.9), tags, "Date", "L") == []
    assert relations(certain(tags, to_near=0.9), tags, "Date", "L") == [("Date", "near", "L")]


def test_sentences_are_constrained_by_given_entities_and_by_those_found() -> None:
    tags, words = TableTags(SCHEMA), SequenceTags(SCHEMA)
    table = certain(tags, to_live=0.9)[None]
    found_types = np.eye(len(words.names))[[[words.names.index("B-O"), words.names.index("B-L")]]]
    given = [(entity(0, 1, "P"), entity(1, 2, "L"))]

    def n_found(entities: Sequence[tuple[Entity, ...]] | None) -> int:
        options = DecodingOptions(constraints="schema")
        (one,) = decode_sentences(found_types, table, [2], Tagging(SCHEMA, words, tags), options, entities)
        return len(one.relations)

    assert n_found(given) == 1
    assert n_found(None) == 0
