"""The calibration of a model: saved with it, checked when it is read, and replaced by another."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relatum.data import atomic
from relatum.errors import RelatumError
from relatum.models.checkpoint import copy_model, load_model, save_model, write_calibration
from relatum.types import Calibration, ScoreMap

from ..small_models import seal

OWN = Calibration(ScoreMap(4.25, -0.5), ScoreMap(3.5))


@pytest.fixture
def saved(make_model: Any, tmp_path: Path) -> Path:
    save_model(make_model(encoder=False), tmp_path / "model", "# A card\n")
    return tmp_path / "model"


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_calibration_survives_saving_and_loading(make_model: Any, tmp_path: Path) -> None:
    save_model(replace(make_model(encoder=False), calibration=OWN), tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.calibration == OWN
    save_model(loaded, tmp_path / "again")
    assert files(tmp_path / "again") == files(tmp_path / "model")


def test_model_without_calibration_has_no_such_key(saved: Path) -> None:
    assert "calibration" not in json.loads((saved / "config.json").read_text())
    assert load_model(saved).calibration is None


def test_calibration_is_written_into_a_model_and_changes_nothing_else(saved: Path) -> None:
    before = files(saved)
    write_calibration(saved, OWN, "# Another card\n")
    after = files(saved)
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {"README.md", "config.json", "manifest.json"}
    assert after["README.md"] == b"# Another card\n"
    record = json.loads(after["config.json"])
    assert record.pop("calibration") == {
        "entities": {"temperature": 4.25, "bias": -0.5},
        "relations": {"temperature": 3.5, "bias": 0.0},
    }
    assert record == json.loads(before["config.json"])
    assert load_model(saved).calibration == OWN
    write_calibration(saved, Calibration(), "")
    assert load_model(saved).calibration == Calibration()


def test_failure_while_writing_leaves_the_model_as_it_was(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files(saved)

    def fail(path: Path) -> None:
        raise OSError(f"no room for {path}")

    monkeypatch.setattr(atomic, "_sync", fail)
    with pytest.raises(OSError, match="no room"):
        write_calibration(saved, OWN, "# Another card\n")
    assert files(saved) == before


def test_folder_that_is_no_model_gets_no_calibration(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(RelatumError, match="there is no manifest"):
        write_calibration(tmp_path, OWN, "")
    assert files(tmp_path) == {"config.json": b"{}"}


def test_copy_is_made_whole_or_not_at_all(saved: Path, tmp_path: Path) -> None:
    with copy_model(saved, tmp_path / "copy") as draft:
        write_calibration(draft, OWN, "# Card\n")
        assert not (tmp_path / "copy").exists()
    assert load_model(tmp_path / "copy").calibration == OWN
    assert load_model(saved).calibration is None
    with pytest.raises(KeyError), copy_model(saved, tmp_path / "second"):
        raise KeyError
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy", "model"]
    with pytest.raises(RelatumError, match="not empty"), copy_model(saved, tmp_path / "copy"):
        pass


GOOD = {"temperature": 1.5, "bias": 0}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "found NoneType for 'calibration', expected dict"),
        ({}, "found no 'entities', expected dict"),
        ({"entities": GOOD}, "found no 'relations'"),
        ({"entities": GOOD, "relations": [1, 2]}, "found list for 'relations'"),
        ({"entities": GOOD, "relations": {"temperature": 1.5}}, "found no 'bias', expected float"),
        ({"entities": GOOD, "relations": {"temperature": "1.5", "bias": 0.0}}, "found str for 'temperature'"),
        ({"entities": GOOD, "relations": {"temperature": True, "bias": 0.0}}, "found bool for 'temperature'"),
        ({"entities": {"temperature": 0, "bias": 0}, "relations": GOOD}, "no usable calibration of entities"),
        ({"entities": GOOD, "relations": {"temperature": -1, "bias": 0}}, "no usable calibration of relations"),
        ({"entities": GOOD, "relations": {"temperature": float("nan"), "bias": 0}}, "no usable calibration"),
        ({"entities": GOOD, "relations": {"temperature": 1, "bias": float("inf")}}, "no usable calibration"),
        ({"entities": GOOD, "relations": {"temperature": 10**400, "bias": 0}}, "no usable calibration"),
    ],
)
def test_wrong_calibration_is_refused(saved: Path, value: object, message: str) -> None:
    path = saved / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"calibration": value}))
    seal(saved)
    with pytest.raises(RelatumError, match=message) as caught:
        load_model(saved)
    assert str(path) in str(caught.value)
    assert "relatum train" in str(caught.value)


def test_whole_numbers_are_numbers(saved: Path) -> None:
    path = saved / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"calibration": {"entities": GOOD, "relations": GOOD}}))
    seal(saved)
    assert load_model(saved).calibration == Calibration(ScoreMap(1.5), ScoreMap(1.5))
