from itertools import product
from time import perf_counter
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from relatum.decoding.probabilities import Logits
from relatum.decoding.relations import Opposite, decode_relations, decode_tables
from relatum.errors import RelatumError
from relatum.schema import RelationType, Schema
from relatum.tagging.table import Cells, Fill, TableTags
from relatum.types import Entity, Relation, Span

SCHEMA = Schema(("X",), (RelationType("r"), RelationType("q"), RelationType("s", symmetric=True)))
DIRECTED_ONLY = Schema(("X",), (RelationType("r"), RelationType("q")))
"""Without symmetric types it is all one which of two entities comes first."""
FORMULATIONS = [
    TableTags(schema, fill, cells, directed)
    for schema, fill, cells, directed in product(
        (SCHEMA, DIRECTED_ONLY), get_args(Fill), get_args(Cells), (True, False)
    )
]
N_WORDS = 6
OPPOSITES: tuple[Opposite, ...] = get_args(Opposite)

formulations = st.sampled_from(FORMULATIONS)
seeds = st.integers(0, 2**32 - 1)


def entity(start: int, end: int) -> Entity:
    return Entity(Span(start, end), "X")


@st.composite
def entity_lists(draw: st.DrawFn) -> list[Entity]:
    """In any order; some overlap, some are discontinuous, some stand there twice."""
    sets = draw(st.lists(st.sets(st.integers(0, N_WORDS - 1), min_size=1, max_size=3), max_size=5))
    entities = []
    for words in sets:
        span = Span(min(words), max(words) + 1)
        whole = span.width == len(words)
        entities.append(Entity(span, "X", () if whole else tuple(Span(word, word + 1) for word in sorted(words))))
    return entities


def random_table(tags: TableTags, seed: int) -> NDArray[np.float64]:
    # Sharp, so that relations win often.
    return np.random.default_rng(seed).dirichlet(np.full(len(tags.names), 0.2), (N_WORDS, N_WORDS))


