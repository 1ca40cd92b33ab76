"""Span tags against annotations worked out by hand, and against everything that decoding gives back."""

from __future__ import annotations

from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from relatum.config import TaggingConfig
from relatum.decoding.probabilities import Logits
from relatum.decoding.spans import SpanChoices, decode_spans
from relatum.errors import SchemaError
from relatum.schema import RelationType, Schema
from relatum.tagging.sequence import DISCONTINUOUS, LostEntity
from relatum.tagging.spans import SpanCells, SpanLabels, SpanTags, find_overlap
from relatum.tagging.table import ITSELF, MISSING, LostRelation
from relatum.tagging.tagging import Tagging
from relatum.types import Annotation, Entity, Relation, Span

SCHEMA = Schema(("Loc", "Org"), (RelationType("In"), RelationType("Near", symmetric=True), RelationType("Owns")))
ENDS, ENTITY = SpanTags(SCHEMA, "ends"), SpanTags(SCHEMA, "entity")
MORE_THAN_HALF = pytest.mark.xfail(
    strict=True,
    reason="decoding finds a relation if more than half of its cells have the tag; `gained` asks for all of them",
)


def entity(start: int, end: int, label: str = "Loc", *fragments: tuple[int, int]) -> Entity:
    return Entity(Span(start, end), label, tuple(Span(*fragment) for fragment in fragments))


def canonical(relation: Relation) -> Relation:
    """Return the relation with the earlier entity as its head if its type is symmetric."""
    head, tail = relation.head, relation.tail
    if relation.label == "Near" and [*tail.span, tail.label] < [*head.span, head.label]:
        return Relation(tail, head, "Near")
    return relation


def write_table(labels: SpanLabels, tags: SpanTags, n_words: int) -> NDArray[np.float64]:
    """Return a batch of one sentence: 1 for the tags that a cell has, 0 for the others."""
    table = np.zeros((1, n_words, n_words, len(tags.names)))
    for (row, column), numbers in labels.cells.items():
        table[0, row, column, list(numbers)] = 1
    return table


def expect(annotation: Annotation, labels: SpanLabels) -> tuple[set[Entity], set[Relation]]:
    """Return the annotation without what is lost, with what is gained."""
    entities = set(annotation.entities) - {lost.entity for lost in labels.lost_entities}
    lost = {canonical(one.relation) for one in labels.lost_relations}
    return entities, {canonical(one) for one in annotation.relations} - lost | set(labels.gained)


def name_cells(labels: SpanLabels, tags: SpanTags) -> dict[tuple[int, int], set[str]]:
    return {cell: {tags.names[number] for number in numbers} for cell, numbers in labels.cells.items()}


@st.composite
def entities_of(draw: st.DrawFn, n_words: int) -> Entity:
    start = draw(st.integers(0, n_words - 1))
    end = draw(st.integers(start + 1, min(n_words, start + 4)))
    label = draw(st.sampled_from(SCHEMA.entity_types))
    if end - start > 2 and draw(st.integers(0, 3)) == 0:
        return entity(start, end, label, (start, start + 1), (end - 1, end))
    return entity(start, end, label)


@st.composite
def any_annotations(draw: st.DrawFn) -> tuple[Annotation, int]:
    """Entities that nest, overlap and repeat; relations of any two of them, some of an entity that is missing."""
    n_words = draw(st.integers(1, 7))
    entities = draw(st.lists(entities_of(n_words), min_size=1, max_size=6))
    ends = st.sampled_from([*entities, *draw(st.lists(entities_of(n_words), max_size=1))])
    relations = draw(st.lists(st.builds(Relation, ends, ends, st.sampled_from(SCHEMA.relation_names)), max_size=10))
    return Annotation(tuple(entities), tuple(relations)), n_words


@st.composite
def separate_annotations(draw: st.DrawFn) -> tuple[Annotation, int]:
    """Entities that share no words, in any order; some are discontinuous."""
    cuts = [0, *sorted(draw(st.sets(st.integers(1, 9), max_size=6))), 10]
    entities = []
    for start, end in draw(st.permutations(list(pairwise(cuts)))):
        broken = end - start > 2 and draw(st.booleans())
        fragments = ((start, start + 1), (end - 1, end)) if broken else ()
        entities.append(entity(start, end, draw(st.sampled_from(SCHEMA.entity_types)), *fragments))
    ends = st.sampled_from(entities)
    relations = draw(st.lists(st.builds(Relation, ends, ends, st.sampled_from(SCHEMA.relation_names)), max_size=12))
    return Annotation(tuple(entities), tuple(relations)), 10


