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
from relatum.tagging.spans import MISPLACED, SpanLabels, SpanTags, find_overlap, find_sharing
from relatum.tagging.table import ITSELF, MISSING, LostRelation
from relatum.tagging.tagging import Tagging
from relatum.types import Annotation, Entity, Relation, Span

SCHEMA = Schema(("Loc", "Org"), (RelationType("In"), RelationType("Near", symmetric=True), RelationType("Owns")))
TAGS = SpanTags(SCHEMA)
CONSTRAINED = SpanTags(
    Schema(
        SCHEMA.entity_types,
        (
            RelationType("In", head_labels=("Org",), tail_labels=("Loc",)),
            RelationType("Near", symmetric=True, head_labels=("Loc",), tail_labels=("Loc", "Org")),
            RelationType("Owns"),
        ),
    )
)


def entity(start: int, end: int, label: str = "Loc", *fragments: tuple[int, int]) -> Entity:
    return Entity(Span(start, end), label, tuple(Span(*fragment) for fragment in fragments))


def canonical(relation: Relation) -> Relation:
    """Return the relation with the earlier entity as its head if its type is symmetric."""
    head, tail = relation.head, relation.tail
    if relation.label == "Near" and [*tail.span, tail.label] < [*head.span, head.label]:
        return Relation(tail, head, "Near")
    return relation


def write_table(labels: SpanLabels, n_words: int) -> NDArray[np.float64]:
    """Return a batch of one sentence: 1 for the tags that a cell has, 0 for the others."""
    table = np.zeros((1, n_words, n_words, len(TAGS.names)))
    for (row, column), numbers in labels.cells.items():
        table[0, row, column, list(numbers)] = 1
    return table


def expect(annotation: Annotation, labels: SpanLabels) -> tuple[set[Entity], set[Relation]]:
    """Return the annotation without what is lost, with what is gained."""
    entities = set(annotation.entities) - {lost.entity for lost in labels.lost_entities}
    lost = {canonical(one.relation) for one in labels.lost_relations}
    return entities, {canonical(one) for one in annotation.relations} - lost | set(labels.gained)


def decode(labels: SpanLabels, n_words: int) -> Annotation:
    (found,) = decode_spans(write_table(labels, n_words), [n_words], TAGS, SpanChoices())
    return found


def name_cells(labels: SpanLabels) -> dict[tuple[int, int], set[str]]:
    return {cell: {TAGS.names[number] for number in numbers} for cell, numbers in labels.cells.items()}


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
@pytest.mark.parametrize("tags", [TAGS, CONSTRAINED], ids=["any", "constrained"])
@given(sentence=any_annotations())
def test_decoding_gives_back_the_annotation_less_lost_plus_gained(
    sentence: tuple[Annotation, int], as_logits: bool, tags: SpanTags
) -> None:
    annotation, n_words = sentence
    labels = tags.encode(annotation, n_words)
    table = write_table(labels, n_words)
    # Logits of -31 and 29: with half of its cells, a relation scores a little less than 0.5, however that is rounded.
    (found,) = decode_spans(Logits(60 * table - 31) if as_logits else table, [n_words], tags, SpanChoices())
    assert (set(found.entities), set(found.relations)) == expect(annotation, labels)
    assert len(set(found.entities)) == len(found.entities)
    assert len(set(found.relations)) == len(found.relations)
    assert [one.score for one in found.entities] == pytest.approx([1.0] * len(found.entities))


def test_relation_with_half_of_its_cells_is_not_gained_if_its_entities_share_a_word() -> None:
    """The shared word's cell is its own mirrored cell, and counts twice, as in decoding."""
    one, two, three, first, last = entity(0, 1), entity(1, 2), entity(2, 3), entity(0, 2), entity(1, 3)
    annotation = Annotation((one, two, three, first, last), (Relation(one, two, "In"), Relation(two, three, "In")))
    labels = TAGS.encode(annotation, 3)
    assert Relation(first, last, "In") not in labels.gained
    assert set(decode(labels, 3).relations) == {*annotation.relations, *labels.gained}


