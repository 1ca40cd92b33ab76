from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from relatum.errors import DataError, SchemaError
from relatum.evaluation.metrics import MacroOver, Score, Scores, evaluate
from relatum.schema import RelationType, Schema
from relatum.types import Annotation, Entity, Relation, Span

ANNA = Entity(Span(0, 1), "Peop")
ROME = Entity(Span(3, 4), "Loc")
ACME = Entity(Span(6, 8), "Org")
NOTHING = Score(0.0, 0.0, 0.0, 0)


def annotation(*items: Entity | Relation) -> Annotation:
    """The items, with the ends of relations among the entities."""
    entities = [item for item in items if isinstance(item, Entity)]
    relations = [item for item in items if isinstance(item, Relation)]
    for relation in relations:
        entities += [end for end in (relation.head, relation.tail) if end not in entities]
    return Annotation(tuple(entities), tuple(relations))


def scores(gold: Annotation, predicted: Annotation, **options: Any) -> Scores:
    return evaluate([(gold, predicted)], **options)


def test_exact_match_is_right_in_all_tasks() -> None:
    gold = annotation(Relation(ANNA, ROME, "Live_In"))
    found = scores(gold, gold)
    # 2 of 2 entities and 1 of 1 relations: P = R = F1 = 1.
    assert found.entities.micro == Score(1.0, 1.0, 1.0, 2)
    assert found.relations.micro == Score(1.0, 1.0, 1.0, 1)
    assert found.relations_strict.micro == Score(1.0, 1.0, 1.0, 1)


def test_wrong_boundary_is_wrong_in_all_tasks() -> None:
    wider = Entity(Span(3, 5), "Loc")
    found = scores(annotation(Relation(ANNA, ROME, "Live_In")), annotation(Relation(ANNA, wider, "Live_In")))
    # Entities: Anna is right, Rome is not: 1 of 2 predicted, 1 of 2 gold.
    assert found.entities.micro == Score(0.5, 0.5, 0.5, 2)
    assert found.entities.types == {"Loc": Score(0.0, 0.0, 0.0, 1), "Peop": Score(1.0, 1.0, 1.0, 1)}
    assert found.relations.micro == found.relations_strict.micro == Score(0.0, 0.0, 0.0, 1)


def test_wrong_entity_type_leaves_re_right_and_strict_wrong() -> None:
    rome_as_org = Entity(ROME.span, "Org")
    found = scores(annotation(Relation(ANNA, ROME, "Live_In")), annotation(Relation(ANNA, rome_as_org, "Live_In")))
    assert found.entities.micro == Score(0.5, 0.5, 0.5, 2)
    assert found.relations.micro == Score(1.0, 1.0, 1.0, 1)
    assert found.relations_strict.micro == Score(0.0, 0.0, 0.0, 1)


def test_wrong_head_type_also_spoils_the_strict_match() -> None:
    anna_as_org = Entity(ANNA.span, "Org")
    found = scores(annotation(Relation(ANNA, ROME, "Live_In")), annotation(Relation(anna_as_org, ROME, "Live_In")))
    assert found.relations.micro.f1 == 1.0
    assert found.relations_strict.micro.f1 == 0.0


def test_wrong_relation_type_is_wrong_for_both_types() -> None:
    found = scores(annotation(Relation(ANNA, ROME, "Live_In")), annotation(Relation(ANNA, ROME, "Kill")))
    # Kill: 0 of 1 predicted, nothing in gold. Live_In: nothing predicted, 0 of 1 gold.
    assert found.relations.types == {"Kill": NOTHING, "Live_In": Score(0.0, 0.0, 0.0, 1)}
    assert found.relations.micro == Score(0.0, 0.0, 0.0, 1)


def test_swapped_direction_is_wrong() -> None:
    found = scores(annotation(Relation(ANNA, ROME, "Live_In")), annotation(Relation(ROME, ANNA, "Live_In")))
    assert found.entities.micro.f1 == 1.0
    assert found.relations.micro == found.relations_strict.micro == Score(0.0, 0.0, 0.0, 1)


