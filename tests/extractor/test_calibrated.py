"""Calibrated scores: what is found is the same, in windows too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from relatum.extractor.extractor import Extractor
from relatum.types import Calibration, Entity, ScoreMap, Span

from .test_extractor import TEXT, make_extractor, sentence

OWN = Calibration(ScoreMap(3.0, -0.5), ScoreMap(2.0))


def calibrated(extractor: Extractor) -> Extractor:
    return Extractor(replace(extractor.model, calibration=OWN))


@pytest.mark.parametrize("settings", [(), ("extraction.max_words=6", "extraction.overlap=3")])
def test_calibration_changes_scores_and_not_what_is_found(settings: tuple[str, ...]) -> None:
    plain = make_extractor(*settings)
    words = sentence(f"{TEXT} {TEXT}")
    (before,), (after,) = plain.predict([words]), calibrated(plain).predict([words])
    assert after == before
    assert after.found.relations
    for own, new in zip(before.found.entities, after.found.entities, strict=True):
        assert own.score is not None
        assert new.score == OWN.entities(own.score) != own.score
    for one, other in zip(before.found.relations, after.found.relations, strict=True):
        assert one.score is not None
        assert other.score == OWN.relations(one.score) != one.score
    assert {relation.head.score for relation in after.found.relations} <= {e.score for e in after.found.entities}


def test_given_entities_keep_their_scores_and_relations_get_calibrated_ones() -> None:
    plain, words = make_extractor(), sentence(TEXT)
    given = [[replace(entity, score=0.25) for entity in plain.predict([words])[0].found.entities]]
    (before,), (after,) = plain.predict([words], given), calibrated(plain).predict([words], given)
    assert after == before
    assert {entity.score for entity in after.found.entities} == {0.25}
    scores = [relation.score for relation in before.found.relations]
    assert [one.score for one in after.found.relations] == [OWN.relations(score) for score in scores if score]
    assert scores


def test_given_entities_without_scores_have_none() -> None:
    (found,) = calibrated(make_extractor()).predict([sentence(TEXT)], [[Entity(Span(0, 2), "Peop")]])
    assert [entity.score for entity in found.found.entities] == [None]


def test_calibration_is_saved_with_the_extractor(tmp_path: Path) -> None:
    own = calibrated(make_extractor())
    own.save(tmp_path / "model")
    loaded = Extractor.from_pretrained(tmp_path / "model", "cpu")
    assert loaded.model.calibration == OWN
    assert loaded(TEXT).to_dict() == own(TEXT).to_dict()
