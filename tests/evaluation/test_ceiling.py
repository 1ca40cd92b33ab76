"""The best scores that a model allows, and the reasons."""

from __future__ import annotations

from typing import Any

import pytest

from relatum.config import TaggingConfig, load_config
from relatum.evaluation.ceiling import Limits, describe_ceiling, is_limited, measure_ceiling
from relatum.schema import RelationType, Schema
from relatum.tagging.sequence import DISCONTINUOUS
from relatum.tagging.table import MISSING
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


IN, NEAR = RelationType("In", head_labels=("Loc",), tail_labels=("Loc",)), RelationType("Near", symmetric=True)
SPANS = Tagging.of(Schema(SCHEMA.entity_types, (IN, NEAR)), TaggingConfig(kind="spans"))
ONE, TWO, THREE = Entity(Span(0, 1), "Loc"), Entity(Span(3, 4), "Loc"), Entity(Span(6, 7), "Loc")
LONG, OVER = Entity(Span(0, 3), "Org"), Entity(Span(2, 4), "Org")
NESTED = Example(
    Sentence(("Rome", "Old", "Town", "Italy", "and", "the", "Sea")),
    Annotation(
        (ONE, TWO, THREE, LONG, OVER),
        (
            Relation(ONE, TWO, "In"),
            Relation(ONE, TWO, "Near"),
            Relation(TWO, THREE, "In"),
            Relation(THREE, TWO, "In"),
            Relation(LONG, THREE, "In"),
        ),
    ),
)


def lose(**limits: Any) -> dict[str, tuple[int, int]]:
    """Return the entities and relations that span tagging loses under these limits, by reason."""
    ceiling = measure_ceiling([NESTED], SPANS, limits=Limits(**limits))
    assert is_limited(ceiling) == bool(ceiling.losses)
    assert ceiling.entities.micro.recall == pytest.approx(1 - sum(loss.n_entities for loss in ceiling.losses) / 5)
    n_relations = sum(loss.n_relations for loss in ceiling.losses)
    assert ceiling.relations_strict.micro.recall == pytest.approx(1 - n_relations / 5)
    return {loss.reason: (loss.n_entities, loss.n_relations) for loss in ceiling.losses}


def test_limits_of_decoding_lower_the_ceiling_and_are_named() -> None:
    assert lose() == {}
    assert lose(overlap="nested") == {'decoding.overlap is "nested"': (1, 0)}
    assert lose(overlap="none") == {'decoding.overlap is "none"': (2, 1)}
    assert lose(several_relations=False) == {'decoding.relations_of_pair is "one"': (0, 1)}
    unlikely = 'decoding.constraints is "schema", and train does not connect these types'
    assert lose(constraints=True) == {unlikely: (0, 1)}
    assert lose(overlap="none", several_relations=False, constraints=True) == {
        'decoding.overlap is "none"': (2, 1),
        'decoding.relations_of_pair is "one"': (0, 1),
    }, "each annotation is lost for one reason, the first"


def test_symmetric_relation_is_of_the_pair_that_begins_with_the_earlier_entity() -> None:
    rome, italy = Entity(Span(0, 1), "Loc"), Entity(Span(1, 2), "Loc")
    gold = Annotation((rome, italy), (Relation(rome, italy, "In"), Relation(italy, rome, "Near")))
    limits = Limits(several_relations=False)
    (loss,) = measure_ceiling([Example(SENTENCE, gold)], SPANS, limits=limits).losses
    assert (loss.n_entities, loss.n_relations) == (0, 1)


def test_relations_that_no_window_holds_lower_the_ceiling() -> None:
    windows = [Span(0, 4), Span(3, 7)]
    assert lose(find_windows=lambda _: windows) == {"in no window (extraction.max_words)": (0, 1)}
    windows = [Span(0, 2), Span(2, 5), Span(5, 7)]
    assert lose(find_windows=lambda _: windows) == {"in no window (extraction.max_words)": (1, 5)}
    assert lose(find_windows=lambda _: [Span(0, 7)]) == {}


def test_each_loss_of_tags_and_data_is_named() -> None:
    broken = Entity(Span(0, 3), "Loc", (Span(0, 1), Span(2, 3)))
    person = Entity(Span(1, 2), "Peop")
    gold = Annotation((ROME, SEA, broken, person), (Relation(ROME, SEA, "Near"), Relation(broken, SEA, "Near")))
    example = Example(SENTENCE, gold, left_out=Annotation((OVER,), (Relation(OVER, ROME, "Near"),)))
    ceiling = measure_ceiling([example], SPANS)
    assert [str(loss) for loss in ceiling.losses] == [
        "left out by data.overlaps or data.crossing: 1 entity and 1 relation",
        "types that the model does not know: 1 entity",
        f"no tags ({DISCONTINUOUS}): 1 entity",
        f"no tags ({MISSING}): 1 relation",
    ]


def test_relations_that_tags_add_lower_the_precision_of_the_ceiling() -> None:
    again = Entity(Span(0, 1), "Org")
    gold = Annotation((ROME, again, SEA), (Relation(ROME, SEA, "Near"), Relation(ROME, SEA, "In")))
    ceiling = measure_ceiling([Example(SENTENCE, gold)], SPANS)
    assert [str(loss) for loss in ceiling.losses] == [
        "added by the tags, between entities that share words: 1 relation"
    ]
    assert ceiling.relations_strict.micro.recall == 1
    assert ceiling.relations_strict.micro.precision == pytest.approx(2 / 3)
    assert is_limited(ceiling)


def test_limits_are_those_of_the_settings() -> None:
    decoding = ["decoding.overlap=none", "decoding.relations_of_pair=one"]
    config = load_config(None, ["tagging.kind=spans", "decoding.constraints=schema", *decoding])
    assert Limits.of(config) == Limits("none", several_relations=False, constraints=True)
    assert Limits.of(config, given=True) == Limits("any", several_relations=False, constraints=True)
    assert Limits.of(load_config()) == Limits()