def test_relation_on_the_words_of_two_entities_is_not_gained_by_a_type_that_the_schema_forbids() -> None:
    firm, place, town = entity(0, 1, "Org"), entity(0, 1), entity(2, 3)
    right, wrong = Relation(firm, town, "In"), Relation(place, town, "In")
    annotation = Annotation((firm, place, town), (right, Relation(firm, town, "Owns")))
    assert TAGS.encode(annotation, 3).gained == (wrong, Relation(place, town, "Owns"))
    assert CONSTRAINED.encode(annotation, 3).gained == (Relation(place, town, "Owns"),)
    labels = CONSTRAINED.encode(Annotation(annotation.entities, (wrong,)), 3)
    assert labels.lost_relations == (LostRelation(wrong, MISPLACED),)
    alone = CONSTRAINED.encode(Annotation((place, town), (wrong,)), 3)
    assert alone.lost_relations == ()


def share_words(one: Entity, other: Entity) -> bool:
    return not set(range(*one.span)).isdisjoint(range(*other.span))


@given(sentence=any_annotations())
def test_gained_relations_are_new_and_have_an_entity_that_shares_words(sentence: tuple[Annotation, int]) -> None:
    annotation, n_words = sentence
    labels = TAGS.encode(annotation, n_words)
    whole = {one for one in annotation.entities if not one.fragments}
    assert len(set(labels.gained)) == len(labels.gained)
    assert set(labels.gained).isdisjoint(map(canonical, annotation.relations))
    for relation in labels.gained:
        assert canonical(relation) == relation
        assert {relation.head, relation.tail} <= whole
        assert any(share_words(one, other) for one in (relation.head, relation.tail) for other in whole if one != other)


def expect_names(annotation: Annotation, row: int, column: int) -> set[str]:
    """Ask of each entity and relation whether it has a tag in a cell."""
    whole = {one for one in annotation.entities if not one.fragments}
    names = {one.label for one in whole if {row, column} == {one.span.start, one.span.end - 1}}
    for relation in map(canonical, annotation.relations):
        head, tail = relation.head, relation.tail
        if not {head, tail} <= whole or head == tail:
            continue
        there, back = ("↔", "↔") if relation.label == "Near" else ("→", "←")
        for (i, j), arrow in (((row, column), there), ((column, row), back)):
            if i in range(*head.span) and j in range(*tail.span):
                names.add(arrow + relation.label)
            names |= {"first"} if (i, j) == (head.span.start, tail.span.start) else set()
            names |= {"last"} if (i, j) == (head.span.end - 1, tail.span.end - 1) else set()
    return names


@given(sentence=any_annotations())
def test_tags_of_every_cell_are_those_of_the_definition(sentence: tuple[Annotation, int]) -> None:
    annotation, n_words = sentence
    found = name_cells(TAGS.encode(annotation, n_words))
    for row, column in product(range(n_words), repeat=2):
        assert found.get((row, column), set()) == expect_names(annotation, row, column)
    assert all(0 <= place < n_words for cell in found for place in cell)


@given(sentence=any_annotations())
def test_only_broken_entities_self_relations_and_dangling_relations_are_lost(sentence: tuple[Annotation, int]) -> None:
    annotation, n_words = sentence
    labels = TAGS.encode(annotation, n_words)
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


@given(sentence=separate_annotations())
def test_entities_that_share_no_words_gain_nothing(sentence: tuple[Annotation, int]) -> None:
    annotation, n_words = sentence
    labels = TAGS.encode(annotation, n_words)
    assert labels.gained == ()
    found = decode(labels, n_words)
    whole = {one for one in annotation.entities if not one.fragments}
    assert set(found.entities) == whole
    kept = {canonical(one) for one in annotation.relations if {one.head, one.tail} <= whole and one.head != one.tail}
    assert set(found.relations) == kept