@pytest.mark.parametrize("as_logits", [False, True])
@pytest.mark.parametrize("tags", [ENDS, pytest.param(ENTITY, marks=MORE_THAN_HALF)])
@given(sentence=any_annotations())
def test_decoding_gives_back_the_annotation_less_lost_plus_gained(
    sentence: tuple[Annotation, int], tags: SpanTags, as_logits: bool
) -> None:
    annotation, n_words = sentence
    labels = tags.encode(annotation, n_words)
    table = write_table(labels, tags, n_words)
    (found,) = decode_spans(Logits(60 * table - 30) if as_logits else table, [n_words], tags, SpanChoices())
    assert (set(found.entities), set(found.relations)) == expect(annotation, labels)
    assert len(set(found.entities)) == len(found.entities)
    assert len(set(found.relations)) == len(found.relations)
    assert [one.score for one in found.entities] == pytest.approx([1.0] * len(found.entities))


@pytest.mark.parametrize("tags", [ENDS, ENTITY])
@given(sentence=any_annotations())
def test_no_entity_is_gained_and_no_relation_lost_without_being_named(
    sentence: tuple[Annotation, int], tags: SpanTags
) -> None:
    annotation, n_words = sentence
    labels = tags.encode(annotation, n_words)
    (found,) = decode_spans(write_table(labels, tags, n_words), [n_words], tags, SpanChoices())
    entities, relations = expect(annotation, labels)
    assert set(found.entities) == entities
    assert set(found.relations) >= relations


@pytest.mark.parametrize("tags", [ENDS, ENTITY])
@given(sentence=any_annotations())
def test_only_broken_entities_self_relations_and_dangling_relations_are_lost(
    sentence: tuple[Annotation, int], tags: SpanTags
) -> None:
    annotation, n_words = sentence
    labels = tags.encode(annotation, n_words)
    whole = {one for one in annotation.entities if not one.fragments}
    broken = [one for one in dict.fromkeys(annotation.entities) if one.fragments]
    assert labels.lost_entities == tuple(LostEntity(one, DISCONTINUOUS) for one in broken)
    lost = []
    for relation in annotation.relations:
        if relation.head not in whole or relation.tail not in whole:
            lost.append(LostRelation(relation, MISSING))
        elif relation.head == relation.tail:
            lost.append(LostRelation(relation, ITSELF))
    assert labels.lost_relations == tuple(lost)


@pytest.mark.parametrize("tags", [ENDS, ENTITY])
@given(sentence=separate_annotations())
def test_entities_that_share_no_words_gain_nothing(sentence: tuple[Annotation, int], tags: SpanTags) -> None:
    annotation, n_words = sentence
    labels = tags.encode(annotation, n_words)
    assert labels.gained == ()
    (found,) = decode_spans(write_table(labels, tags, n_words), [n_words], tags, SpanChoices())
    whole = {one for one in annotation.entities if not one.fragments}
    assert set(found.entities) == whole
    kept = {canonical(one) for one in annotation.relations if {one.head, one.tail} <= whole and one.head != one.tail}
    assert set(found.relations) == kept


@pytest.mark.parametrize("tags", [ENDS, ENTITY])
@given(sentence=any_annotations())
def test_table_is_its_own_mirror(sentence: tuple[Annotation, int], tags: SpanTags) -> None:
    labels = tags.encode(*sentence)
    turned = str.maketrans("→←", "←→")
    cells = name_cells(labels, tags)
    for (row, column), names in cells.items():
        assert cells[column, row] == {name.translate(turned) for name in names}
    assert all(numbers == tuple(sorted(set(numbers))) != () for numbers in labels.cells.values())


def test_names_are_those_of_entity_types_then_of_relations_in_each_direction() -> None:
    assert ENDS.names == (
        *("Loc", "Org"),
        *("→In first", "←In first", "→In last", "←In last"),
        *("↔Near first", "↔Near last"),
        *("→Owns first", "←Owns first", "→Owns last", "←Owns last"),
    )
    assert ENTITY.names == ("Loc", "Org", "→In", "←In", "↔Near", "→Owns", "←Owns")
    assert SpanTags(SCHEMA) == ENDS
    assert SpanTags(Schema(("Loc",))).names == ("Loc",)