def one_hot(tags: TableTags, table: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
    rows: NDArray[np.float64] = np.eye(len(tags.names))[table]
    return rows


def by_the_deciding_cells(
    table: NDArray[np.float64], entities: list[Entity], tags: TableTags, opposite: Opposite
) -> list[tuple[Relation, float]]:
    """Equation 17, one pair, cell and tag at a time."""
    found = []
    known = list(dict.fromkeys(entities))
    for head, tail in product(known, known):
        votes = [0.0] * (1 + len(tags.schema.relation_types))
        n_cells = 0
        for block in tags.deciding_cells(head, tail):
            for row, column in block.cells:
                n_cells += 1
                for tag, outcome in enumerate(block.tag_votes):
                    if outcome or not tag or opposite == "no-relation":
                        votes[outcome] += float(table[row, column, tag])
        winner = votes.index(max(votes))
        if winner:
            found.append((Relation(head, tail, tags.schema.relation_names[winner - 1]), votes[winner] / n_cells))
    return found


@given(formulations, entity_lists(), st.sampled_from(OPPOSITES), seeds)
def test_relations_are_those_that_the_deciding_cells_vote_for(
    tags: TableTags, entities: list[Entity], opposite: Opposite, seed: int
) -> None:
    table = random_table(tags, seed)
    found = decode_relations(table, entities, tags, opposite)
    expected = by_the_deciding_cells(table, entities, tags, opposite)
    assert found == tuple(relation for relation, _ in expected)
    assert [relation.score for relation in found] == pytest.approx([score for _, score in expected])
    assert all(type(one.score) is float and 0 <= one.score <= 1 for one in found)


@given(formulations, entity_lists(), st.sampled_from(OPPOSITES), seeds)
def test_relations_of_logits_are_those_of_their_softmax(
    tags: TableTags, entities: list[Entity], opposite: Opposite, seed: int
) -> None:
    logits = np.random.default_rng(seed).normal(0, 4, (N_WORDS, N_WORDS, len(tags.names))).astype(np.float32)
    powers = np.exp(logits.astype(np.float64))
    expected = decode_relations(powers / powers.sum(-1, keepdims=True), entities, tags, opposite)
    found = decode_relations(Logits(logits), entities, tags, opposite)
    assert found == expected
    assert [one.score for one in found] == pytest.approx([one.score for one in expected])


@given(formulations, entity_lists(), seeds)
def test_relations_of_certain_cells_are_those_of_hard_decoding(
    tags: TableTags, entities: list[Entity], seed: int
) -> None:
    table = np.random.default_rng(seed).integers(0, len(tags.names), (N_WORDS, N_WORDS))
    cells = {(row, column): int(tag) for (row, column), tag in np.ndenumerate(table)}
    found = decode_relations(one_hot(tags, table), entities, tags, "no-relation")
    assert found == tags.decode(cells, entities)


@pytest.mark.parametrize("tags", FORMULATIONS)
def test_fill_mask_holds_the_deciding_cells(tags: TableTags) -> None:
    words = [entity(word, word + 1) for word in range(N_WORDS)]
    asked = {
        cell
        for head, tail in product(words, words)
        for block in tags.deciding_cells(head, tail)
        for cell in block.cells
    }
    mask = tags.fill_mask(N_WORDS)
    assert {(i, j) for i, j in asked if mask[i, j]} == asked
    assert {(int(i), int(j)) for i, j in np.argwhere(mask) if i != j} == asked
    assert mask.diagonal().all() == (tags.fill == "entire")


def test_relations_weigh_probabilities_not_votes() -> None:
    """In most cells ⊥ is likelier, but where r is, it is nearly certain."""
    tags = TableTags(SCHEMA)
    a, b = entity(0, 1), entity(1, 3)
    table = np.zeros((3, 3, 6))
    table[..., 0] = 1
    for row, column, tag, mass in [(0, 1, 1, 0.9), (1, 0, 2, 0.4), (0, 2, 1, 0.4), (2, 0, 2, 0.4)]:
        table[row, column, [0, tag]] = 1 - mass, mass
    (relation,) = decode_relations(table, (a, b), tags, "no-relation")
    assert relation == Relation(a, b, "r")
    assert relation.score == pytest.approx(2.1 / 4)


def test_relations_read_the_opposite_direction_as_asked() -> None:
    tags = TableTags(SCHEMA)
    a, b = entity(0, 1), entity(1, 2)
    table = np.zeros((2, 2, 6))
    table[0, 1] = [0.01, 0.97, 0.02, 0, 0, 0]  # →r
    table[1, 0] = [0.01, 0.02, 0.97, 0, 0, 0]  # ←r
    assert decode_relations(table, (a, b), tags, "no-relation") == (Relation(a, b, "r"),)
    # By the text of section 5 the mass 0.04 for r from b to a has only 0.02 of ⊥ against it.
    literal = decode_relations(table, (a, b), tags, "ignored")
    assert literal == (Relation(a, b, "r"), Relation(b, a, "r"))
    assert [relation.score for relation in literal] == pytest.approx([0.97, 0.02])


def test_relations_give_ties_to_no_relation_then_to_the_first_type() -> None:
    tags = TableTags(SCHEMA, directed=False)  # ⊥ r q ↔s
    a, b = entity(0, 1), entity(1, 2)
    table = np.zeros((2, 2, 4))
    table[0, 1] = [0.5, 0.25, 0.25, 0]
    table[1, 0] = [0.2, 0.4, 0.4, 0]
    assert decode_relations(table, (a, b), tags, "no-relation") == (Relation(b, a, "r"),)
    table[1, 0] = [0.4, 0.2, 0.4, 0]
    assert decode_relations(table, (a, b), tags, "no-relation") == ()


def test_relations_keep_the_entities_as_they_were_given() -> None:
    tags = TableTags(SCHEMA)
    a, b = Entity(Span(0, 1), "X", score=0.5, id="T1"), Entity(Span(1, 2), "X", score=0.25, id="T2")
    table = one_hot(tags, np.array([[0, 1], [2, 0]]))
    (relation,) = decode_relations(table, (a, b), tags, "no-relation")
    assert relation.head is a
    assert relation.tail is b


def test_scores_stay_in_range_when_probabilities_sum_to_more_than_one() -> None:
    tags = TableTags(SCHEMA)
    table = one_hot(tags, np.array([[0, 1], [2, 0]])).astype(np.float32) * np.float32(1.0000001)
    (relation,) = decode_relations(table, (entity(0, 1), entity(1, 2)), tags, "no-relation")
    assert relation.score == 1.0


def test_relations_need_two_entities() -> None:
    tags = TableTags(SCHEMA)
    table = one_hot(tags, np.array([[0, 1], [2, 0]]))
    assert decode_relations(table, (), tags, "no-relation") == ()
    assert decode_relations(table, (entity(0, 2), entity(0, 2)), tags, "no-relation") == ()
    assert decode_relations(np.zeros((0, 0, 6)), (), tags, "no-relation") == ()


def test_relations_need_no_relation_types() -> None:
    tags = TableTags(Schema(("X",)))
    assert decode_relations(np.ones((2, 2, 1)), (entity(0, 1), entity(1, 2)), tags, "ignored") == ()


def test_relations_refuse_what_they_cannot_read() -> None:
    tags = TableTags(SCHEMA)
    with pytest.raises(ValueError, match=r"shape \(2, 3, 6\), expected \(2, 2, 6\)"):
        decode_relations(np.zeros((2, 3, 6)), (), tags, "no-relation")
    with pytest.raises(RelatumError, match="relation probabilities contain values that are not finite"):
        decode_relations(np.full((2, 2, 6), np.nan), (), tags, "no-relation")
    with pytest.raises(RelatumError, match="relation probabilities contain values that are not finite"):
        decode_relations(Logits(np.full((2, 2, 6), np.inf)), (), tags, "no-relation")
    with pytest.raises(ValueError, match=r"shape \(2, 2, 5\), expected \(2, 2, 6\)"):
        decode_relations(Logits(np.zeros((2, 2, 5))), (), tags, "no-relation")
    with pytest.raises(ValueError, match=r"X \[1, 3\) does not fit into a sentence of 2 words"):
        decode_relations(np.zeros((2, 2, 6)), (entity(0, 1), entity(1, 3)), tags, "no-relation")


@given(formulations, st.lists(entity_lists(), min_size=1, max_size=4), st.sampled_from(OPPOSITES), seeds)
def test_relations_of_a_batch_are_those_of_each_sentence(
    tags: TableTags, entities: list[list[Entity]], opposite: Opposite, seed: int
) -> None:
    tables = np.stack([random_table(tags, (seed + number) % 2**32) for number in range(len(entities))])
    found = decode_tables(tables, [N_WORDS] * len(entities), entities, tags, opposite)
    for one, table, own in zip(found, tables, entities, strict=True):
        expected = by_the_deciding_cells(table, own, tags, opposite)
        assert one == tuple(relation for relation, _ in expected)
        assert [relation.score for relation in one] == pytest.approx([score for _, score in expected])


def test_relations_of_a_sentence_with_very_many_entities_in_a_batch_are_found_too() -> None:
    tags = TableTags(SCHEMA)
    table = np.random.default_rng(0).dirichlet(np.full(len(tags.names), 0.2), (3, 60, 60))
    entities = [[entity(word, word + 1) for word in range(n_entities)] for n_entities in (3, 60, 2)]
    found = decode_tables(table, [60] * 3, entities, tags, "no-relation")
    assert [len(one) > 0 for one in found] == [True] * 3
    assert found == [decode_relations(*one, tags, "no-relation") for one in zip(table, entities, strict=True)]


def test_relations_of_large_logits_do_not_overflow() -> None:
    tags = TableTags(SCHEMA)
    logits = np.zeros((2, 2, 6), dtype=np.float32)
    logits[0, 1, 1] = logits[1, 0, 2] = 1e4
    (relation,) = decode_relations(Logits(logits), (entity(0, 1), entity(1, 2)), tags, "no-relation")
    assert (relation.label, relation.score) == ("r", 1.0)


def test_relations_of_many_entities_are_fast() -> None:
    """A loop over pairs, cells and tags takes about a second for this."""
    tags = TableTags(Schema(("X",), tuple(RelationType(f"r{number}") for number in range(7))))
    table = np.random.default_rng(0).dirichlet(np.ones(15), (100, 100)).astype(np.float32)
    entities = [entity(start, start + 2) for start in range(0, 100, 2)]

    def seconds() -> float:
        start = perf_counter()
        decode_relations(table, entities, tags, "no-relation")
        return perf_counter() - start

    assert min(seconds() for _ in range(5)) < 0.05
