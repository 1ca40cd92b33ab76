"""`result.json`: written, read again, of earlier versions, and damaged."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from relatum.config import load_config
from relatum.errors import RelatumError
from relatum.evaluation.confidence import Calibrated
from relatum.training.corpus import load_training_data
from relatum.training.folder import RunRecord
from relatum.training.loop import train
from relatum.training.result import LeftOut, RunResult
from relatum.training.run import Run

from ..small_results import make_result, make_scores
from .conftest import TINY, Silent

LATER = ("steps", "stopped_early", "messages", "part_cells", "ceiling", "confidence")
"""Keys that the earliest version did not write."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, small_corpus: Path) -> Run:
    config = load_config(None, TINY)
    data = load_training_data(small_corpus, config)
    record = RunRecord(config, str(small_corpus), None, None, "cpu", "relatum train", data.fingerprint())
    path = tmp_path_factory.mktemp("result") / "run"
    return train(data, record, path, device=torch.device("cpu"), monitor=Silent())


def test_result_that_is_read_is_written_again_byte_by_byte(run: Run) -> None:
    text = (run.folder / "result.json").read_text(encoding="utf-8")
    result = RunResult.read(run.folder / "result.json")
    assert json.dumps(result.to_dict(), ensure_ascii=False, indent=2) + "\n" == text
    assert result.confidence == run.result.confidence
    assert result.data == run.result.data
    assert len(result.history) == 3


def test_run_is_read_from_its_folder(run: Run) -> None:
    again = Run.read(str(run.folder))
    assert again.model == run.model == run.folder / "model"
    assert again.dev is not None
    assert run.dev is not None
    assert again.dev.to_dict() == run.dev.to_dict()
    assert again.ceilings["test"].entities.micro == run.ceilings["test"].entities.micro
    assert again.load(device="cpu").predict([]) == []


def test_result_of_the_earliest_version_is_read(tmp_path: Path) -> None:
    values = make_result(config=load_config(None, ["training.steps=9"])).to_dict()
    values = {key: value for key, value in values.items() if key not in LATER}
    values["data"]["parts"] = {"train": {"sentences": 3, "entities": {"Loc": 2}, "relations": {}}}
    (tmp_path / "result.json").write_text(json.dumps(values))
    result = RunResult.read(tmp_path / "result.json")
    assert (result.steps, result.stopped_early, result.messages, result.ceilings) == (9, False, (), None)
    assert result.confidence == Calibrated(None, {}, {})
    assert result.data.parts["train"].left_out == LeftOut(0, 0)
    assert result.data.parts["train"].n_entities == 2


def test_settings_of_a_result_may_name_functions_that_are_not_imported(tmp_path: Path) -> None:
    values = make_result().to_dict()
    values["config"]["text"]["words"] = "stranger:split"
    (tmp_path / "result.json").write_text(json.dumps(values))
    assert RunResult.read(tmp_path / "result.json").config.text.words == "stranger:split"
    assert "stranger" not in sys.modules


def _forget(*keys: str) -> Callable[[dict[str, Any]], None]:
    """Return a function that removes a value from nested objects."""

    def forget(values: dict[str, Any]) -> None:
        for key in keys[:-1]:
            values = values[key]
        del values[keys[-1]]

    return forget


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (_forget("seed"), r"seed: Field required"),
        (_forget("best", "step"), r"best\.step: Field required"),
        (_forget("data", "sha256"), r"data\.sha256: Field required"),
        (_forget("dev", "relations"), r"dev\.relations: Field required"),
        (_forget("config"), r"there is no 'config'"),
        (_forget("history"), r"there is no 'history'"),
        (lambda values: values["dev"]["entities"]["micro"].update(f1="high"), r"dev\.entities\.micro\.f1: .*number"),
        (lambda values: values["config"]["training"].update(steps=-1), r"training\.steps: "),
        (lambda values: values["confidence"].update(parts=3), r"parts|items"),
    ],
)
def test_damaged_result_is_named_with_its_fault_and_cure(
    tmp_path: Path, damage: Callable[[dict[str, Any]], None], what: str
) -> None:
    values = make_result(dev=make_scores(0.5)).to_dict()
    damage(values)
    path = tmp_path / "result.json"
    path.write_text(json.dumps(values))
    with pytest.raises(RelatumError, match=f"{path}: not the result of a run of this version: .*{what}") as caught:
        RunResult.read(path)
    assert f"remove it, and have it written again by relatum train --resume {tmp_path}" in str(caught.value)
