from __future__ import annotations

from benchmarks.suggest import Row, compare, count_errors

from relatum.types import Annotation, Entity, Relation, Span


def test_a_wrong_type_is_an_error_twice_and_a_missed_relation_once() -> None:
    ann, rome = Entity(Span(0, 3), "Peop"), Entity(Span(13, 17), "Loc")
    gold = Annotation((ann, rome), (Relation(ann, rome, "Live_In"),))
    assert count_errors(gold, gold) == 0
    assert count_errors(gold, Annotation((ann, rome))) == 1
    assert count_errors(gold, Annotation((ann, Entity(rome.span, "Org")))) == 3


def test_the_least_certain_texts_are_taken_first() -> None:
    rows = [Row(errors=4, words=10, certainty=0.5), *[Row(errors=0, words=10, certainty=0.9)] * 3]
    lines = compare(rows, 1)
    assert lines[0] == "4 texts with 4 errors, of which 1 are corrected"
    assert lines[1].startswith("errors for each text: 4.00 if sorted, ")
    assert lines[2].startswith("errors for each 100 words: 40.00 if sorted, ")
