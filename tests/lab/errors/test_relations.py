from __future__ import annotations

import pytest

from relatum.lab.errors.relations import match_relations
from relatum.schema import RelationType, Schema
from relatum.types import Annotation, Entity, Relation, Span

ANNA, ROME, ACME = Entity(Span(0, 4), "Peop"), Entity(Span(10, 20), "Loc"), Entity(Span(30, 34), "Org")
SHORT_ROME, ROME_AS_ORG, ELSEWHERE = (
    Entity(Span(10, 15), "Loc"),
    Entity(Span(10, 20), "Org"),
    Entity(Span(50, 54), "Loc"),
)
LIVES = Relation(ANNA, ROME, "Live_In")
SCHEMA = Schema(("Peop", "Loc", "Org"), (RelationType("Near", symmetric=True), RelationType("Live_In")))


def annotation(*entities: Entity, relations: tuple[Relation, ...] = ()) -> Annotation:
    return Annotation(entities, relations)


def kinds(
    gold: Annotation, found: Annotation, schema: Schema | None = None
) -> list[tuple[str, Relation | None, Relation | None]]:
    return [(match.kind, match.gold, match.found) for match in match_relations(gold, found, schema)]


GOLD = annotation(ANNA, ROME, ACME, relations=(LIVES,))


def found_relation(relation: Relation, *others: Entity) -> Annotation:
    return annotation(relation.head, relation.tail, *others, relations=(relation,))


@pytest.mark.parametrize(
    ("relation", "kind"),
    [
        (LIVES, "right"),
        (Relation(ANNA, ROME_AS_ORG, "Live_In"), "argument_type"),
        (Relation(ROME, ANNA, "Live_In"), "direction"),
        (Relation(ANNA, ROME, "Born_In"), "label"),
        (Relation(ROME, ANNA, "Born_In"), "label"),
        (Relation(ANNA, SHORT_ROME, "Live_In"), "argument_boundary"),
    ],
)
def test_found_relation_that_stands_for_a_gold_one_is_one_error_with_it(relation: Relation, kind: str) -> None:
    assert kinds(GOLD, found_relation(relation)) == [(kind, LIVES, relation)]


def test_relations_of_one_pair_are_matched_by_their_labels_first() -> None:
    born, died = Relation(ANNA, ROME, "Born_In"), Relation(ANNA, ROME, "Died_In")
    both = annotation(ANNA, ROME, relations=(LIVES, born))
    one = annotation(ANNA, ROME, relations=(born,))
    other = annotation(ANNA, ROME, relations=(born, died))
    assert kinds(both, one) == [("right", born, born), ("missed", LIVES, None)]
    assert kinds(one, both) == [("right", born, born), ("spurious", None, LIVES)]
    assert kinds(both, other) == [("right", born, born), ("label", LIVES, died)]


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        ((ANNA, ROME), "missed"),
        ((ANNA, ROME_AS_ORG), "argument_type"),
        ((ANNA, SHORT_ROME), "argument_boundary"),
        ((ANNA,), "argument_missed"),
        # The worse argument gives the name.
        ((SHORT_ROME,), "argument_missed"),
    ],
)
def test_gold_relation_that_was_not_found_is_named_after_its_arguments(found: tuple[Entity, ...], kind: str) -> None:
    assert kinds(GOLD, annotation(*found)) == [(kind, LIVES, None)]


@pytest.mark.parametrize(
    ("relation", "kind"),
    [
        (Relation(ANNA, ACME, "Work_For"), "spurious"),
        (Relation(ROME_AS_ORG, ACME, "Work_For"), "argument_type"),
        (Relation(ACME, SHORT_ROME, "Live_In"), "argument_boundary"),
        (Relation(ANNA, ELSEWHERE, "Live_In"), "argument_spurious"),
        (Relation(SHORT_ROME, ELSEWHERE, "Near"), "argument_spurious"),
    ],
)
def test_found_relation_that_is_none_is_named_after_its_arguments(relation: Relation, kind: str) -> None:
    gold = annotation(ANNA, ROME, ACME)
    assert kinds(gold, found_relation(relation)) == [(kind, None, relation)]


def test_wrong_boundaries_and_a_wrong_label_are_two_errors() -> None:
    relation = Relation(ANNA, SHORT_ROME, "Born_In")
    assert kinds(GOLD, found_relation(relation)) == [
        ("argument_boundary", None, relation),
        ("argument_boundary", LIVES, None),
    ]


def test_the_right_label_is_matched_before_another() -> None:
    born = Relation(ANNA, ROME, "Born_In")
    assert kinds(GOLD, annotation(ANNA, ROME, relations=(born, LIVES))) == [
        ("spurious", None, born),
        ("right", LIVES, LIVES),
    ]


def test_symmetric_relations_have_no_direction() -> None:
    near, turned = Relation(ROME, ACME, "Near"), Relation(ACME, ROME, "Near")
    gold, found = annotation(ROME, ACME, relations=(near,)), annotation(ROME, ACME, relations=(turned,))
    assert kinds(gold, found) == [("direction", near, turned)]
    assert kinds(gold, found, SCHEMA) == [("right", near, near)]
    assert [kind for kind, _, _ in kinds(gold, annotation(ROME, ACME, relations=(near, turned)), SCHEMA)] == ["right"]


def test_symmetric_relations_with_shifted_arguments_are_matched_in_either_order() -> None:
    # The found mention of Rome stands behind Acme, so that the two relations are ordered in opposite ways.
    long_rome = Entity(Span(5, 40), "Loc")
    acme = Entity(Span(6, 10), "Org")
    near, found = Relation(acme, ROME, "Near"), Relation(long_rome, acme, "Near")
    gold = annotation(acme, ROME, relations=(near,))
    assert kinds(gold, annotation(acme, long_rome, relations=(found,)), SCHEMA) == [("argument_boundary", near, found)]
    assert len(kinds(gold, annotation(acme, long_rome, relations=(found,)))) == 2


def test_ends_need_not_be_among_the_entities() -> None:
    assert kinds(annotation(relations=(LIVES,)), annotation(relations=(LIVES,))) == [("right", LIVES, LIVES)]
    shifted = Relation(ANNA, SHORT_ROME, "Live_In")
    assert kinds(annotation(relations=(LIVES,)), annotation(relations=(shifted,))) == [
        ("argument_boundary", LIVES, shifted)
    ]


def test_duplicates_count_once_and_order_does_not_matter() -> None:
    works = Relation(ANNA, ACME, "Work_For")
    gold = annotation(ANNA, ROME, ACME, relations=(LIVES, works, LIVES))
    found = annotation(ANNA, ROME, ACME, relations=(Relation(ACME, ANNA, "Work_For"),))
    turned = annotation(ACME, ROME, ANNA, relations=(works, LIVES))
    assert kinds(gold, found) == kinds(turned, found)
    assert len(kinds(gold, found)) == 2
