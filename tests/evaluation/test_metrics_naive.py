"""The fast scores against a slow definition that compares everything with everything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relatum.evaluation.metrics import MacroOver, Scores, evaluate
from relatum.schema import RelationType, Schema
from relatum.types import Annotation, Entity, Relation, Span

SCHEMA = Schema(("A", "B", "C"), (RelationType("r"), RelationType("s", symmetric=True), RelationType("t")))
Pairs = list[tuple[Annotation, Annotation]]
Same = Callable[[Any, Any], bool]

# Few places and labels, so that matches, near misses and duplicates are all common.
spans = st.builds(lambda start, width: Span(start, start + width), st.integers(0, 2), st.integers(1, 2))
fragments = st.sampled_from([(), (), (), (Span(0, 1), Span(2, 3)), (Span(0, 1), Span(3, 4))])
entities = st.builds(Entity, spans, st.sampled_from("AB"), fragments)
relations = st.builds(Relation, entities, entities, st.sampled_from("rs"))
annotated = st.builds(Annotation, st.lists(entities, max_size=5).map(tuple), st.lists(relations, max_size=5).map(tuple))
corpora = st.lists(st.tuples(annotated, annotated), max_size=4)


def same_mention(one: Entity, two: Entity) -> bool:
    return one.span == two.span and one.fragments == two.fragments


def same_relation(same_end: Same, schema: Schema | None) -> Same:
    def same(one: Relation, two: Relation) -> bool:
        if one.label != two.label:
            return False
        straight = same_end(one.head, two.head) and same_end(one.tail, two.tail)
        crossed = same_end(one.head, two.tail) and same_end(one.tail, two.head)
        return straight or (crossed and schema is not None and schema.is_symmetric(one.label))

    return same


def distinct(items: Sequence[Any], same: Same) -> list[Any]:
    kept: list[Any] = []
    for item in items:
        if not any(same(item, other) for other in kept):
            kept.append(item)
    return kept


def naive_task(pairs: Pairs, kind: str, same: Same, types: Sequence[str] | None, macro_over: str) -> dict[str, Any]:
    rows: list[tuple[str, int, int, int]] = []
    for gold, predicted in pairs:
        wanted, found = distinct(getattr(gold, kind), same), distinct(getattr(predicted, kind), same)
        rows += [(item.label, int(any(same(item, other) for other in wanted)), 1, 0) for item in found]
        rows += [(item.label, 0, 0, 1) for item in wanted]

    def score(chosen: list[tuple[str, int, int, int]]) -> dict[str, float]:
        correct, predicted, gold = sum(r[1] for r in chosen), sum(r[2] for r in chosen), sum(r[3] for r in chosen)
        precision = correct / predicted if predicted else 0.0
        recall = correct / gold if gold else 0.0
        f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
        return {"precision": precision, "recall": recall, "f1": f1, "support": gold}

    labels = {row[0] for row in rows}
    averaged = {"gold": {row[0] for row in rows if row[3]}, "all": labels, "schema": set(types or ())}[macro_over]
    by_type = {label: score([row for row in rows if row[0] == label]) for label in labels | averaged}
    micro = score(rows)
    macro = {
        metric: sum(by_type[label][metric] for label in averaged) / len(averaged) if averaged else 0.0
        for metric in ("precision", "recall", "f1")
    }
    return {"micro": micro, "macro": {**macro, "support": micro["support"]}, "types": by_type}


def naive(pairs: Pairs, schema: Schema | None, macro_over: MacroOver) -> dict[str, Any]:
    entity_types = schema.entity_types if schema else None
    relation_types = schema.relation_names if schema else None
    loose, strict = same_relation(same_mention, schema), same_relation(lambda one, two: one == two, schema)
    return {
        "entities": naive_task(pairs, "entities", lambda one, two: one == two, entity_types, macro_over),
        "relations": naive_task(pairs, "relations", loose, relation_types, macro_over),
        "relations_strict": naive_task(pairs, "relations", strict, relation_types, macro_over),
    }


def flat(record: dict[str, Any], path: str = "") -> dict[str, float]:
    values: dict[str, float] = {}
    for key, value in record.items():
        values |= flat(value, f"{path}/{key}") if isinstance(value, dict) else {f"{path}/{key}": value}
    return values


@given(corpora, st.sampled_from([None, SCHEMA]), st.sampled_from(["gold", "all"]))
def test_scores_equal_the_naive_ones(pairs: Pairs, schema: Schema | None, over: MacroOver) -> None:
    assert flat(evaluate(pairs, schema, over).to_dict()) == pytest.approx(
        flat(naive(pairs, schema, over)), rel=1e-12, abs=0
    )


@given(corpora)
def test_scores_over_the_schema_equal_the_naive_ones(pairs: Pairs) -> None:
    assert flat(evaluate(pairs, SCHEMA, "schema").to_dict()) == pytest.approx(
        flat(naive(pairs, SCHEMA, "schema")), rel=1e-12, abs=0
    )


@given(corpora)
def test_gold_against_itself_is_perfect(pairs: Pairs) -> None:
    found = evaluate([(gold, gold) for gold, _ in pairs])
    for _, task in found.tasks():
        for score in (task.micro, task.macro, *task.types.values()):
            assert {score.precision, score.recall, score.f1} == {1.0 if score.support else 0.0}


@given(corpora)
def test_exchanging_gold_and_predictions_exchanges_precision_and_recall(pairs: Pairs) -> None:
    def micro(scores: Scores) -> list[tuple[float, float, float]]:
        return [(task.micro.precision, task.micro.recall, task.micro.f1) for _, task in scores.tasks()]

    turned = micro(evaluate([(predicted, gold) for gold, predicted in pairs]))
    assert micro(evaluate(pairs)) == [(precision, recall, f1) for recall, precision, f1 in turned]