NEW_YORK, UNIVERSITY = entity(0, 2), entity(2, 3, "Org")
NEW_YORK_UNIVERSITY, PARIS = entity(0, 3, "Org"), entity(4, 5)
NESTED = (NEW_YORK_UNIVERSITY, NEW_YORK, UNIVERSITY, PARIS)


def test_cells_of_ends_are_those_of_first_words_and_of_last_words() -> None:
    relations = (Relation(NEW_YORK_UNIVERSITY, PARIS, "In"), Relation(PARIS, NEW_YORK_UNIVERSITY, "Near"))
    labels = ENDS.encode(Annotation(NESTED, relations), 5)
    assert name_cells(labels, ENDS) == {
        (0, 2): {"Org"},
        (2, 0): {"Org"},
        (0, 1): {"Loc"},
        (1, 0): {"Loc"},
        (2, 2): {"Org"},
        (4, 4): {"Loc"},
        (0, 4): {"→In first", "↔Near first"},
        (4, 0): {"←In first", "↔Near first"},
        (2, 4): {"→In last", "↔Near last"},
        (4, 2): {"←In last", "↔Near last"},
    }
    assert (labels.lost_entities, labels.lost_relations, labels.gained) == ((), (), ())


def test_cells_of_entities_are_all_cells_of_both() -> None:
    labels = ENTITY.encode(Annotation(NESTED, (Relation(PARIS, NEW_YORK, "In"),)), 5)
    assert name_cells(labels, ENTITY) == {
        (0, 2): {"Org"},
        (2, 0): {"Org"},
        (0, 1): {"Loc"},
        (1, 0): {"Loc"},
        (2, 2): {"Org"},
        (4, 4): {"Loc"},
        (4, 0): {"→In"},
        (4, 1): {"→In"},
        (0, 4): {"←In"},
        (1, 4): {"←In"},
    }


def test_relation_of_a_long_entity_is_not_one_of_the_entity_at_its_end() -> None:
    annotation = Annotation(NESTED, (Relation(NEW_YORK_UNIVERSITY, PARIS, "In"),))
    labels = ENDS.encode(annotation, 5)
    (found,) = decode_spans(write_table(labels, ENDS, 5), [5], ENDS, SpanChoices())
    assert found.relations == annotation.relations
    assert set(found.entities) == set(NESTED)


def test_relation_of_all_cells_is_gained_by_the_entity_inside() -> None:
    annotation = Annotation(NESTED, (Relation(NEW_YORK_UNIVERSITY, PARIS, "In"),))
    gained = ENTITY.encode(annotation, 5).gained
    assert set(gained) == {Relation(NEW_YORK, PARIS, "In"), Relation(UNIVERSITY, PARIS, "In")}


@MORE_THAN_HALF
def test_relation_of_all_cells_is_gained_by_the_entity_around() -> None:
    """Two of the three words of New York University have the tag."""
    labels = ENTITY.encode(Annotation(NESTED, (Relation(NEW_YORK, PARIS, "In"),)), 5)
    (found,) = decode_spans(write_table(labels, ENTITY, 5), [5], ENTITY, SpanChoices())
    assert set(found.relations) == {Relation(NEW_YORK, PARIS, "In"), *labels.gained}


def test_entities_of_the_same_words_share_their_relations() -> None:
    place, firm = entity(0, 2), entity(0, 2, "Org")
    given_relations = (Relation(firm, PARIS, "Owns"), Relation(firm, place, "In"))
    labels = ENDS.encode(Annotation((place, firm, PARIS), given_relations), 5)
    assert set(labels.gained) == {Relation(place, PARIS, "Owns"), Relation(place, firm, "In")}
    assert labels.lost_relations == ()


def test_relations_to_two_overlapping_entities_make_one_to_their_common_word() -> None:
    """The first words are those of one relation, the last words those of the other; the head shares no words."""
    left, right, common = entity(3, 5), entity(4, 6), entity(4, 5)
    annotation = Annotation(
        (NEW_YORK, left, right, common), (Relation(NEW_YORK, left, "In"), Relation(NEW_YORK, right, "In"))
    )
    assert ENDS.encode(annotation, 6).gained == (Relation(NEW_YORK, common, "In"),)


