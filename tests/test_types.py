from __future__ import annotations

import pickle
from dataclasses import fields
from math import e

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatum.types import (
    Annotation,
    Attribute,
    Calibration,
    Document,
    Entity,
    Example,
    Prediction,
    Relation,
    ScoreMap,
    Sentence,
    Span,
)

spans = st.builds(lambda start, width: Span(start, start + width), st.integers(0, 12), st.integers(1, 6))


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (-3, -1), (2, 2), (3, 2), (0, 0)])
def test_span_refuses_what_is_empty_backward_or_negative(start: int, end: int) -> None:
    with pytest.raises(ValueError, match=r"0 <= start < end, got \[" + f"{start}, {end}"):
        Span(start, end)


def test_span_is_half_open() -> None:
    assert Span(1, 3).of("abcd") == "bc"
    assert Span(1, 3).width == 2


def test_span_orders_by_start_then_end() -> None:
    assert sorted([Span(2, 3), Span(1, 9), Span(1, 2)]) == [Span(1, 2), Span(1, 9), Span(2, 3)]


@given(spans, spans)
def test_span_overlap_and_containment_are_those_of_sets(one: Span, other: Span) -> None:
    mine, theirs = set(range(one.start, one.end)), set(range(other.start, other.end))
    assert one.overlaps(other) == bool(mine & theirs) == other.overlaps(one)
    assert one.contains(other) == (mine >= theirs)


@given(spans, st.integers(0, 20))
def test_span_shift_moves_both_ends_and_back(span: Span, by: int) -> None:
    moved = span.shift(by)
    assert (moved.start, moved.end) == (span.start + by, span.end + by)
    assert moved.shift(-by) == span


def test_span_shift_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="0 <= start"):
        Span(1, 2).shift(-2)


def test_entity_equality_is_span_label_and_fragments_alone() -> None:
    entity = Entity(Span(0, 4), "Loc", score=0.5, id="T1")
    assert entity == Entity(Span(0, 4), "Loc", score=0.9, id="T2")
    assert hash(entity) == hash(Entity(Span(0, 4), "Loc"))
    assert entity != Entity(Span(0, 4), "Org")
    assert entity != Entity(Span(0, 3), "Loc")
    assert entity != Entity(Span(0, 4), "Loc", (Span(0, 1), Span(3, 4)))


def test_entity_pieces_are_its_fragments_or_its_span() -> None:
    assert Entity(Span(0, 4), "Loc").pieces() == (Span(0, 4),)
    fragments = (Span(0, 1), Span(3, 4))
    assert Entity(Span(0, 4), "Loc", fragments).pieces() == fragments


def test_relation_is_directed_and_held_by_value() -> None:
    a, b = Entity(Span(0, 1), "Peop"), Entity(Span(2, 3), "Loc")
    relation = Relation(a, b, "Live_In", score=0.1, id="R1")
    assert relation == Relation(Entity(Span(0, 1), "Peop", id="x"), b, "Live_In")
    assert len({relation, Relation(a, b, "Live_In", score=0.9)}) == 1
    assert relation != Relation(b, a, "Live_In")
    assert relation != Relation(a, b, "Work_For")
    assert relation != Relation(Entity(Span(0, 1), "Other"), b, "Live_In"), "a strict match includes the types"


def test_example_and_prediction_compare_without_their_id() -> None:
    sentence = Sentence(("a", "b"))
    assert Example(sentence, Annotation(), "one") == Example(sentence, Annotation(), "two")
    assert Prediction(sentence, Annotation(), "one") == Prediction(sentence, Annotation(), "two")
    assert len(sentence) == 2


def test_document_tells_apart_whatever_it_holds() -> None:
    entity = Entity(Span(0, 1), "X")
    plain = Document("d", "a b")
    others = [
        Document("e", "a b"),
        Document("d", "a c"),
        Document("d", "a b", Annotation((entity,))),
        Document("d", "a b", words=(Span(0, 1), Span(2, 3))),
        Document("d", "a b", sentences=(Span(0, 1),)),
        Document("d", "a b", clusters=((Span(0, 1),),)),
        Document("d", "a b", attributes=(Attribute(entity, "Negation"),)),
        Document("d", "a b", metadata={"source": 1}),
    ]
    assert all(plain != other for other in others)
    assert len(others) == len(fields(Document))


def test_documents_do_not_share_their_default_metadata() -> None:
    assert Document("a", "").metadata is not Document("b", "").metadata


@pytest.mark.parametrize(
    ("thing", "name"),
    [
        (Span(0, 1), "start"),
        (Entity(Span(0, 1), "X"), "label"),
        (Annotation(), "entities"),
        (Sentence(("a",)), "words"),
        (Document("d", ""), "text"),
    ],
)
def test_types_are_frozen(thing: object, name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(thing, name, getattr(thing, name))


def test_types_survive_pickling() -> None:
    entity = Entity(Span(0, 3), "X", (Span(0, 1), Span(2, 3)), 0.5, "T1")
    document = Document(
        "d", "a b", Annotation((entity,), (Relation(entity, entity, "R"),)), (Span(0, 1),), (Span(0, 1),)
    )
    again = pickle.loads(pickle.dumps(document))
    assert again == document
    assert type(again.annotation.entities[0].span) is Span


def test_calibration_changes_scores_and_nothing_else() -> None:
    head, tail = Entity(Span(0, 1), "Peop", score=0.9, id="e1"), Entity(Span(2, 3), "Loc", id="e2")
    found = Annotation((head, tail), (Relation(head, tail, "Live_In", 0.8, "r1"), Relation(tail, head, "Near")))
    calibration = Calibration(ScoreMap(2, -1), ScoreMap(0.5, 0.25))
    mapped = calibration.apply(found)
    assert mapped == found
    assert [entity.id for entity in mapped.entities] == ["e1", "e2"]
    assert [entity.score for entity in mapped.entities] == [pytest.approx(1 / (1 + 3**-1 * e)), None]
    first, second = mapped.relations
    assert first.score == pytest.approx(1 / (1 + 4**-2 * e**-0.25))
    assert (first.id, second.score) == ("r1", None)
    assert first.head is second.tail is mapped.entities[0]


def test_calibration_leaves_given_entities_alone() -> None:
    head, tail = Entity(Span(0, 1), "Peop", score=0.9), Entity(Span(2, 3), "Loc", score=0.3)
    found = Annotation((head, tail), (Relation(head, tail, "Live_In", 0.8),))
    mapped = Calibration(ScoreMap(2), ScoreMap(2)).apply(found, given=True)
    assert [entity.score for entity in mapped.entities] == [0.9, 0.3]
    assert mapped.relations[0].head.score == 0.9
    assert mapped.relations[0].score == pytest.approx(2 / 3)
