"""Scoring a model on annotated data by one call."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import relatum
from relatum.errors import ConfigError, DataError, RelatumError
from relatum.extractor.finding import find_model

from ..small_models import make_small_model


@pytest.fixture(scope="module")
def news() -> relatum.Extractor:
    return relatum.Extractor.from_pretrained("news", "cpu")


@pytest.fixture
def dev(examples_folder: Path) -> Path:
    return examples_folder / "news" / "dev.jsonl"


def test_scores_are_those_of_what_the_model_predicts(news: relatum.Extractor, examples_folder: Path) -> None:
    found = relatum.evaluate_model(news, examples_folder / "news")
    again = news.predict([example.sentence for example in found.examples])
    assert [one.found for one in again] == [one.found for one in found.predictions]
    pairs = [(example.gold, one.found) for example, one in zip(found.examples, again, strict=True)]
    assert found.scores == relatum.evaluate(pairs, news.model.schema)
    assert len(found.examples) == 23
    assert 0 < found.scores.relations_strict.micro.f1 < 1
    record = found.to_dict()
    assert record["entities"] == found.scores.entities.to_dict()
    assert set(record) == {"entities", "relations", "relations_strict", "ceiling", "confidence"}


def test_model_is_a_name_a_folder_or_an_extractor(news: relatum.Extractor, dev: Path) -> None:
    expected = relatum.evaluate_model(news, dev).scores
    for model in ("news", find_model("news"), ["news"]):
        found = relatum.evaluate_model(model, str(dev), device="cpu", batch_size=3)
        assert (found.scores, found.n_models, found.extractor.batch_size) == (expected, 1, 3)


def test_several_models_are_an_ensemble(news: relatum.Extractor, dev: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(find_model("news"), tmp_path / "copy")
    found = relatum.evaluate_model(["news", copy], dev, device="cpu")
    assert found.n_models == 2
    assert found.scores == relatum.evaluate_model(news, dev).scores, "two equal models are of one mind"


def test_gold_entities_are_given_to_the_model(news: relatum.Extractor, dev: Path) -> None:
    found = relatum.evaluate_model(news, dev, gold_entities=True)
    assert found.gold_entities
    assert found.scores.entities.micro.f1 == 1
    assert found.confidence is not None
    assert found.confidence.entities.n == 0


def test_bootstrap_gives_intervals_by_its_seed(news: relatum.Extractor, dev: Path) -> None:
    first, same, other = (relatum.evaluate_model(news, dev, bootstrap=20, seed=seed).intervals for seed in (4, 4, 5))
    assert first is not None
    assert (first.n_resamples, first.seed) == (20, 4)
    assert first == same != other
    assert relatum.evaluate_model(news, dev).intervals is None


def test_predictions_can_be_written(news: relatum.Extractor, dev: Path, tmp_path: Path) -> None:
    found = relatum.evaluate_model(news, dev)
    found.write_predictions(str(tmp_path / "found.jsonl"))
    documents = relatum.load_documents(tmp_path / "found.jsonl")
    assert [document.id for document in documents] == [example.id for example in found.examples]
    n_entities = sum(len(document.annotation.entities) for document in documents)
    assert n_entities == sum(len(one.found.entities) for one in found.predictions) > 0


def test_types_that_the_model_does_not_know_are_remarked_on(news: relatum.Extractor, examples_folder: Path) -> None:
    said: list[str] = []
    drugs = examples_folder / "drugs" / "dev.jsonl"
    found = relatum.evaluate_model(news, drugs, monitor=said.append)
    (remark,) = found.remarks
    assert remark.startswith(f"news does not know these types of {drugs}, and finds none of them: ")
    assert "Drug" in remark
    assert said == [f"relatum: {remark}"]


def test_progress_ends_with_all_sentences(news: relatum.Extractor, dev: Path) -> None:
    calls: list[tuple[int, int]] = []
    found = relatum.evaluate_model(news, dev, on_progress=lambda n_read, n_all: calls.append((n_read, n_all)))
    assert calls[-1] == (len(found.examples), len(found.examples))
    assert calls == sorted(calls)


def test_gold_that_the_model_cannot_express_is_refused_or_counts_as_missed(tmp_path: Path) -> None:
    flat = relatum.Extractor(make_small_model())
    entities = [{"start": 0, "end": 2, "label": "Peop"}, {"start": 0, "end": 1, "label": "Loc"}]
    path = tmp_path / "nested.jsonl"
    path.write_text(json.dumps({"words": ["Anna", "Berg"], "entities": entities}))
    with pytest.raises(DataError, match="keep-longest"):
        relatum.evaluate_model(flat, path)
    found = relatum.evaluate_model(flat, path, overlaps="keep-longest")
    assert found.scores.entities.micro.support == 2
    assert found.ceiling is not None
    assert found.ceiling.entities.micro.recall == 0.5
    assert "annotations that are left out count as missed in all scores" in found.remarks


def test_wrong_arguments_are_named_with_the_cure(news: relatum.Extractor, dev: Path) -> None:
    with pytest.raises(RelatumError, match=r"new: no such model \(did you mean 'news'\?\); name a directory"):
        relatum.evaluate_model("new", dev)
    with pytest.raises(TypeError, match="expected the name of a model or the path of its folder"):
        relatum.evaluate_model(None, dev)  # type: ignore[arg-type]
    with pytest.raises(RelatumError, match="an ensemble needs at least one model"):
        relatum.evaluate_model([], dev)
    with pytest.raises(RelatumError, match="nowhere: no such file or folder"):
        relatum.evaluate_model(news, "nowhere")
    with pytest.raises(RelatumError, match="news: found the parts train, dev, test; name one of them"):
        relatum.evaluate_model(news, dev.parent, "tset")
    with pytest.raises(RelatumError, match="bootstrap is 0; expected at least 1 resample, or None"):
        relatum.evaluate_model(news, dev, bootstrap=0)
    with pytest.raises(RelatumError, match="seed is -1; expected 0 or more"):
        relatum.evaluate_model(news, dev, bootstrap=5, seed=-1)
    with pytest.raises(ConfigError, match='crossing: found "maybe"; expected "fail", "drop" or "join"'):
        relatum.evaluate_model(news, dev, crossing="maybe")  # type: ignore[arg-type]
    with pytest.raises(RelatumError, match="device, ensemble: the model is an Extractor, which is loaded already"):
        relatum.evaluate_model(news, dev, device="cpu", ensemble=True)
    with pytest.raises(RelatumError, match=r"no runs were started here \(there is no runs\.json\)"):
        relatum.evaluate_model(dev.parent, dev, ensemble=True)
    with pytest.raises(TypeError, match="devise"):
        relatum.evaluate_model("news", dev, devise="cpu")  # type: ignore[call-arg]