def test_symmetric_relation_given_in_both_orders_is_one_relation() -> None:
    both = (Relation(PARIS, NEW_YORK, "Near"), Relation(NEW_YORK, PARIS, "Near"))
    twice, once = (ENDS.encode(Annotation((PARIS, NEW_YORK), one), 5) for one in (both, both[:1]))
    assert twice == once
    (found,) = decode_spans(write_table(twice, ENDS, 5), [5], ENDS, SpanChoices())
    assert found.relations == (Relation(NEW_YORK, PARIS, "Near"),)


def test_both_directions_and_several_types_of_a_pair_are_kept() -> None:
    relations = (
        Relation(NEW_YORK, PARIS, "In"),
        Relation(NEW_YORK, PARIS, "Near"),
        Relation(NEW_YORK, PARIS, "Owns"),
        Relation(PARIS, NEW_YORK, "In"),
    )
    for tags in (ENDS, ENTITY):
        labels = tags.encode(Annotation((NEW_YORK, PARIS), relations), 5)
        (found,) = decode_spans(write_table(labels, tags, 5), [5], tags, SpanChoices())
        assert set(found.relations) == set(relations)
        assert (labels.gained, labels.lost_relations) == ((), ())


@pytest.mark.parametrize("tags", [ENDS, ENTITY])
def test_types_that_the_schema_lacks_are_errors(tags: SpanTags) -> None:
    time = entity(0, 1, "Time")
    broken = entity(0, 3, "Time", (0, 1), (2, 3))
    for annotation in (Annotation((time,)), Annotation((broken,))):
        with pytest.raises(SchemaError, match="entity type 'Time' is not in the schema; it has Loc, Org"):
            tags.encode(annotation, 5)
    with pytest.raises(SchemaError, match="relation type 'At' is not in the schema; it has In, Near, Owns"):
        tags.encode(Annotation((NEW_YORK, PARIS), (Relation(NEW_YORK, PARIS, "At"),)), 5)


@pytest.mark.parametrize("tags", [ENDS, ENTITY])
def test_entity_beyond_the_sentence_is_an_error(tags: SpanTags) -> None:
    tags.encode(Annotation((PARIS,)), 5)
    for beyond in (PARIS, entity(2, 5, "Org", (2, 3), (4, 5))):
        with pytest.raises(ValueError, match=r", 5\) does not fit into a sentence of 4 words"):
            tags.encode(Annotation((beyond,)), 4)


def brute_overlap(spans: list[Span]) -> str:
    """Compare the words of any two of the spans."""
    words = [set(range(start, end)) for start, end in spans]
    pairs = [(one, other) for one, other in combinations(words, 2) if one & other]
    if any(not (one <= other or other <= one) for one, other in pairs):
        return "any"
    return "nested" if pairs else "none"


SPANS = [Span(start, end) for start, end in product(range(8), range(9)) if start < end]


@given(st.lists(st.sampled_from(SPANS), max_size=6))
def test_overlap_is_that_of_any_two_spans(spans: list[Span]) -> None:
    assert find_overlap(spans) == brute_overlap(spans)


def test_overlap_of_all_pairs_and_triples_of_short_spans() -> None:
    short = [span for span in SPANS if span.end <= 4]
    for spans in (*product(short, repeat=2), *product(short, repeat=3)):
        assert find_overlap(iter(spans)) == brute_overlap(list(spans))
    assert find_overlap(()) == find_overlap([Span(0, 1)]) == "none"


@pytest.mark.parametrize("cells", ["ends", "entity"])
def test_tagging_has_tag_sets_in_every_cell(cells: SpanCells) -> None:
    tagging = Tagging.of(SCHEMA, TaggingConfig(kind="spans", span_cells=cells, fill="lower"))
    tags = SpanTags(SCHEMA, cells)
    assert tagging.cells == tags
    assert tagging.has_tag_sets
    assert not Tagging.of(SCHEMA, TaggingConfig()).has_tag_sets
    assert tagging.fill_mask(3).all()
    broken = entity(2, 5, "Org", (2, 3), (4, 5))
    annotation = Annotation((*NESTED, broken), (Relation(UNIVERSITY, PARIS, "In"), Relation(broken, PARIS, "In")))
    tagged, labels = tagging.encode(annotation, 5), tags.encode(annotation, 5)
    assert tagged.cell_tags == labels.cells
    assert tagged.lost_entities == (LostEntity(broken, DISCONTINUOUS),)
    assert tagged.lost_relations == (LostRelation(annotation.relations[1], MISSING),)
    assert tagged.gained_relations == labels.gained
    assert tagging.find_expressible(annotation, 5) == Annotation(NESTED, annotation.relations[:1])
