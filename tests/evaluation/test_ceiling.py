"""The best scores that a tagging allows."""

from __future__ import annotations

import pytest

from relatum.config import TaggingConfig
from relatum.evaluation.ceiling import describe_ceiling, is_limited, measure_ceiling
from relatum.schema import RelationType, Schema
from relatum.tagging.tagging import Tagging
from relatum.types import Annotation, Entity, Example, Relation, Sentence, Span

SCHEMA = Schema(("Loc", "Org"), (RelationType("In"), RelationType("Near")))
ROME, ITALY, SEA = (Entity(Span(n, n + 1), "Loc") for n in range(3))
SENTENCE = Sentence(("Rome", "Italy", "Sea"))


def tagging(directed: bool = True) -> Tagging:
    return Tagging.of(SCHEMA, TaggingConfig(directed=directed, conflicts="first"))


def test_gold_that_the_tags_express_has_no_ceiling() -> None:
    gold = Annotation((ROME, ITALY, SEA), (Relation(ROME, ITALY, "In"), Relation(ITALY, SEA, "Near")))
    ceiling = measure_ceiling([Example(SENTENCE, gold)], tagging())
    assert not is_limited(ceiling)
    assert ceiling.relations_strict.macro.f1 == 1


def test_gold_left_out_by_the_settings_lowers_the_ceiling() -> None:
    nested = Entity(Span(0, 2), "Org")
    left_out = Annotation((nested,), (Relation(nested, SEA, "Near"),))
    example = Example(SENTENCE, Annotation((ROME, SEA), (Relation(ROME, SEA, "In"),)), left_out=left_out)
    ceiling = measure_ceiling([example], tagging())
    assert is_limited(ceiling)
    assert ceiling.entities.micro.recall == pytest.approx(2 / 3)
    assert ceiling.entities.micro.precision == 1
    assert ceiling.relations.micro.f1 == pytest.approx(2 / 3)
    assert describe_ceiling(ceiling).startswith("NER recall 66.67, F1 80.00; RE recall 50.00, F1 66.67; RE+ ")


def test_task_without_gold_does_not_limit_scores() -> None:
    assert not is_limited(measure_ceiling([Example(SENTENCE, Annotation((ROME, SEA)))], tagging()))


def test_relation_of_an_entity_that_the_tags_lose_is_out_of_reach() -> None:
    nested = Entity(Span(0, 2), "Org")
    gold = Annotation((ROME, nested, SEA), (Relation(ROME, SEA, "In"), Relation(nested, SEA, "Near")))
    found = tagging().find_expressible(gold, len(SENTENCE))
    assert found == Annotation((ROME, SEA), (Relation(ROME, SEA, "In"),))


def test_second_relation_of_a_pair_lowers_the_ceiling() -> None:
    gold = Annotation((ROME, ITALY), (Relation(ROME, ITALY, "In"), Relation(ROME, ITALY, "Near")))
    assert len(tagging().find_expressible(gold, len(SENTENCE)).relations) == 1
    both_ways = Annotation((ROME, ITALY), (Relation(ROME, ITALY, "In"), Relation(ITALY, ROME, "In")))
    assert len(tagging().find_expressible(both_ways, len(SENTENCE)).relations) == 1
    assert len(tagging(directed=False).find_expressible(both_ways, len(SENTENCE)).relations) == 2


def test_types_that_the_model_does_not_know_are_out_of_reach() -> None:
    person = Entity(Span(1, 2), "Peop")
    gold = Annotation((ROME, person), (Relation(ROME, person, "In"), Relation(ROME, ROME, "Owns")))
    ceiling = measure_ceiling([Example(SENTENCE, gold)], tagging(), macro_over="schema")
    assert ceiling.macro_over == "all"
    assert ceiling.entities.micro.recall == 0.5
    assert ceiling.relations.micro.recall == 0