def test_symmetric_relation_ignores_the_order_of_its_ends() -> None:
    schema = Schema(("Loc", "Peop"), (RelationType("Meets", symmetric=True), RelationType("Live_In")))
    bob = Entity(Span(9, 10), "Peop")
    gold = annotation(Relation(ANNA, bob, "Meets"), Relation(ANNA, ROME, "Live_In"))
    predicted = annotation(Relation(bob, ANNA, "Meets"), Relation(ROME, ANNA, "Live_In"))
    found = scores(gold, predicted, schema=schema)
    # Meets is symmetric and right; Live_In is not and wrong: 1 of 2 predicted, 1 of 2 gold.
    for task in (found.relations, found.relations_strict):
        assert task.types == {"Live_In": Score(0.0, 0.0, 0.0, 1), "Meets": Score(1.0, 1.0, 1.0, 1)}
        assert task.micro == Score(0.5, 0.5, 0.5, 2)
    assert scores(gold, predicted).relations.micro.f1 == 0.0


def test_symmetric_relation_in_both_directions_counts_once() -> None:
    schema = Schema(("Peop",), (RelationType("Meets", symmetric=True),))
    bob = Entity(Span(9, 10), "Peop")
    gold = annotation(Relation(ANNA, bob, "Meets"), Relation(bob, ANNA, "Meets"))
    found = scores(gold, annotation(Relation(bob, ANNA, "Meets")), schema=schema)
    assert found.relations.micro == found.relations_strict.micro == Score(1.0, 1.0, 1.0, 1)


def test_symmetric_strict_match_keeps_each_type_with_its_span() -> None:
    schema = Schema(("Loc", "Peop"), (RelationType("Near", symmetric=True),))
    gold = annotation(Relation(Entity(Span(0, 1), "Peop"), Entity(Span(3, 4), "Loc"), "Near"))
    exchanged = annotation(Relation(Entity(Span(0, 1), "Loc"), Entity(Span(3, 4), "Peop"), "Near"))
    found = scores(gold, exchanged, schema=schema)
    assert found.relations.micro.f1 == 1.0
    assert found.relations_strict.micro.f1 == 0.0


def test_symmetric_relation_between_two_types_of_one_span_has_no_order_either() -> None:
    schema = Schema(("Loc", "Org"), (RelationType("Same", symmetric=True),))
    rome_as_org = Entity(ROME.span, "Org")
    gold, turned = annotation(Relation(ROME, rome_as_org, "Same")), annotation(Relation(rome_as_org, ROME, "Same"))
    assert scores(gold, turned, schema=schema).relations_strict.micro == Score(1.0, 1.0, 1.0, 1)
    assert scores(gold, turned).relations_strict.micro == Score(0.0, 0.0, 0.0, 1)


def test_duplicates_count_once_on_both_sides() -> None:
    relation = Relation(ANNA, ROME, "Live_In")
    gold = Annotation((ANNA, ROME, ROME), (relation, relation))
    predicted = Annotation((ANNA, ANNA, ANNA, ROME, ACME), (relation, relation, relation))
    found = scores(gold, predicted)
    # Distinct: 2 gold entities, 3 predicted, 2 right: P = 2/3, R = 2/2, F1 = 2·2 / (3 + 2).
    assert found.entities.micro == Score(2 / 3, 1.0, 0.8, 2)
    assert found.relations.micro == found.relations_strict.micro == Score(1.0, 1.0, 1.0, 1)


def test_ids_and_confidences_do_not_make_items_differ() -> None:
    gold = Annotation((Entity(Span(0, 1), "Peop", id="T1"),))
    predicted = Annotation((Entity(Span(0, 1), "Peop", score=0.4, id="x"), Entity(Span(0, 1), "Peop", score=0.3)))
    assert scores(gold, predicted).entities.micro == Score(1.0, 1.0, 1.0, 1)


def test_relations_that_differ_in_entity_types_alone_are_one_by_boundaries() -> None:
    rome_as_org = Entity(ROME.span, "Org")
    gold = annotation(Relation(ANNA, ROME, "Live_In"), Relation(ANNA, rome_as_org, "Live_In"))
    found = scores(gold, annotation(Relation(ANNA, ROME, "Live_In")))
    # By boundaries the two gold relations are one; strictly they are two, and 1 of 2 is found: F1 = 2·1 / (1 + 2).
    assert found.relations.micro == Score(1.0, 1.0, 1.0, 1)
    assert found.relations_strict.micro == Score(1.0, 0.5, 2 / 3, 2)


