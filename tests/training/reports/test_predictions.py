"""Predictions that are kept with a run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from relatum.config import Config
from relatum.errors import RelatumError
from relatum.evaluation.metrics import evaluate
from relatum.lab.comparison import TwoRuns, compare_runs
from relatum.training.corpus import TrainingData, load_training_data
from relatum.training.folder import RunRecord
from relatum.training.loop import train
from relatum.training.reports.predictions import read_predictions, write_predictions
from relatum.training.result import LeftOut
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


def test_run_scores_all_gold_where_some_of_it_cannot_be_learned(small_corpus: Path, tiny: Tiny, tmp_path: Path) -> None:
    """Overlapping entities and relations between sentences count in dev scores, test scores and every report."""
    spans = {"a": (0, 4, "Nickname"), "b": (5, 8, "Peop"), "c": (0, 8, "Peop"), "d": (20, 24, "Loc")}
    entities = [{"id": name, "start": one[0], "end": one[1], "label": one[2]} for name, one in spans.items()]
    relation = {"head": "c", "tail": "d", "label": "Live_In"}
    crowded = {"id": "x", "text": "Anna Lee slept.\n\nIn Oslo now.", "entities": entities, "relations": [relation]}
    shutil.copytree(small_corpus, tmp_path / "data")
    for part in ("dev", "test"):
        with (tmp_path / "data" / f"{part}.jsonl").open("a") as file:
            file.write(json.dumps(crowded) + "\n")
    config = tiny(
        "data.overlaps=keep-longest", "data.crossing=drop", "training.steps=4", "evaluation.macro_over=schema"
    )
    data = load_training_data(tmp_path / "data", config)
    record = RunRecord(config, str(tmp_path / "data"), None, None, "cpu", "relatum train …", data.fingerprint())
    monitor = Silent()
    run = tmp_path / "run"
    result = train(data, record, run, device=torch.device("cpu"), monitor=monitor)
    n_entities = sum(len(example.gold.entities) for example in data.dev) + 2
    n_relations = sum(len(example.gold.relations) for example in data.dev) + 1
    assert result.dev is not None
    for scores in (result.dev, monitor.evaluations[0][0].dev):
        assert scores is not None
        assert scores.entities.micro.support == n_entities
        assert scores.relations_strict.micro.support == n_relations
    best = result.ceilings["dev"]
    assert best.entities.micro.recall == pytest.approx(1 - 2 / n_entities)
    assert best.relations.micro.recall == pytest.approx(1 - 1 / n_relations)
    assert result.result.data.parts["dev"].left_out == LeftOut(entities=2, relations=1)
    pairs = read_predictions(run / "predictions", "dev").documents
    # The schema lacks a type that only left-out gold has: the macro average is over all types.
    assert evaluate(((gold.annotation, one.annotation) for gold, one in pairs), data.schema, "all") == result.dev
    assert result.dev.entities.types["Nickname"].support == 1
    alike = compare_runs(run, Path(shutil.copytree(run, tmp_path / "again")), "dev", 10)
    assert isinstance(alike, TwoRuns)
    assert alike.n_sentences == len(pairs)
    assert "ceiling" in (run / "summary.txt").read_text()
    assert "ceiling, micro" in (run / "report.html").read_text()
    assert "- dev: NER recall" in (run / "model" / "README.md").read_text()
    assert any(said.startswith("dev: gold that the model cannot find") for said in monitor.said)
    thresholds = result.result.confidence.after["dev"].entities.thresholds
    assert thresholds[0].recall == pytest.approx(result.dev.entities.micro.recall)


def test_predictions_that_were_changed_are_refused(tmp_path: Path) -> None:
    sentence = {"id": "1", "words": ["Oslo"], "entities": [], "relations": []}
    (tmp_path / "dev-gold.jsonl").write_text(json.dumps(sentence) + "\n")
    (tmp_path / "dev.jsonl").write_text("{\n")
    with pytest.raises(RelatumError, match="must not be changed"):
        read_predictions(tmp_path, "dev")
