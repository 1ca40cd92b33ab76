"""The threshold of relations that is fitted on dev."""

from __future__ import annotations

from relatum.training.thresholds import THRESHOLDS, fit_threshold
from relatum.types import Annotation, Entity, Prediction, Relation, Sentence, Span

A, B = Entity(Span(0, 1), "X"), Entity(Span(1, 2), "X")
SENTENCE = Sentence(("a", "b"))


def predict(*scores: float) -> list[Prediction]:
    """Return a prediction with a relation of each score."""
    relations = [Relation(A, B, f"r{number}", score) for number, score in enumerate(scores)]
    return [Prediction(SENTENCE, Annotation((A, B), tuple(relations)))]


def test_threshold_is_the_one_with_the_highest_score() -> None:
    found = predict(0.12, 0.22, 0.32, 0.52, 0.72)
    for wanted, threshold in ((5, 0.1), (4, 0.2), (3, 0.3), (2, 0.5), (1, 0.55)):
        best = fit_threshold(found, lambda kept, n=wanted: -abs(sum(len(p.found.relations) for p in kept) - n))  # type: ignore[misc]
        assert best == threshold, f"{wanted} relations are right, and of equal thresholds the nearest to 0.5 is taken"


def test_relation_at_the_threshold_is_not_kept_and_entities_are() -> None:
    seen: list[Prediction] = []

    def score(kept: list[Prediction]) -> float:
        seen.extend(kept)
        return 0.0

    assert fit_threshold(predict(0.5), score) == 0.5
    assert len(seen) == len(THRESHOLDS)
    assert {one.found.entities for one in seen} == {(A, B)}
    kept = [threshold for threshold, one in zip(THRESHOLDS, seen, strict=True) if one.found.relations]
    assert kept == [threshold for threshold in THRESHOLDS if threshold < 0.5]