def test_fragments_must_agree() -> None:
    whole = Entity(Span(0, 5), "Loc")
    pieces = Entity(Span(0, 5), "Loc", (Span(0, 2), Span(4, 5)))
    others = Entity(Span(0, 5), "Loc", (Span(0, 1), Span(4, 5)))
    assert scores(annotation(pieces), annotation(pieces)).entities.micro.f1 == 1.0
    assert scores(annotation(pieces), annotation(whole)).entities.micro.f1 == 0.0
    assert scores(annotation(pieces), annotation(others)).entities.micro.f1 == 0.0
    relation = Relation(ANNA, pieces, "Live_In")
    assert scores(annotation(relation), annotation(Relation(ANNA, pieces, "Live_In"))).relations.micro.f1 == 1.0
    assert scores(annotation(relation), annotation(Relation(ANNA, whole, "Live_In"))).relations.micro.f1 == 0.0


def test_equal_spans_of_different_documents_do_not_match() -> None:
    found = evaluate([(annotation(ANNA), annotation()), (annotation(), annotation(ANNA))])
    assert found.entities.micro == Score(0.0, 0.0, 0.0, 1)


def test_label_only_in_predictions_has_no_support_and_counts_in_micro() -> None:
    date = Entity(Span(9, 10), "Date")
    found = scores(annotation(ANNA), annotation(ANNA, date))
    # 1 right of 2 predicted, 1 gold: P = 1/2, R = 1/1, F1 = 2·1 / (2 + 1).
    assert found.entities.micro == Score(0.5, 1.0, 2 / 3, 1)
    assert found.entities.types == {"Date": NOTHING, "Peop": Score(1.0, 1.0, 1.0, 1)}
    assert found.entities.macro == Score(1.0, 1.0, 1.0, 1)
    assert found.entities.macro_types == ("Peop",)


def test_empty_gold_scores_zero() -> None:
    found = scores(annotation(), annotation(Relation(ANNA, ROME, "Live_In")))
    # P = 0/2, R = 0/0, F1 = 0/2: all 0, and the macro average is over no types.
    assert found.entities.micro == found.entities.macro == NOTHING
    assert found.relations.micro == found.relations_strict.macro == NOTHING
    assert found.entities.macro_types == ()


def test_empty_prediction_scores_zero_with_support() -> None:
    found = scores(annotation(Relation(ANNA, ROME, "Live_In")), annotation())
    # P = 0/0, R = 0/2, F1 = 0/2.
    assert found.entities.micro == found.entities.macro == Score(0.0, 0.0, 0.0, 2)
    assert found.relations.micro == found.relations_strict.macro == Score(0.0, 0.0, 0.0, 1)


@pytest.mark.parametrize("pairs", [[], [(Annotation(), Annotation())]])
def test_nothing_against_nothing_scores_zero(pairs: list[tuple[Annotation, Annotation]]) -> None:
    found = evaluate(pairs)
    for _, task in found.tasks():
        assert task.micro == task.macro == NOTHING
        assert task.types == {}


def many_types() -> list[tuple[Annotation, Annotation]]:
    """Two sentences in the manner of CoNLL04.

    Entities          correct  predicted  gold
        Loc              2         3        2
        Org              0         1        2
        Other            0         0        1
        Peop             1         1        1
        Date             0         1        0
    Relations (RE)
        Live_In          1         1        1
        Located_In       1         1        2
        Kill             0         1        0
    Relations, strict
        Live_In          1         1        1
        Located_In       0         1        2     (Acme was taken for a place)
        Kill             0         1        0
    """
    other, paris = Entity(Span(9, 10), "Other"), Entity(Span(11, 12), "Loc")
    umbrella = Entity(Span(0, 2), "Org")
    acme_as_loc = Entity(ACME.span, "Loc")
    return [
        (
            annotation(Relation(ANNA, ROME, "Live_In"), Relation(ACME, ROME, "Located_In"), other),
            annotation(
                Relation(ANNA, ROME, "Live_In"),
                Relation(acme_as_loc, ROME, "Located_In"),
                Relation(ROME, ANNA, "Kill"),
                Entity(Span(9, 11), "Date"),
            ),
        ),
        (
            annotation(Relation(umbrella, paris, "Located_In")),
            annotation(Entity(Span(0, 1), "Org"), paris),
        ),
    ]


