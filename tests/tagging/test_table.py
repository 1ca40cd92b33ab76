from dataclasses import replace
from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatum.errors import ConfigError, SchemaError
from relatum.schema import RelationType, Schema
from relatum.tagging.table import (
    BACKWARDS,
    ITSELF,
    MISSING,
    OPPOSITE_PAIR,
    OVERLAPPED,
    SAME_PAIR,
    SHARED_WORDS,
    Cell,
    Cells,
    Conflicts,
    Fill,
    LostRelation,
    TableLabels,
    TableTags,
)
from relatum.types import Annotation, Entity, Relation, Span

SCHEMA = Schema(("X",), (RelationType("r"), RelationType("q"), RelationType("s", symmetric=True)))
FORMULATIONS = [
    TableTags(SCHEMA, fill, cells, directed, "first")
    for fill, cells, directed in product(get_args(Fill), get_args(Cells), (True, False))
]
formulations = st.sampled_from(FORMULATIONS)


def entity(start: int, end: int) -> Entity:
    return Entity(Span(start, end), "X")


A, B, C = entity(0, 2), entity(3, 5), entity(5, 6)


def annotation(*relations: tuple[Entity, Entity, str]) -> Annotation:
    return Annotation((A, B, C), tuple(Relation(*relation) for relation in relations))


def drawn(tags: TableTags, labels: TableLabels, n_words: int = 5) -> str:
    rows = (" ".join(tags.names[labels.cells.get((i, j), 0)] for j in range(n_words)) for i in range(n_words))
    return "\n".join(rows).replace("⊥", ".")


def read(tags: TableTags, drawing: str) -> dict[Cell, int]:
    rows = [line.replace(".", "⊥").split() for line in drawing.split("\n") if line.strip()]
    return {(i, j): tags.names.index(name) for i, row in enumerate(rows) for j, name in enumerate(row)}


def lines(drawing: str) -> list[list[str]]:
    return [line.split() for line in drawing.split("\n") if line.strip()]


def name(tags: TableTags) -> str:
    return f"{tags.fill}-{tags.cells}-{'directed' if tags.directed else 'undirected'}"


def test_names_have_two_tags_for_a_directed_type_and_one_for_a_symmetric() -> None:
    assert TableTags(SCHEMA).names == ("⊥", "→r", "←r", "→q", "←q", "↔s")
    assert TableTags(SCHEMA, directed=False).names == ("⊥", "r", "q", "↔s")


# The relation r from A, the words 0 and 1, to B, the words 3 and 4.
FORWARD = {
    "entire-entity-directed": """
        .  .  . →r →r
        .  .  . →r →r
        .  .  .  .  .
       ←r ←r  .  .  .
       ←r ←r  .  .  .
    """,
    "entire-entity-undirected": """
        .  .  .  r  r
        .  .  .  r  r
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
    """,
    "entire-last-directed": """
        .  .  .  .  .
        .  .  .  . →r
        .  .  .  .  .
        .  .  .  .  .
        . ←r  .  .  .
    """,
    "entire-last-undirected": """
        .  .  .  .  .
        .  .  .  .  r
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
    """,
    "lower-entity-directed": """
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
       ←r ←r  .  .  .
       ←r ←r  .  .  .
    """,
    "lower-entity-undirected": """
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
        r  r  .  .  .
        r  r  .  .  .
    """,
    "lower-last-directed": """
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
        . ←r  .  .  .
    """,
    "lower-last-undirected": """
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
        .  r  .  .  .
    """,
    "upper-entity-directed": """
        .  .  . →r →r
        .  .  . →r →r
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
    """,
    "upper-entity-undirected": """
        .  .  .  r  r
        .  .  .  r  r
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
    """,
    "upper-last-directed": """
        .  .  .  .  .
        .  .  .  . →r
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
    """,
    "upper-last-undirected": """
        .  .  .  .  .
        .  .  .  .  r
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
    """,
}

