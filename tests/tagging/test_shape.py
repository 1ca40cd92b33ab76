"""The shape of annotations by hand, and against a look at all pairs of entities and of relations."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatum.tagging.shape import Shape, measure_shape
from relatum.types import Annotation, Entity, Relation, Span


def entity(start: int, end: int, label: str = "X") -> Entity:
    return Entity(Span(start, end), label)


ANN, BANK, ROME = entity(0, 1), entity(2, 5, "Y"), entity(4, 5)
ACROSS = entity(4, 6)
FLAT = Annotation((ANN, BANK), (Relation(ANN, BANK, "r"),))
NESTED = Annotation((ANN, BANK, ROME), (Relation(ANN, BANK, "r"), Relation(ANN, ROME, "r")))
CROSSED = Annotation((BANK, ACROSS))
TWICE = Annotation((ANN, BANK), (Relation(ANN, BANK, "r"), Relation(ANN, BANK, "s"), Relation(ANN, BANK, "t")))
OPPOSITE = Annotation((ANN, BANK), (Relation(ANN, BANK, "r"), Relation(BANK, ANN, "s")))


@pytest.mark.parametrize(
    ("annotations", "shape"),
    [
        ([], Shape()),
        ([Annotation()], Shape("none", 0, 0, 0, 0)),
        ([FLAT, FLAT], Shape("none", 0, 2, 0, 0)),
        ([FLAT, NESTED], Shape("nested", 1, 3, 0, 0)),
        ([CROSSED, NESTED, NESTED], Shape("any", 3, 4, 0, 0)),
        ([NESTED, CROSSED], Shape("any", 2, 2, 0, 0)),
        ([TWICE], Shape("none", 0, 3, 2, 2)),
        ([OPPOSITE], Shape("none", 0, 2, 1, 0)),
        ([OPPOSITE, TWICE, NESTED], Shape("nested", 1, 7, 3, 2)),
        ([Annotation((ANN, entity(0, 1, "Y")))], Shape("nested", 1, 0, 0, 0)),
    ],
)
def test_shape_counts_sentences_and_relations(annotations: list[Annotation], shape: Shape) -> None:
    assert measure_shape(iter(annotations)) == shape


def test_entities_and_relations_that_are_given_twice_count_once() -> None:
    again = Annotation((ANN, BANK, ANN), (*FLAT.relations, *FLAT.relations))
    assert measure_shape([again]) == Shape("none", 0, 1, 0, 0)


def test_relation_of_an_entity_with_itself_is_a_pair_of_its_own() -> None:
    itself = Annotation((ANN, BANK), (*FLAT.relations, Relation(ANN, ANN, "r")))
    assert measure_shape([itself]) == Shape("none", 0, 2, 0, 0)


SPANS = st.tuples(st.integers(0, 6), st.integers(1, 3))
ENTITIES = st.builds(lambda span, label: entity(span[0], sum(span), label), SPANS, st.sampled_from("XY"))


@st.composite
def sentences_of(draw: st.DrawFn) -> Annotation:
    entities = draw(st.lists(ENTITIES, min_size=1, max_size=4))
    ends = st.sampled_from(entities)
    relations = draw(st.lists(st.builds(Relation, ends, ends, st.sampled_from("rs")), max_size=6))
    return Annotation(tuple(entities), tuple(relations))


def overlap_of(annotation: Annotation) -> str:
    """Compare the words of any two entities."""
    words = [set(range(*one.span)) for one in set(annotation.entities)]
    shared = [(one, other) for one, other in combinations(words, 2) if one & other]
    if all(one <= other or other <= one for one, other in shared):
        return "nested" if shared else "none"
    return "any"


def count_further(annotation: Annotation, in_order: bool) -> int:
    """Count the relations whose pair has come before."""
    seen: list[list[Entity]] = []
    further = 0
    for relation in set(annotation.relations):
        pair = [relation.head, relation.tail]
        known = pair in seen or (not in_order and pair[::-1] in seen)
        further += known
        seen.append(pair)
    return further


@given(st.lists(sentences_of(), max_size=4))
def test_shape_is_that_of_a_look_at_all_pairs(sentences: list[Annotation]) -> None:
    shape = measure_shape(sentences)
    overlaps = [overlap_of(one) for one in sentences]
    assert shape.overlap == next((level for level in ("any", "nested") if level in overlaps), "none")
    assert shape.n_overlapping == len(overlaps) - overlaps.count("none")
    assert shape.n_relations == sum(len(set(one.relations)) for one in sentences)
    assert shape.n_further == sum(count_further(one, in_order=False) for one in sentences)
    assert shape.n_same_direction == sum(count_further(one, in_order=True) for one in sentences)
    assert shape.n_same_direction <= shape.n_further


@pytest.mark.parametrize(
    ("shape", "several"),
    [
        (Shape(), False),
        (Shape("none", 0, 1000, 6, 5), False),
        (Shape("none", 0, 1000, 6, 6), True),
        (Shape("none", 0, 199, 1, 1), True),
        (Shape("none", 0, 200, 1, 1), False),
        (Shape("any", 1, 0, 0, 0), False),
    ],
)
def test_several_relations_are_more_than_half_a_percent(shape: Shape, several: bool) -> None:
    assert shape.has_several_relations == several


def test_description_says_what_would_be_lost() -> None:
    assert Shape().describe() == ""
    assert Shape("nested", 1200, 9, 0, 0).describe() == "sentences with entities inside one another: 1,200"
    assert Shape("any", 3, 9, 0, 0).describe() == "sentences with entities that share words: 3"
    assert Shape("none", 0, 5000, 1234, 3).describe() == "relations that share their pair with another: 1,234 of 5,000"
    both = Shape("any", 3, 50, 2, 1).describe()
    assert both == "sentences with entities that share words: 3; relations that share their pair with another: 2 of 50"
    assert Shape().describe() == ""