def test_several_types_give_the_hand_computed_scores() -> None:
    found = evaluate(many_types())
    entities = {
        "Date": NOTHING,
        "Loc": Score(2 / 3, 1.0, 4 / 5, 2),
        "Org": Score(0.0, 0.0, 0.0, 2),
        "Other": Score(0.0, 0.0, 0.0, 1),
        "Peop": Score(1.0, 1.0, 1.0, 1),
    }
    assert found.entities.types == entities
    assert list(found.entities.types) == sorted(entities)
    # Micro: 3 right of 3 + 1 + 0 + 1 + 1 = 6 predicted and 2 + 2 + 1 + 1 = 6 gold.
    assert found.entities.micro == Score(3 / 6, 3 / 6, 6 / 12, 6)
    # Macro over Loc, Org, Other, Peop: P = (2/3 + 0 + 0 + 1) / 4, R = (1 + 0 + 0 + 1) / 4, F1 = (4/5 + 0 + 0 + 1) / 4.
    assert found.entities.macro == Score((2 / 3 + 1) / 4, 2 / 4, (4 / 5 + 1) / 4, 6)

    # Located_In: 1 of 1 predicted, 1 of 2 gold, F1 = 2·1 / (1 + 2).
    assert found.relations.types["Located_In"] == Score(1.0, 0.5, 2 / 3, 2)
    # Micro: 2 right of 3 predicted and 3 gold.
    assert found.relations.micro == Score(2 / 3, 2 / 3, 4 / 6, 3)
    # Macro over Live_In and Located_In.
    assert found.relations.macro == Score(1.0, 1.5 / 2, (1 + 2 / 3) / 2, 3)

    assert found.relations_strict.types["Located_In"] == Score(0.0, 0.0, 0.0, 2)
    assert found.relations_strict.micro == Score(1 / 3, 1 / 3, 2 / 6, 3)
    assert found.relations_strict.macro == Score(0.5, 0.5, 0.5, 3)


def test_macro_f1_is_the_mean_of_f1_and_not_the_f1_of_means() -> None:
    gold = annotation(ANNA, ROME, Entity(Span(11, 12), "Loc"))
    predicted = annotation(ANNA, Entity(Span(20, 21), "Peop"), ROME)
    macro = scores(gold, predicted).entities.macro
    # Peop: P = 1/2, R = 1, F1 = 2/3. Loc: P = 1, R = 1/2, F1 = 2/3. The means of P and R are both 3/4.
    assert (macro.precision, macro.recall) == (0.75, 0.75)
    assert macro.f1 == 2 / 3


SCHEMA = Schema(
    ("Date", "Loc", "Org", "Other", "Peop", "Unused"), tuple(map(RelationType, ("Kill", "Live_In", "Located_In")))
)


@pytest.mark.parametrize(
    ("over", "n_entity_types", "n_relation_types"),
    [
        ("gold", 4, 2),  # Loc Org Other Peop; Live_In Located_In
        ("all", 5, 3),  # and Date; and Kill
        ("schema", 6, 3),  # and Unused
    ],
)
def test_macro_over_says_which_types_are_averaged(over: MacroOver, n_entity_types: int, n_relation_types: int) -> None:
    found = evaluate(many_types(), SCHEMA, over)
    # The sums over types are those of the hand-computed case; types beyond those in gold add 0 to each.
    n = n_entity_types
    assert found.entities.macro == Score((2 / 3 + 1) / n, 2 / n, (4 / 5 + 1) / n, 6)
    assert found.relations.macro == Score(
        2 / n_relation_types, 1.5 / n_relation_types, (1 + 2 / 3) / n_relation_types, 3
    )
    assert len(found.entities.macro_types) == n_entity_types
    assert len(found.relations.macro_types) == len(found.relations_strict.macro_types) == n_relation_types
    assert found.macro_over == over
    # What is averaged can be seen: each of the types has a row.
    assert set(found.entities.macro_types) <= found.entities.types.keys()
    assert found.entities.micro == Score(3 / 6, 3 / 6, 6 / 12, 6)