@given(sentence=any_annotations())
def test_table_is_its_own_mirror(sentence: tuple[Annotation, int]) -> None:
    labels = TAGS.encode(*sentence)
    turned = str.maketrans("→←", "←→")
    cells = name_cells(labels)
    for (row, column), names in cells.items():
        assert cells[column, row] == {name.translate(turned) for name in names}
    assert all(numbers == tuple(sorted(set(numbers))) != () for numbers in labels.cells.values())


def test_names_are_those_of_entity_types_then_of_relations_then_of_corners() -> None:
    assert TAGS.names == ("Loc", "Org", "→In", "←In", "↔Near", "→Owns", "←Owns", "first", "last")
    assert (TAGS.forward, TAGS.mirrored, TAGS.corners) == ((2, 4, 5), (3, 4, 6), (7, 8))
    assert SpanTags(Schema(("Loc",))).names == ("Loc", "first", "last")


NEW_YORK, UNIVERSITY, YORK = entity(0, 2), entity(2, 3, "Org"), entity(1, 2)
NEW_YORK_UNIVERSITY, PARIS = entity(0, 3, "Org"), entity(4, 5)
NESTED = (NEW_YORK_UNIVERSITY, NEW_YORK, UNIVERSITY, PARIS)
CELLS_OF_NESTED = {
    (0, 2): {"Org"},
    (2, 0): {"Org"},
    (0, 1): {"Loc"},
    (1, 0): {"Loc"},
    (2, 2): {"Org"},
    (4, 4): {"Loc"},
}


def test_cells_of_a_relation_are_all_cells_of_both_entities_and_two_have_corners() -> None:
    relations = (Relation(NEW_YORK_UNIVERSITY, PARIS, "In"), Relation(PARIS, NEW_YORK_UNIVERSITY, "Near"))
    labels = TAGS.encode(Annotation(NESTED, relations), 5)
    assert name_cells(labels) == CELLS_OF_NESTED | {
        (0, 4): {"→In", "↔Near", "first"},
        (1, 4): {"→In", "↔Near"},
        (2, 4): {"→In", "↔Near", "last"},
        (4, 0): {"←In", "↔Near", "first"},
        (4, 1): {"←In", "↔Near"},
        (4, 2): {"←In", "↔Near", "last"},
    }
    assert (labels.lost_entities, labels.lost_relations, labels.gained) == ((), (), ())


def test_cells_of_a_relation_from_the_later_entity_point_back() -> None:
    labels = TAGS.encode(Annotation(NESTED, (Relation(PARIS, NEW_YORK, "In"),)), 5)
    assert name_cells(labels) == CELLS_OF_NESTED | {
        (4, 0): {"→In", "first"},
        (4, 1): {"→In", "last"},
        (0, 4): {"←In", "first"},
        (1, 4): {"←In", "last"},
    }


def test_relation_of_an_entity_with_one_inside_it_has_both_directions_in_common_cells() -> None:
    labels = TAGS.encode(Annotation((NEW_YORK, YORK), (Relation(NEW_YORK, YORK, "In"),)), 2)
    assert name_cells(labels) == {
        (0, 1): {"Loc", "→In", "first"},
        (1, 0): {"Loc", "←In", "first"},
        (1, 1): {"Loc", "→In", "←In", "last"},
    }
    assert decode(labels, 2).relations == (Relation(NEW_YORK, YORK, "In"),)
    assert labels.gained == ()


@pytest.mark.parametrize("head", NESTED[:3])
def test_corners_tell_a_relation_from_those_of_entities_inside_and_around(head: Entity) -> None:
    """The cells alone would give the relation of New York University to all others, and that of New York to it."""
    annotation = Annotation(NESTED, (Relation(head, PARIS, "In"),))
    labels = TAGS.encode(annotation, 5)
    assert labels.gained == ()
    found = decode(labels, 5)
    assert found.relations == annotation.relations
    assert set(found.entities) == set(NESTED)


