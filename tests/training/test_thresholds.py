"""The thresholds of entities and relations that are fitted on dev."""

from __future__ import annotations

import logging

import pytest

from relatum.models.model import Model
from relatum.training.thresholds import THRESHOLDS, fit_thresholds
from relatum.types import Annotation, Entity, Prediction, Relation, Sentence, Span

from ..small_models import make_small_model, make_small_span_model

A, B = Entity(Span(0, 1), "X"), Entity(Span(1, 2), "X")
SENTENCE = Sentence(("a", "b"))
SCORES = (0.12, 0.22, 0.32, 0.52, 0.72)


def predict(model: Model) -> list[Prediction]:
    """Return the entities and relations with some scores that exceed the thresholds of a model."""
    decoding = model.config.decoding
    entities = [
        Entity(Span(n, n + 1), "X", score=s) for n, s in enumerate(SCORES) if s > (decoding.entity_threshold or 0.5)
    ]
    relations = [Relation(A, B, f"r{n}", s) for n, s in enumerate(SCORES) if s > (decoding.relation_threshold or 0.5)]
    return [Prediction(SENTENCE, Annotation(tuple(entities), tuple(relations)))]


def fit(model: Model, n_entities: int, n_relations: int) -> tuple[float | None, float | None]:
    """Fit the thresholds, where so many entities and relations are best."""
    fitted, found = fit_thresholds(
        model,
        predict,
        lambda kept: -abs(sum(len(one.found.entities) for one in kept) - n_entities),
        lambda kept: -abs(sum(len(one.found.relations) for one in kept) - n_relations),
    )
    assert found == predict(fitted), "the predictions are those of the fitted model"
    return fitted.config.decoding.entity_threshold, fitted.config.decoding.relation_threshold


@pytest.fixture(scope="module")
def model() -> Model:
    return make_small_span_model()


@pytest.mark.parametrize(("wanted", "threshold"), [(5, 0.1), (4, 0.2), (3, 0.3), (2, 0.5), (1, 0.55), (0, 0.75)])
def test_thresholds_are_those_with_the_highest_score(model: Model, wanted: int, threshold: float) -> None:
    other = 3 if wanted != 3 else 1
    expected = 0.3 if wanted != 3 else 0.55
    assert fit(model, wanted, other) == (threshold, expected), "of equal thresholds the nearest to 0.5 is taken"
    assert fit(model, other, wanted) == (expected, threshold)


def test_thresholds_that_are_set_stay_as_they_are() -> None:
    assert fit(make_small_span_model("decoding.entity_threshold=0.33"), 5, 5) == (0.33, 0.1)
    assert fit(make_small_span_model("decoding.relation_threshold=0.33"), 5, 5) == (0.1, 0.33)


def test_threshold_of_given_entities_is_not_fitted() -> None:
    assert fit(make_small_span_model("evaluation.entities=gold"), 5, 5) == (None, 0.1)


def test_the_papers_tagging_has_no_thresholds() -> None:
    assert fit(make_small_model(), 5, 5) == (None, None)


def test_relations_are_fitted_among_the_entities_that_are_found(model: Model) -> None:
    thresholds = []

    def note(one: Model) -> list[Prediction]:
        decoding = one.config.decoding
        thresholds.append((decoding.entity_threshold, decoding.relation_threshold))
        return predict(one)

    fit_thresholds(model, note, lambda kept: -abs(len(kept[0].found.entities) - 3), lambda _: 0.0)
    assert thresholds == [(THRESHOLDS[0], None), (0.3, THRESHOLDS[0])]


def test_only_the_fitted_thresholds_warn_of_too_many_findings(model: Model, caplog: pytest.LogCaptureFixture) -> None:
    def warn(one: Model) -> list[Prediction]:
        decoding = one.config.decoding
        thresholds = decoding.entity_threshold, decoding.relation_threshold
        logging.getLogger("relatum.decoding.spans").warning("too many above %s", thresholds)
        return predict(one)

    fit_thresholds(model, warn, lambda _: 0.0, lambda _: 0.0)
    assert not caplog.records, "the lowest thresholds are only a way to the fitted ones"
    given = make_small_span_model("decoding.entity_threshold=0.4", "decoding.relation_threshold=0.6")
    fit_thresholds(given, warn, lambda _: 0.0, lambda _: 0.0)
    assert [record.getMessage() for record in caplog.records] == ["too many above (0.4, 0.6)"]