# The relation r from B to A; undirected tags in half a table cannot say it.
BACKWARD = {
    "entire-entity-directed": """
        .  .  . ←r ←r
        .  .  . ←r ←r
        .  .  .  .  .
       →r →r  .  .  .
       →r →r  .  .  .
    """,
    "entire-entity-undirected": """
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
        r  r  .  .  .
        r  r  .  .  .
    """,
    "entire-last-directed": """
        .  .  .  .  .
        .  .  .  . ←r
        .  .  .  .  .
        .  .  .  .  .
        . →r  .  .  .
    """,
    "entire-last-undirected": """
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
        .  r  .  .  .
    """,
    "lower-entity-directed": """
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
       →r →r  .  .  .
       →r →r  .  .  .
    """,
    "lower-last-directed": """
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
        . →r  .  .  .
    """,
    "upper-entity-directed": """
        .  .  . ←r ←r
        .  .  . ←r ←r
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
    """,
    "upper-last-directed": """
        .  .  .  .  .
        .  .  .  . ←r
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
    """,
}

# The symmetric relation s between A and B, whichever of them is called its head.
SYMMETRIC = {
    "entire-entity-directed": """
        .  .  . ↔s ↔s
        .  .  . ↔s ↔s
        .  .  .  .  .
       ↔s ↔s  .  .  .
       ↔s ↔s  .  .  .
    """,
    "entire-last-undirected": """
        .  .  .  .  .
        .  .  .  . ↔s
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
    """,
    "lower-last-directed": """
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
        . ↔s  .  .  .
    """,
    "lower-last-undirected": """
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
        .  .  .  .  .
        . ↔s  .  .  .
    """,
}


@pytest.mark.parametrize("tags", FORMULATIONS, ids=name)
def test_a_forward_relation_goes_through_the_drawn_table(tags: TableTags) -> None:
    labels = tags.encode(annotation((A, B, "r")), 6)
    assert lines(drawn(tags, labels)) == lines(FORWARD[name(tags)])
    assert labels.lost == ()
    assert tags.decode(read(tags, FORWARD[name(tags)]), (A, B)) == (Relation(A, B, "r"),)


@pytest.mark.parametrize("tags", FORMULATIONS, ids=name)
def test_a_backward_relation_goes_through_the_drawn_table_or_is_lost(tags: TableTags) -> None:
    labels = tags.encode(annotation((B, A, "r")), 6)
    if name(tags) in BACKWARD:
        assert lines(drawn(tags, labels)) == lines(BACKWARD[name(tags)])
        assert labels.lost == ()
        assert tags.decode(read(tags, BACKWARD[name(tags)]), (A, B)) == (Relation(B, A, "r"),)
    else:
        assert (tags.directed, tags.fill != "entire") == (False, True)
        assert labels == TableLabels({}, (LostRelation(Relation(B, A, "r"), BACKWARDS),))


@pytest.mark.parametrize("order", [(A, B), (B, A)], ids=["forward", "backward"])
@pytest.mark.parametrize("tags", [one for one in FORMULATIONS if name(one) in SYMMETRIC], ids=name)
def test_a_symmetric_relation_goes_through_the_drawn_table(tags: TableTags, order: tuple[Entity, Entity]) -> None:
    labels = tags.encode(annotation((*order, "s")), 6)
    assert lines(drawn(tags, labels)) == lines(SYMMETRIC[name(tags)])
    assert labels.lost == ()
    assert tags.decode(read(tags, SYMMETRIC[name(tags)]), (B, A)) == (Relation(A, B, "s"),)


@pytest.mark.parametrize(("conflicts", "kept", "lost"), [("first", "r", "q"), ("last", "q", "r")])
def test_encode_keeps_the_chosen_one_of_two_relations_on_one_pair(conflicts: Conflicts, kept: str, lost: str) -> None:
    tags = TableTags(SCHEMA, conflicts=conflicts)
    alone = tags.encode(annotation((A, B, kept)), 6)
    both = tags.encode(annotation((A, B, "r"), (A, B, "q")), 6)
    assert both == TableLabels(alone.cells, (LostRelation(Relation(A, B, lost), SAME_PAIR),))


def test_encode_keeps_the_last_relation_as_the_authors_do() -> None:
    tags = TableTags(SCHEMA)
    labels = tags.encode(annotation((A, B, "r"), (A, C, "r"), (B, A, "q"), (A, C, "q")), 6)
    assert tags.decode(labels.cells, (A, B, C)) == (Relation(A, C, "q"), Relation(B, A, "q"))
    assert [one.relation for one in labels.lost] == [Relation(A, B, "r"), Relation(A, C, "r")]