def test_corners_of_two_relations_make_a_third_between_them() -> None:
    """New York begins with the word of one relation and ends with the word of the other."""
    new, york = entity(0, 1), entity(1, 2)
    annotation = Annotation((new, york, NEW_YORK, PARIS), (Relation(new, PARIS, "In"), Relation(york, PARIS, "In")))
    labels = TAGS.encode(annotation, 5)
    assert labels.gained == (Relation(NEW_YORK, PARIS, "In"),)
    assert set(decode(labels, 5).relations) == {*annotation.relations, *labels.gained}


def test_more_than_half_of_the_cells_are_enough_to_gain_a_relation() -> None:
    """The corners are of two relations; the cells between them are tagged for one word of the two, or of the three."""
    first, last, whole = entity(0, 1), entity(2, 3), entity(0, 3)
    around = Annotation((first, last, whole, PARIS), (Relation(first, PARIS, "In"), Relation(last, PARIS, "In")))
    labels = TAGS.encode(around, 5)
    assert labels.gained == (Relation(whole, PARIS, "In"),), "two of three cells"
    assert set(decode(labels, 5).relations) == {*around.relations, *labels.gained}
    last, whole = entity(3, 4), entity(0, 4)
    around = Annotation((first, last, whole, PARIS), (Relation(first, PARIS, "In"), Relation(last, PARIS, "In")))
    labels = TAGS.encode(around, 5)
    assert labels.gained == (), "two of four cells"
    assert set(decode(labels, 5).relations) == set(around.relations)


def test_relation_of_half_of_its_cells_is_far_from_the_threshold() -> None:
    """PARIS is near University City, and the university has its last word: one of two cells, with the corners of In."""
    university, city = entity(0, 2, "Org"), entity(1, 3)
    annotation = Annotation(
        (university, city, PARIS), (Relation(university, PARIS, "In"), Relation(city, PARIS, "Near"))
    )
    labels = TAGS.encode(annotation, 5)
    table = np.where(write_table(labels, 5) > 0, 0.99, 0.02)  # a well trained model
    (found,) = decode_spans(table, [5], TAGS, SpanChoices())
    assert set(found.relations) == {*annotation.relations, *labels.gained}


def test_corners_are_those_of_any_relation_type_but_need_its_tag() -> None:
    """The inner entity has cells and corners of the outer one's relation; the outer one lacks the tag in a corner."""
    annotation = Annotation(
        (NEW_YORK_UNIVERSITY, NEW_YORK, PARIS),
        (Relation(NEW_YORK_UNIVERSITY, PARIS, "In"), Relation(NEW_YORK, PARIS, "Owns")),
    )
    labels = TAGS.encode(annotation, 5)
    assert labels.gained == (Relation(NEW_YORK, PARIS, "In"),)
    assert set(decode(labels, 5).relations) == {*annotation.relations, *labels.gained}


def test_entities_of_the_same_words_share_their_relations() -> None:
    place, firm = entity(0, 2), entity(0, 2, "Org")
    given_relations = (Relation(firm, PARIS, "Owns"), Relation(firm, place, "In"))
    labels = TAGS.encode(Annotation((place, firm, PARIS), given_relations), 5)
    assert set(labels.gained) == {Relation(place, PARIS, "Owns"), Relation(place, firm, "In")}
    assert labels.lost_relations == ()


def test_relations_to_two_overlapping_entities_make_one_to_their_common_word() -> None:
    """The first words are those of one relation, the last words those of the other; the head shares no words."""
    left, right, common = entity(3, 5), entity(4, 6), entity(4, 5)
    annotation = Annotation(
        (NEW_YORK, left, right, common), (Relation(NEW_YORK, left, "In"), Relation(NEW_YORK, right, "In"))
    )
    assert TAGS.encode(annotation, 6).gained == (Relation(NEW_YORK, common, "In"),)