def test_macro_over_the_schema_without_one_is_an_error() -> None:
    with pytest.raises(SchemaError, match=r"needs a schema; give one"):
        evaluate(many_types(), None, "schema")


def test_macro_over_a_schema_that_lacks_types_is_an_error() -> None:
    schema = Schema(("Loc", "Org", "Peop"), SCHEMA.relation_types)
    with pytest.raises(SchemaError, match=r"entities: Date, Other.*add them to the schema"):
        evaluate(many_types(), schema, "schema")
    assert evaluate(many_types(), schema, "gold") == evaluate(many_types())


def test_macro_over_anything_else_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"one of gold, schema, all; got 'predicted'"):
        evaluate(many_types(), None, "predicted")  # type: ignore[arg-type]


def test_gold_entities_accepts_gold_spans_with_other_labels() -> None:
    gold = annotation(Relation(ANNA, ROME, "Live_In"), ACME)
    rome_as_org = Entity(ROME.span, "Org")
    predicted = annotation(Relation(ANNA, rome_as_org, "Live_In"), Relation(ANNA, ACME, "Work_For"))
    found = scores(gold, predicted, gold_entities=True)
    # RE is judged as ever: 1 of 2 predicted, 1 of 1 gold.
    assert found.relations.micro == Score(0.5, 1.0, 2 / 3, 1)
    assert found == scores(gold, predicted)


def test_gold_entities_refuses_every_other_span() -> None:
    gold = annotation(ANNA, Entity(Span(0, 5), "Loc", (Span(0, 2), Span(4, 5))))
    wrong = annotation(ANNA, ROME, Entity(Span(0, 5), "Loc"))
    with pytest.raises(DataError) as caught:
        evaluate([(gold, gold), (gold, wrong)], gold_entities=True)
    assert [(problem.record, problem.found) for problem in caught.value.problems] == [
        (2, 'the entity [3, 4) "Loc"'),
        (2, 'the entity [0, 5) "Loc"'),
    ]
    assert "let it predict on the gold entity spans" in str(caught.value)


def test_gold_entities_looks_at_the_ends_of_relations_too() -> None:
    gold, stray = annotation(ANNA, ROME), Annotation((ANNA,), (Relation(ANNA, ACME, "Work_For"),))
    with pytest.raises(DataError, match=r"\[6, 8\)"):
        scores(gold, stray, gold_entities=True)


def test_to_dict_has_exactly_the_promised_shape() -> None:
    gold = annotation(Relation(ANNA, ROME, "Live_In"))
    right = {"precision": 1.0, "recall": 1.0, "f1": 1.0}
    entities = {"precision": 1.0, "recall": 1.0, "f1": 1.0, "support": 2}
    relation = {**right, "support": 1}
    of_relations = {"micro": relation, "macro": relation, "types": {"Live_In": relation}}
    assert scores(gold, gold).to_dict() == {
        "entities": {"micro": entities, "macro": entities, "types": {"Loc": relation, "Peop": relation}},
        "relations": of_relations,
        "relations_strict": of_relations,
    }


def test_scores_are_frozen() -> None:
    found = scores(annotation(ANNA), annotation(ANNA))
    for value, name in ((found, "entities"), (found.entities, "micro"), (found.entities.micro, "f1")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, None)


def test_pairs_may_come_from_a_generator() -> None:
    assert evaluate(pair for pair in many_types()) == evaluate(many_types())


def test_several_relations_of_a_pair_count_by_their_labels_and_symmetric_ones_once() -> None:
    inner = Entity(Span(7, 8), "Org")
    schema = Schema(("Loc", "Org"), (RelationType("Part"), RelationType("Near", symmetric=True)))
    gold = annotation(Relation(inner, ACME, "Part"), Relation(ACME, inner, "Near"), Relation(ACME, ROME, "Near"))
    found = annotation(
        *(Relation(inner, ACME, label) for label in ("Part", "Near")),
        *(Relation(*ends, "Near") for ends in ((ACME, inner), (ROME, ACME), (ACME, ROME))),
    )
    for task in scores(gold, found, schema=schema).tasks():
        assert task[1].micro == Score(1.0, 1.0, 1.0, 3)
    # As directed relations: 3 of 5 are right, and 3 of 3 are found.
    assert scores(gold, found).relations.micro == Score(0.6, 1.0, 0.75, 3)