@pytest.mark.parametrize("label", ["r", "q"])
def test_encode_reports_the_opposite_relation_where_its_cells_are_taken(label: str) -> None:
    for tags in FORMULATIONS:
        labels = tags.encode(annotation((A, B, "r"), (B, A, label)), 6)
        if tags.directed:
            assert labels.lost == (LostRelation(Relation(B, A, label), OPPOSITE_PAIR),)
        elif tags.fill == "entire":
            assert labels.lost == ()
            assert tags.decode(labels.cells, (A, B)) == (Relation(A, B, "r"), Relation(B, A, label))
        else:
            assert labels.lost == (LostRelation(Relation(B, A, label), BACKWARDS),)


def test_encode_calls_a_symmetric_relation_by_its_canonical_pair() -> None:
    for tags in FORMULATIONS:
        backward = tags.encode(annotation((A, B, "r"), (B, A, "s")), 6)
        assert backward.lost == (LostRelation(Relation(B, A, "s"), SAME_PAIR),)


def test_encode_counts_a_repeated_relation_once() -> None:
    for tags in FORMULATIONS:
        once = tags.encode(annotation((A, B, "r"), (A, C, "s")), 6)
        assert tags.encode(annotation((A, B, "r"), (A, C, "s"), (A, B, "r"), (C, A, "s")), 6) == once


def test_encode_reports_what_no_table_can_hold() -> None:
    stranger = entity(2, 3)
    for tags in FORMULATIONS:
        labels = tags.encode(annotation((A, A, "r"), (A, A, "s"), (A, stranger, "r")), 6)
        assert labels.cells == {}
        assert [one.reason for one in labels.lost] == [ITSELF, ITSELF, MISSING]


def test_encode_refuses_an_entity_beyond_the_sentence() -> None:
    with pytest.raises(ValueError, match=r"X \[5, 6\) does not fit into a sentence of 5 words"):
        TableTags(SCHEMA).encode(annotation(), 5)


def test_encode_refuses_an_unknown_type() -> None:
    with pytest.raises(SchemaError, match="'t' is not in the schema"):
        TableTags(SCHEMA).encode(annotation((A, B, "t")), 6)


def test_tags_refuse_an_unknown_formulation() -> None:
    with pytest.raises(ConfigError, match=r"tagging\.fill is 'whole'; choose from entire, lower, upper"):
        TableTags(SCHEMA, fill="whole")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"tagging\.cells is 'first'; choose from entity, last"):
        TableTags(SCHEMA, cells="first")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"tagging\.conflicts is 'both'; choose from last, first"):
        TableTags(SCHEMA, conflicts="both")  # type: ignore[arg-type]


def test_encode_reports_arguments_that_share_words() -> None:
    outer, inner = entity(0, 3), entity(1, 2)
    given = Annotation((outer, inner), (Relation(outer, inner, "r"),))
    assert TableTags(SCHEMA).encode(given, 3) == TableLabels({}, (LostRelation(given.relations[0], SHARED_WORDS),))
    # Their last words differ, and only these stand for them here.
    last = TableTags(SCHEMA, cells="last")
    assert last.encode(given, 3) == TableLabels({(2, 1): 1, (1, 2): 2})


def test_encode_reports_cells_taken_by_an_overlapping_entity() -> None:
    outer, inner, tail = entity(0, 2), entity(1, 2), entity(3, 4)
    given = Annotation((outer, inner, tail), (Relation(outer, tail, "r"), Relation(inner, tail, "q")))
    labels = TableTags(SCHEMA, fill="upper", conflicts="first").encode(given, 4)
    assert labels.cells == {(0, 3): 1, (1, 3): 1}
    assert labels.lost == (LostRelation(Relation(inner, tail, "q"), OVERLAPPED),)
    assert labels.gained == (Relation(inner, tail, "r"),)


def test_encode_does_not_call_lost_what_overlapping_entities_have_written() -> None:
    left, right, both, tail = entity(0, 1), entity(1, 3), entity(0, 3), entity(4, 5)
    relations = (Relation(left, tail, "q"), Relation(right, tail, "r"), Relation(both, tail, "r"))
    labels = TableTags(SCHEMA, "upper", conflicts="first").encode(Annotation((left, right, both, tail), relations), 5)
    assert labels == TableLabels({(0, 4): 3, (1, 4): 1, (2, 4): 1})  # for `both`, r has two cells of three


def test_encode_finds_the_words_of_a_discontinuous_entity() -> None:
    split = Entity(Span(0, 3), "X", (Span(0, 1), Span(2, 3)))
    middle = entity(1, 2)
    for tags in FORMULATIONS:
        given = Annotation((split, middle), (Relation(split, middle, "s"),))
        labels = tags.encode(given, 3)
        assert labels == TableLabels(labels.cells)
        assert tags.decode(labels.cells, given.entities) == given.relations