def test_symmetric_relation_given_in_both_orders_is_one_relation() -> None:
    both = (Relation(PARIS, NEW_YORK, "Near"), Relation(NEW_YORK, PARIS, "Near"))
    twice, once = (TAGS.encode(Annotation((PARIS, NEW_YORK), one), 5) for one in (both, both[:1]))
    assert twice == once
    assert decode(twice, 5).relations == (Relation(NEW_YORK, PARIS, "Near"),)


def test_both_directions_and_several_types_of_a_pair_are_kept() -> None:
    relations = (
        Relation(NEW_YORK, PARIS, "In"),
        Relation(NEW_YORK, PARIS, "Near"),
        Relation(NEW_YORK, PARIS, "Owns"),
        Relation(PARIS, NEW_YORK, "In"),
    )
    labels = TAGS.encode(Annotation((NEW_YORK, PARIS), relations), 5)
    assert set(decode(labels, 5).relations) == set(relations)
    assert (labels.gained, labels.lost_relations) == ((), ())


def test_types_that_the_schema_lacks_are_errors() -> None:
    time = entity(0, 1, "Time")
    broken = entity(0, 3, "Time", (0, 1), (2, 3))
    for annotation in (Annotation((time,)), Annotation((broken,))):
        with pytest.raises(SchemaError, match="entity type 'Time' is not in the schema; it has Loc, Org"):
            TAGS.encode(annotation, 5)
    with pytest.raises(SchemaError, match="relation type 'At' is not in the schema; it has In, Near, Owns"):
        TAGS.encode(Annotation((NEW_YORK, PARIS), (Relation(NEW_YORK, PARIS, "At"),)), 5)


def test_entity_beyond_the_sentence_is_an_error() -> None:
    TAGS.encode(Annotation((PARIS,)), 5)
    for beyond in (PARIS, entity(2, 5, "Org", (2, 3), (4, 5))):
        with pytest.raises(ValueError, match=r", 5\) does not fit into a sentence of 4 words"):
            TAGS.encode(Annotation((beyond,)), 4)


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


@given(st.lists(st.sampled_from(SPANS), max_size=7), st.integers(0, 2**7 - 1))
def test_entities_that_share_words_are_those_of_any_two_spans(spans: list[Span], labels: int) -> None:
    entities = [Entity(span, SCHEMA.entity_types[labels >> number & 1]) for number, span in enumerate(spans)]
    pairs = [pair for pair in combinations(set(entities), 2) if share_words(*pair)]
    assert find_sharing(iter(entities)) == {one for pair in pairs for one in pair}


def test_entities_that_share_words_are_found_by_their_spans() -> None:
    """The words between the fragments of a discontinuous entity are shared, too."""
    broken, inside, beside = entity(0, 3, "Loc", (0, 1), (2, 3)), entity(1, 2), entity(3, 4)
    assert find_sharing([beside, inside, broken]) == {broken, inside}
    assert find_sharing([broken, entity(0, 3)]) == {broken, entity(0, 3)}
    assert find_sharing([inside, inside, beside]) == set()


def test_tagging_has_tag_sets_in_every_cell() -> None:
    tagging = Tagging.of(SCHEMA, TaggingConfig(kind="spans", fill="lower"))
    assert tagging.cells == TAGS
    assert tagging.has_tag_sets
    assert not Tagging.of(SCHEMA, TaggingConfig()).has_tag_sets
    assert tagging.fill_mask(3).all()
    broken = entity(2, 5, "Org", (2, 3), (4, 5))
    annotation = Annotation((*NESTED, broken), (Relation(UNIVERSITY, PARIS, "In"), Relation(broken, PARIS, "In")))
    tagged, labels = tagging.encode(annotation, 5), TAGS.encode(annotation, 5)
    assert tagged.cell_tags == labels.cells
    assert tagged.lost_entities == (LostEntity(broken, DISCONTINUOUS),)
    assert tagged.lost_relations == (LostRelation(annotation.relations[1], MISSING),)
    assert tagged.gained_relations == labels.gained
    assert tagging.find_expressible(annotation, 5) == Annotation(NESTED, annotation.relations[:1])
