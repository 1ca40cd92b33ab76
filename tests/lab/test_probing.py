"""What layers correct and break, on texts that can be counted by hand."""

from __future__ import annotations

import json

from relatum.evaluation.metrics import evaluate
from relatum.extractor.extractor import Extractor
from relatum.lab.probing import Passage, measure_layers, predict_layers
from relatum.schema import RelationType, Schema
from relatum.types import Annotation, Entity, Relation, Span

from ..small_models import make_small_model

TEXT = "Mara Ilves works for Tarn Shipping in Oldhaven. The ferry left Port Amsel on Tuesday, she said."
LONG = "Tarn " + "and then Mara left Port Amsel for Oldhaven with Tom " * 5 + "again."
MARA, TOM, TARN = Entity(Span(0, 1), "Peop"), Entity(Span(2, 3), "Peop"), Entity(Span(4, 6), "Loc")
WRONG, LATE = Entity(Span(4, 6), "Peop"), Entity(Span(7, 8), "Loc")
GOLD = Annotation((MARA, TOM, TARN), (Relation(MARA, TARN, "Live_In"), Relation(MARA, TOM, "Kin")))
SCHEMA = Schema(("Peop", "Loc"), (RelationType("Live_In"), RelationType("Kin", symmetric=True)))


def test_each_change_is_counted_as_what_it_is() -> None:
    first = Annotation((MARA, TOM, WRONG), (Relation(MARA, WRONG, "Live_In"), Relation(MARA, TOM, "Kin")))
    second = Annotation((MARA, TARN, LATE), (Relation(MARA, TARN, "Live_In"), Relation(MARA, LATE, "Live_In")))
    layers = measure_layers([GOLD, Annotation()], [[first, second], [Annotation(), Annotation((LATE,))]], SCHEMA)
    assert layers[0].entities is None
    assert layers[0].relations is None
    assert layers[1].entities == Passage(right=2, missed=1, wrong=1, found=1, dropped=1, lost=1, added=2)
    assert layers[1].relations == Passage(right=1, missed=1, wrong=1, found=1, dropped=1, lost=1, added=1)
    assert (layers[1].entities.corrected, layers[1].entities.broken) == (2, 3)
    assert layers[1].entities.corrected_share == 1.0
    assert layers[1].entities.lost_share == 0.5


def test_what_stays_wrong_is_no_change() -> None:
    same = Annotation((MARA, WRONG), (Relation(MARA, WRONG, "Live_In"),))
    (_, last) = measure_layers([GOLD], [[same, same]], SCHEMA)
    assert last.entities == Passage(right=1, missed=2, wrong=1)
    assert last.relations == Passage(right=0, missed=2, wrong=1)
    assert last.entities is not None
    assert (last.entities.corrected_share, last.entities.lost_share) == (0.0, 0.0)
    assert Passage().corrected_share == Passage().lost_share == 0.0


def test_symmetric_relations_may_be_said_in_either_order() -> None:
    swapped = Annotation((MARA, TOM), (Relation(TOM, MARA, "Kin"), Relation(TARN, MARA, "Live_In")))
    (_, last) = measure_layers([GOLD], [[Annotation(), swapped]], SCHEMA)
    assert last.relations == Passage(missed=2, found=1, added=1)
    (_, unknown) = measure_layers([GOLD], [[Annotation(), swapped]])
    assert unknown.relations == Passage(missed=2, found=0, added=2)


def test_scores_are_those_of_each_layer_and_changes_are_its_difference_from_the_one_before() -> None:
    first, second = Annotation((MARA, WRONG)), Annotation((MARA, TARN), (Relation(MARA, TARN, "Live_In"),))
    layers = measure_layers([GOLD, Annotation()], [[first, second], []], SCHEMA)
    assert [layer.scores for layer in layers] == [
        evaluate([(GOLD, found), (Annotation(), Annotation())], SCHEMA) for found in (first, second)
    ]
    record = json.loads(json.dumps([layer.to_dict() for layer in layers]))
    assert record[0]["changes"] == {}
    assert record[1]["changes"]["entities"] == {
        "right": 1,
        "missed": 2,
        "wrong": 1,
        "found": 1,
        "dropped": 1,
        "lost": 0,
        "added": 0,
        "corrected": 2,
        "broken": 0,
    }
    assert record[1]["changes"]["relations_strict"]["found"] == 1
    assert record[1]["scores"]["relations_strict"]["micro"]["recall"] == 0.5
    assert measure_layers([], []) == []


def test_layers_predict_as_the_extractor_does_at_last() -> None:
    extractor = Extractor(make_small_model("model.n_layers=3", "extraction.max_words=12", "extraction.overlap=4"))
    sentences = [*extractor.split(TEXT), *extractor.split(LONG), *extractor.split(" ")]
    steps: list[tuple[int, int]] = []
    found = predict_layers(extractor, sentences, on_progress=lambda *step: steps.append(step))
    predicted = extractor.predict(sentences)
    for layers, prediction in zip(found, predicted, strict=True):
        assert layers == [] if not prediction.sentence.words else layers[-1] == prediction.found
    assert steps[-1] == (len(sentences), len(sentences))
    given = [[Entity(Span(0, 1), "Peop"), Entity(Span(2, 4), "Loc")] if one.words else [] for one in sentences]
    among = predict_layers(extractor, sentences, given)
    assert {layer.entities for layers, own in zip(among, given, strict=True) if own for layer in layers} == {
        tuple(given[0])
    }
    assert [layers[-1].relations for layers in among if layers] == [
        one.found.relations for one in extractor.predict(sentences, given) if one.sentence.words
    ]