def test_encode_reports_a_direction_that_only_some_of_its_cells_could_say() -> None:
    split = Entity(Span(0, 3), "X", (Span(0, 1), Span(2, 3)))
    relation = Relation(split, entity(1, 2), "r")  # its head has words on both sides of its tail
    labels = TableTags(SCHEMA, "upper", directed=False).encode(Annotation((split, entity(1, 2)), (relation,)), 3)
    assert labels == TableLabels({}, (LostRelation(relation, BACKWARDS),))


def test_decode_asks_the_cells_of_both_blocks() -> None:
    tags = TableTags(SCHEMA)
    a, b = entity(0, 1), entity(1, 3)
    three_of_four = """
         . →r →r
        ←r  .  .
         .  .  .
    """
    two_of_four = """
         . →r  .
        ←r  .  .
         .  .  .
    """
    assert tags.decode(read(tags, three_of_four), (a, b)) == (Relation(a, b, "r"),)
    assert tags.decode(read(tags, two_of_four), (a, b)) == ()  # a tie goes to no relation


def test_decode_gives_a_tie_between_types_to_the_first() -> None:
    tags = TableTags(SCHEMA)
    a, b = entity(0, 1), entity(1, 2)
    for drawing in (". →q \n ←r .", ". →r \n ←q ."):
        assert tags.decode(read(tags, drawing), (a, b)) == (Relation(a, b, "r"),)


def test_decode_counts_the_opposite_direction_as_no_relation() -> None:
    tags = TableTags(SCHEMA)
    a, b = entity(0, 1), entity(1, 3)
    drawing = """
         . →r →r
        ←r  .  .
        →q  .  .
    """
    # For (b, a) one cell says q and three say the opposite: by the text of section 5 alone, q would win with 1 to 0.
    assert tags.decode(read(tags, drawing), (a, b)) == (Relation(a, b, "r"),)


def test_decode_asks_only_the_half_that_is_filled() -> None:
    a, b = entity(0, 1), entity(1, 2)
    drawing = ". →r \n →q ."
    assert TableTags(SCHEMA, "upper").decode(read(TableTags(SCHEMA), drawing), (a, b)) == (Relation(a, b, "r"),)
    assert TableTags(SCHEMA, "lower").decode(read(TableTags(SCHEMA), drawing), (a, b)) == (Relation(b, a, "q"),)


def test_decode_reads_a_symmetric_tag_for_the_canonical_pair_alone() -> None:
    tags = TableTags(SCHEMA, directed=False)
    a, b = entity(0, 1), entity(1, 2)
    assert tags.decode(read(tags, ". ↔s \n q ."), (a, b)) == (Relation(a, b, "s"), Relation(b, a, "q"))
    assert tags.decode(read(tags, ". q \n ↔s ."), (a, b)) == (Relation(a, b, "q"),)


def test_decode_follows_the_order_of_the_entities_and_passes_over_repeated_ones() -> None:
    tags = TableTags(SCHEMA)
    cells = tags.encode(annotation((A, B, "r"), (C, A, "q")), 6).cells
    assert tags.decode(cells, (C, B, A, C)) == (Relation(C, A, "q"), Relation(A, B, "r"))


@pytest.mark.parametrize("tag", [-1, 6])
def test_decode_refuses_a_tag_that_is_none(tag: int) -> None:
    with pytest.raises(ValueError, match=rf"cell \(0, 1\) has the tag {tag}; the tags are 0 to 5"):
        TableTags(SCHEMA).decode({(0, 1): tag}, (A, B))


def test_deciding_cells_share_out_all_mass() -> None:
    """For probabilities: each tag has one outcome, and those that do not vote for the pair vote for no relation."""
    forward, mirrored = TableTags(SCHEMA).deciding_cells(entity(0, 1), entity(1, 3))
    assert forward.cells == ((0, 1), (0, 2))
    assert mirrored.cells == ((1, 0), (2, 0))
    #                            ⊥ →r ←r →q ←q ↔s
    assert forward.tag_votes == (0, 1, 0, 2, 0, 3)
    assert mirrored.tag_votes == (0, 0, 1, 0, 2, 3)
    backward, _ = TableTags(SCHEMA).deciding_cells(entity(1, 3), entity(0, 1))
    assert backward.tag_votes == (0, 1, 0, 2, 0, 0)


