from __future__ import annotations

from relatum.lab.errors.entities import match_entities
from relatum.types import Entity, Span


def entity(start: int, end: int, label: str, *fragments: Span) -> Entity:
    return Entity(Span(start, end), label, fragments)


def kinds(gold: list[Entity], found: list[Entity]) -> list[tuple[str, Entity | None, Entity | None]]:
    return [(match.kind, match.gold, match.found) for match in match_entities(gold, found)]


def test_every_kind_is_told_from_the_others() -> None:
    gold = [
        entity(0, 4, "Peop"),
        entity(5, 9, "Loc"),
        entity(10, 20, "Org"),
        entity(30, 40, "Org"),
        entity(50, 54, "Loc"),
    ]
    found = [
        entity(0, 4, "Peop"),
        entity(5, 9, "Org"),
        entity(10, 15, "Org"),
        entity(35, 45, "Loc"),
        entity(60, 64, "Loc"),
    ]
    assert kinds(gold, found) == [
        ("right", gold[0], found[0]),
        ("type", gold[1], found[1]),
        ("boundary", gold[2], found[2]),
        ("boundary_and_type", gold[3], found[3]),
        ("missed", gold[4], None),
        ("spurious", None, found[4]),
    ]


def test_spans_that_touch_do_not_overlap() -> None:
    gold, found = entity(0, 4, "Loc"), entity(4, 8, "Loc")
    assert kinds([gold], [found]) == [("missed", gold, None), ("spurious", None, found)]


def test_one_found_entity_stands_for_one_gold_entity() -> None:
    gold = [entity(0, 4, "Loc"), entity(5, 12, "Loc")]
    found = entity(0, 12, "Loc")
    # 4 of 12 characters are shared with the first, 7 of 12 with the second.
    assert kinds(gold, [found]) == [("missed", gold[0], None), ("boundary", gold[1], found)]


def test_a_gold_entity_found_in_two_parts_is_found_once() -> None:
    gold, found = entity(0, 12, "Loc"), [entity(0, 4, "Loc"), entity(5, 12, "Loc")]
    assert kinds([gold], found) == [("spurious", None, found[0]), ("boundary", gold, found[1])]


def test_what_is_right_is_not_taken_by_what_overlaps() -> None:
    # The found entity shares more with the first gold one than nothing, but it is the second.
    gold = [entity(0, 10, "Loc"), entity(0, 9, "Loc")]
    assert kinds(gold, [gold[1]]) == [("right", gold[1], gold[1]), ("missed", gold[0], None)]


def test_the_same_span_is_nearer_than_the_same_type() -> None:
    gold, found = entity(0, 9, "Loc"), [entity(0, 9, "Org"), entity(0, 8, "Loc")]
    assert kinds([gold], found) == [("spurious", None, found[1]), ("type", gold, found[0])]


def test_the_same_type_decides_between_equal_overlaps() -> None:
    gold, found = entity(2, 6, "Loc"), [entity(0, 4, "Org"), entity(4, 8, "Loc")]
    assert kinds([gold], found) == [("spurious", None, found[0]), ("boundary", gold, found[1])]


def test_the_first_decides_where_nothing_else_does() -> None:
    gold, found = entity(2, 6, "Loc"), [entity(4, 8, "Loc"), entity(0, 4, "Loc")]
    assert kinds([gold], found) == [("boundary", gold, found[1]), ("spurious", None, found[0])]


def test_order_of_the_input_does_not_matter() -> None:
    gold = [entity(0, 4, "A"), entity(2, 6, "B"), entity(5, 9, "A"), entity(0, 4, "B")]
    found = [entity(1, 5, "A"), entity(0, 4, "C"), entity(5, 8, "B")]
    assert match_entities(gold, found) == match_entities(gold[::-1], found[::-1])


def test_duplicates_count_once() -> None:
    one = entity(0, 4, "Loc")
    assert kinds([one, one], [one, one, one]) == [("right", one, one)]


def test_fragments_are_boundaries_and_gaps_are_not_shared() -> None:
    gold = entity(0, 10, "AE", Span(0, 3), Span(8, 10))
    whole, gap = entity(0, 10, "AE"), entity(4, 7, "AE")
    assert kinds([gold], [whole]) == [("boundary", gold, whole)]
    assert {kind for kind, _, _ in kinds([gold], [gap])} == {"missed", "spurious"}
