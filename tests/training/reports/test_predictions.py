"""Predictions that are kept with a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from relatum.config import Config
from relatum.errors import RelatumError
from relatum.evaluation.metrics import evaluate
from relatum.training.corpus import TrainingData
from relatum.training.folder import RunRecord
from relatum.training.loop import train
from relatum.training.reports.predictions import read_predictions, write_predictions
from relatum.types import Annotation, Prediction

from ..conftest import Silent

Start = Callable[[Config], tuple[TrainingData, RunRecord]]
Tiny = Callable[..., Config]


def test_predictions_are_read_as_they_were_written(start: Start, tiny: Tiny, tmp_path: Path) -> None:
    data, _ = start(tiny())
    found = [
        Prediction(example.sentence, Annotation(example.gold.entities, example.gold.relations[1:]), example.id)
        for example in data.train
    ]
    write_predictions(tmp_path, "train", data.train, found)
    pairs = read_predictions(tmp_path, "train").documents
    scores = evaluate(((gold.annotation, one.annotation) for gold, one in pairs), data.schema)
    direct = evaluate(((example.gold, one.found) for example, one in zip(data.train, found, strict=True)), data.schema)
    assert scores == direct
    assert 0 < scores.relations.micro.recall < scores.relations.micro.precision == 1
    assert [gold.id for gold, _ in pairs] == [example.id for example in data.train]


def test_run_keeps_its_predictions_on_dev_and_test(start: Start, tiny: Tiny, tmp_path: Path) -> None:
    data, record = start(tiny("evaluation.entities=gold", "training.steps=2"))
    result = train(data, record, tmp_path / "run", device=torch.device("cpu"), monitor=Silent())
    for part, scores in (("dev", result.dev), ("test", result.test)):
        pairs = read_predictions(tmp_path / "run" / "predictions", part).documents
        assert len(pairs) == len(data.parts[part])
        assert evaluate(((gold.annotation, found.annotation) for gold, found in pairs), data.schema) == scores
    assert result.dev is not None
    assert result.dev.entities.micro.f1 == 1.0, "nothing was found, and nothing compared"
    with pytest.raises(RelatumError, match=r"train-gold\.jsonl: there is no such file"):
        read_predictions(tmp_path / "run" / "predictions", "train")


def test_predictions_that_were_changed_are_refused(tmp_path: Path) -> None:
    sentence = {"id": "1", "words": ["Oslo"], "entities": [], "relations": []}
    (tmp_path / "dev-gold.jsonl").write_text(json.dumps(sentence) + "\n")
    (tmp_path / "dev.jsonl").write_text("{\n")
    with pytest.raises(RelatumError, match="must not be changed"):
        read_predictions(tmp_path, "dev")
