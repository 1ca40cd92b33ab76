"""Calibrating a model by one call."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import relatum
from relatum.errors import RelatumError
from relatum.extractor.finding import find_model


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A copy of a model that comes with relatum."""
    return Path(shutil.copytree(find_model("news"), tmp_path / "model"))


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_calibration_is_saved_with_the_model_and_returned(model: Path, examples_folder: Path) -> None:
    before = files(model)
    calls: list[tuple[int, int]] = []
    found = relatum.calibrate(
        model,
        examples_folder / "news",
        "train",
        device="cpu",
        on_progress=lambda n_read, n_all: calls.append((n_read, n_all)),
    )
    assert found.folder == model
    changed = {name for name, content in files(model).items() if content != before[name]}
    assert changed == {"README.md", "config.json", "manifest.json"}
    saved = json.loads((model / "config.json").read_text())["calibration"]
    assert saved["entities"]["temperature"] == pytest.approx(found.calibration.entities.temperature)
    assert calls[-1] == (100, 100)


def test_copy_finds_the_same_with_the_calibrated_scores(examples_folder: Path, tmp_path: Path) -> None:
    data = examples_folder / "news" / "train.jsonl"
    found = relatum.calibrate("news", str(data), out=str(tmp_path / "own"), device="cpu")
    assert found.folder == tmp_path / "own"
    assert found.before.entities.n == found.after.entities.n > 50
    assert (found.after.entities.error or 1) < (found.before.entities.error or 0)
    assert found.before.relations_strict.n == found.after.relations_strict.n > 50
    assert (found.after.relations_strict.error or 1) < (found.before.relations_strict.error or 0) / 2
    evaluated = relatum.evaluate_model(tmp_path / "own", data, device="cpu")
    assert evaluated.confidence == found.after
    assert evaluated.scores == relatum.evaluate_model("news", data, device="cpu").scores
    assert found.ceiling == evaluated.ceiling


def test_remarks_are_heard_and_returned(model: Path, examples_folder: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    shutil.copy(examples_folder / "news" / "dev.jsonl", data / "mine.jsonl")
    said: list[str] = []
    found = relatum.calibrate(model, data, device="cpu", monitor=said.append)
    assert found.remarks == (f"{data / 'mine.jsonl'} is the only part and is taken",)
    assert said == [f"relatum: {remark}" for remark in found.remarks]


def test_wrong_arguments_are_named_and_change_nothing(model: Path, examples_folder: Path, tmp_path: Path) -> None:
    before, news = files(model), examples_folder / "news"
    with pytest.raises(RelatumError, match=r"news comes with relatum and is not changed; name a folder .*out"):
        relatum.calibrate("news", news)
    with pytest.raises(RelatumError, match="nowhere: no such model"):
        relatum.calibrate("nowhere", news)
    with pytest.raises(RelatumError, match="nowhere: no such file or folder"):
        relatum.calibrate(model, "nowhere")
    with pytest.raises(RelatumError, match="found the parts train, dev, test; name one of them"):
        relatum.calibrate(model, news, "tset")
    with pytest.raises(RelatumError, match="not empty"):
        relatum.calibrate(model, news, out=news, device="cpu")
    with pytest.raises(TypeError, match="expected the name of a model or the path of its folder"):
        relatum.calibrate(["news"], news, out=tmp_path / "own")  # type: ignore[arg-type]
    assert files(model) == before
    assert not (tmp_path / "own").exists()
