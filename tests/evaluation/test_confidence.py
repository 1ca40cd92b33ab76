from __future__ import annotations

import pytest

from relatum.evaluation.confidence import calibrate, measure_confidence
from relatum.evaluation.metrics import evaluate
from relatum.extractor.result import Extraction
from relatum.schema import RelationType, Schema
from relatum.types import Annotation, Entity, Relation, Span

SCHEMA = Schema(("Loc", "Peop"), (RelationType("Kin", symmetric=True), RelationType("Live_In")))


def entity(start: int, label: str = "Peop", score: float | None = None) -> Entity:
    return Entity(Span(start, start + 2), label, score=score)


def texts() -> list[tuple[Annotation, Annotation]]:
    """One relation is right, one has an entity of the wrong type, and one is missing."""
    ann, bo, cy = entity(0), entity(4), entity(8, "Loc")
    gold = Annotation((ann, bo, cy), (Relation(ann, bo, "Kin"), Relation(ann, cy, "Live_In")))
    found_ann, found_bo, wrong = entity(0, score=0.9), entity(4, score=0.6), entity(8, score=0.4)
    found = Annotation(
        (found_ann, found_bo, wrong),
        (Relation(found_ann, found_bo, "Kin", 0.95), Relation(found_ann, wrong, "Live_In", 0.7)),
    )
    return [(gold, found), (gold, Annotation())]


def rows(pairs: list[tuple[Annotation, Annotation]]) -> dict[str, dict[float, tuple[int, float]]]:
    measured = measure_confidence(pairs, SCHEMA)
    return {name: {row.threshold: (row.n, row.precision) for row in task.thresholds} for name, task in measured.tasks()}


def test_entities_are_right_by_span_and_label_and_relations_strictly() -> None:
    measured = measure_confidence(texts(), SCHEMA)
    (entities,) = measured.entities.bins
    assert entities.n == 3
    assert [entities.right, entities.score] == pytest.approx([2 / 3, 1.9 / 3])
    (relations,) = measured.relations_strict.bins
    assert relations.n == 2
    assert [relations.right, relations.score] == pytest.approx([0.5, 1.65 / 2])
    assert measured.entities.error == pytest.approx(0.1 / 3)


def test_each_relation_of_a_pair_is_judged_and_a_symmetric_one_once() -> None:
    ann, bo = entity(0, score=0.9), entity(4, score=0.9)
    gold = Annotation((ann, bo), (Relation(ann, bo, "Kin"), Relation(ann, bo, "Live_In")))
    kin = Relation(ann, bo, "Kin", 0.8), Relation(bo, ann, "Kin", 0.7)
    found = Annotation((ann, bo), (*kin, Relation(ann, bo, "Live_In", 0.6), Relation(bo, ann, "Live_In", 0.6)))
    (relations,) = measure_confidence([(gold, found)], SCHEMA).relations_strict.bins
    assert relations.n == 3
    assert [relations.right, relations.score] == pytest.approx([2 / 3, 2 / 3])


def test_row_without_a_threshold_has_the_scores_of_the_evaluation() -> None:
    measured, scores = measure_confidence(texts(), SCHEMA), evaluate(texts(), SCHEMA)
    for name, task in measured.tasks():
        first, micro = task.thresholds[0], getattr(scores, name).micro
        assert (first.precision, first.recall, first.f1) == (micro.precision, micro.recall, micro.f1)


def test_rows_by_threshold_have_what_an_extraction_has_above_it() -> None:
    for task, found in rows(texts()).items():
        for threshold, (n, _) in found.items():
            left = Extraction.of("x" * 10, texts()[0][1]).above(threshold)
            assert n == len(left.entities if task == "entities" else left.relations), (task, threshold)
    # Both relations go with an entity that has a lower score than they have themselves.
    assert rows(texts())["relations_strict"][0.6] == (1, 1.0)
    assert rows(texts())["relations_strict"][0.7] == (0, 0.0)


def test_symmetric_relation_counts_once_and_in_both_directions() -> None:
    ann, bo = entity(0), entity(4)
    gold = Annotation((ann, bo), (Relation(ann, bo, "Kin"),))
    both = Annotation((ann, bo), (Relation(bo, ann, "Kin", 0.7), Relation(ann, bo, "Kin", 0.6)))
    (found,) = measure_confidence([(gold, both)], SCHEMA).relations_strict.bins
    assert (found.n, found.right, found.score) == (1, 1.0, 0.7)
    (found,) = measure_confidence([(gold, both)]).relations_strict.bins
    assert (found.n, found.right) == (2, 0.5)


def test_what_has_no_score_is_not_looked_at() -> None:
    gold = texts()[0][0]
    measured = measure_confidence([(gold, gold)], SCHEMA)
    assert (measured.entities.n, measured.entities.error) == (0, None)
    assert measured.to_dict()["relations_strict"]["ece"] is None


def test_given_entities_do_not_count_whatever_scores_they_have() -> None:
    measured = measure_confidence(texts(), SCHEMA, given=True)
    assert (measured.entities.n, measured.relations_strict.n) == (0, 2)
    assert {row.threshold: row.n for row in measured.relations_strict.thresholds}[0.7] == 2
    calibrated = calibrate({"dev": texts() * 50}, SCHEMA, given=True)
    assert calibrated.calibration is not None
    assert calibrated.calibration.entities(0.7) == pytest.approx(0.7)


def test_calibration_is_fitted_to_the_first_part_and_measured_on_all() -> None:
    parts = {"dev": texts() * 50, "test": texts()}
    calibrated = calibrate(parts, SCHEMA)
    assert list(calibrated.before) == list(calibrated.after) == ["dev", "test"]
    assert calibrated.before["test"] == measure_confidence(texts(), SCHEMA)
    assert calibrated.calibration is not None
    mapped = [(gold, calibrated.calibration.apply(found)) for gold, found in texts()]
    assert calibrated.after["test"] == measure_confidence(mapped, SCHEMA)
    before, after = calibrated.before["dev"].relations_strict.error, calibrated.after["dev"].relations_strict.error
    assert before is not None
    assert after is not None
    assert after < before
    assert calibrate({"dev": texts() * 50}, SCHEMA).calibration == calibrated.calibration
    assert calibrated.to_dict()["parts"]["dev"]["after"]["relations_strict"]["ece"] == after


def test_calibration_of_nothing_leaves_scores_as_they_are() -> None:
    calibrated = calibrate({"dev": [(texts()[0][0], Annotation())]}, SCHEMA)
    assert calibrated.calibration is not None
    assert calibrated.calibration.entities(0.7) == pytest.approx(0.7)
    assert calibrated.after["dev"].entities.error is None
