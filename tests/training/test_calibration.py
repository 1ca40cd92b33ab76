"""A run fits the scores of its model to dev when it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from relatum import Extractor, load_documents
from relatum.config import Config, load_config
from relatum.evaluation.confidence import measure_confidence
from relatum.models.checkpoint import load_model
from relatum.training.corpus import TrainingData, load_training_data
from relatum.training.folder import RunRecord
from relatum.training.loop import predict, train

from .conftest import TINY, Silent

CPU = torch.device("cpu")
LEARNS = (
    "training.steps=240",
    "training.evaluate_every=120",
    "training.learning_rate=1e-2",
    "training.relation_weight=0.1",
    "model.n_layers=1",
    "model.initialisation=torch",  # with which these few updates find enough
    "model.dropout=0",
)
ENDS = ("model/config.json", "model/README.md", "predictions/dev.jsonl", "predictions/test.jsonl")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, small_corpus: Path) -> Path:
    path, config = tmp_path_factory.mktemp("calibrated") / "run", load_config(None, [*TINY, *LEARNS])
    data = load_training_data(small_corpus, config)
    record = RunRecord(config, str(small_corpus), None, None, "cpu", "", data.fingerprint())
    train(data, record, path, device=CPU, monitor=Silent())
    return path


@pytest.fixture
def confidence(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "result.json").read_text())["confidence"]
    return found


def test_calibration_is_that_of_the_result_and_saved_with_the_model(run: Path, confidence: dict[str, Any]) -> None:
    assert json.loads((run / "model" / "config.json").read_text())["calibration"] == confidence["calibration"]
    assert confidence["calibration"]["entities"]["temperature"] != 1
    assert list(confidence["parts"]) == ["dev", "test"]
    assert confidence["parts"]["dev"]["before"]["entities"]["n"] > 5


def test_errors_are_those_of_the_saved_model(run: Path, small_corpus: Path, confidence: dict[str, Any]) -> None:
    model = load_model(run / "model")
    data = load_training_data(small_corpus, model.config)
    for part in ("dev", "test"):
        examples = data.parts[part]
        pairs = [(example.gold, one.found) for example, one in zip(examples, predict(model, examples), strict=True)]
        measured = json.loads(json.dumps(measure_confidence(pairs, data.schema).to_dict()))
        assert measured == confidence["parts"][part]["after"]
        assert measured != confidence["parts"][part]["before"]
    dev = confidence["parts"]["dev"]
    assert dev["after"]["entities"]["ece"] < dev["before"]["entities"]["ece"]


def test_predictions_have_the_scores_of_the_saved_model(run: Path, small_corpus: Path) -> None:
    extractor = Extractor.from_pretrained(run / "model", "cpu")
    data = load_training_data(small_corpus, extractor.model.config)
    found = [one.found for one in extractor.predict([example.sentence for example in data.dev])]
    written = [document.annotation for document in load_documents(run / "predictions" / "dev.jsonl")]
    scores, expected = (
        [entity.score for annotation in side for entity in annotation.entities] for side in (written, found)
    )
    assert scores == pytest.approx(expected, abs=1e-4)
    assert scores


def test_card_and_summary_have_the_errors(run: Path, confidence: dict[str, Any]) -> None:
    card, summary = (run / "model" / "README.md").read_text(), (run / "summary.txt").read_text()
    assert card.index("## Scores") < card.index("## Confidence") < card.index("## How it was made")
    for part, measured in confidence["parts"].items():
        before, after = (f"{100 * measured[when]['entities']['ece']:.2f}" for when in ("before", "after"))
        assert f"| {part} | entities | {measured['after']['entities']['n']} | {before} | {after} |" in card
        assert any(line.split()[:3] == [part, before, after] for line in summary.splitlines())
        assert f'<td class="n">{before}</td><td class="n">{after}</td>' in (run / "report.html").read_text()


def test_run_that_is_ended_again_calibrates_scores_once(run: Path, small_corpus: Path) -> None:
    before = {name: (run / name).read_bytes() for name in ENDS}
    result = json.loads((run / "result.json").read_text())
    (run / "result.json").unlink()
    config = load_config(None, [*TINY, *LEARNS])
    data = load_training_data(small_corpus, config)
    record = RunRecord(config, str(small_corpus), None, None, "cpu", "", data.fingerprint())
    train(data, record, run, device=CPU, monitor=Silent(), resume=True)
    assert {name: (run / name).read_bytes() for name in ENDS} == before
    assert json.loads((run / "result.json").read_text())["confidence"] == result["confidence"]


def test_given_entities_are_not_calibrated(
    start: Callable[[Config], tuple[TrainingData, RunRecord]], tiny: Callable[..., Config], tmp_path: Path
) -> None:
    data, record = start(tiny("evaluation.entities=gold"))
    found = train(data, record, tmp_path / "run", device=CPU, monitor=Silent()).result.to_dict()["confidence"]
    assert found["calibration"]["entities"] == {"temperature": 1.0, "bias": 0.0}
    assert found["parts"]["dev"]["after"]["entities"]["ece"] is None