@st.composite
def annotations(draw: st.DrawFn) -> tuple[Annotation, int]:
    """Entities that do not overlap, in any order, and relations with every kind of conflict."""
    widths = draw(st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=5))
    entities, at = [], 0
    for width, is_entity in widths:
        if is_entity:
            entities.append(entity(at, at + width))
        at += width
    entities = draw(st.permutations(entities))
    return Annotation(tuple(entities), draw_relations(draw, entities)), at


@st.composite
def overlapping_annotations(draw: st.DrawFn) -> tuple[Annotation, int]:
    n_words = 6
    pairs = st.tuples(st.integers(0, n_words), st.integers(0, n_words)).filter(lambda pair: pair[0] < pair[1])
    entities = [entity(*pair) for pair in draw(st.lists(pairs, max_size=5, unique=True))]
    return Annotation(tuple(entities), draw_relations(draw, entities)), n_words


def draw_relations(draw: st.DrawFn, entities: list[Entity]) -> tuple[Relation, ...]:
    if not entities:
        return ()
    some = st.sampled_from(entities)
    return tuple(draw(st.lists(st.builds(Relation, some, some, st.sampled_from("rqs")), max_size=8)))


def expected_loss(tags: TableTags, relations: tuple[Relation, ...]) -> list[Relation]:
    """By the meaning of the formulations, without a table: which relations find no room."""
    lost = []
    room: dict[tuple[Entity, ...], Relation] = {}
    for relation in relations:
        value = relation
        if relation.label == "s" and relation.tail.span < relation.head.span:
            value = replace(relation, head=relation.tail, tail=relation.head)
        pair: tuple[Entity, ...] = value.head, value.tail
        backwards = value.tail.span < value.head.span
        if tags.directed or tags.fill != "entire":  # one decision for the two directions
            pair = tuple(sorted(pair, key=lambda one: one.span))
        expressible = value.head != value.tail and (tags.directed or tags.fill == "entire" or not backwards)
        if not expressible or room.setdefault(pair, value) != value:
            lost.append(relation)
    return lost


@given(formulations, annotations())
def test_decode_gives_back_all_but_what_was_reported_lost(tags: TableTags, example: tuple[Annotation, int]) -> None:
    gold, n_words = example
    labels = tags.encode(gold, n_words)
    lost = [one.relation for one in labels.lost]
    assert lost == expected_loss(tags, gold.relations)
    found = tags.decode(labels.cells, gold.entities)
    assert len(found) == len(set(found))
    assert set(found) == set(map(tags.canonical, gold.relations)) - set(map(tags.canonical, lost))
    assert labels.gained == ()


@given(formulations, overlapping_annotations())
def test_decode_differs_only_as_reported_where_entities_overlap(
    tags: TableTags, example: tuple[Annotation, int]
) -> None:
    gold, n_words = example
    labels = tags.encode(gold, n_words)
    given = set(map(tags.canonical, gold.relations))
    lost = {tags.canonical(one.relation) for one in labels.lost}
    assert set(tags.decode(labels.cells, gold.entities)) == (given - lost) | set(labels.gained)
    assert given.isdisjoint(labels.gained)
    assert lost <= given


@given(formulations, overlapping_annotations())
def test_encode_writes_only_into_what_is_filled(tags: TableTags, example: tuple[Annotation, int]) -> None:
    gold, n_words = example
    for (row, column), tag in tags.encode(gold, n_words).cells.items():
        assert 0 < tag < len(tags.names)
        assert 0 <= row < n_words
        assert 0 <= column < n_words
        assert row != column
        assert tags.fill != "lower" or row > column
        assert tags.fill != "upper" or row < column


@given(formulations, overlapping_annotations(), st.data())
def test_decode_makes_sense_of_any_table(tags: TableTags, example: tuple[Annotation, int], data: st.DataObject) -> None:
    gold, n_words = example
    places = st.tuples(st.integers(0, n_words - 1), st.integers(0, n_words - 1))
    cells = data.draw(st.dictionaries(places, st.integers(0, len(tags.names) - 1), max_size=30))
    found = tags.decode(cells, gold.entities)
    pairs = [(one.head, one.tail) for one in found]
    assert len(pairs) == len(set(pairs))
    assert all(one.head != one.tail and tags.canonical(one) == one for one in found)
    if tags.directed or tags.fill != "entire":
        assert all((tail, head) not in pairs for head, tail in pairs)
