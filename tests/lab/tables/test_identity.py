"""By what runs are known again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from relatum.config import Config, load_config
from relatum.lab.tables.identity import settings_hash, settings_record

pytestmark = pytest.mark.usefixtures("deeds")


def test_hash_is_of_all_settings_but_the_seed_and_what_changes_no_number() -> None:
    def key(*overrides: str, data: str = "abc", with_test: bool = True) -> str:
        config = load_config(None, ["encoder.kind=none", *overrides])
        return settings_hash(settings_record(config), data, with_test)

    assert key() == key("training.seed=7", "encoder.store=name", "encoder.cache=disk")
    assert len({key(), key("model.width=40"), key(data="abd"), key(with_test=False)}) == 4


def test_encoders_side_by_side_are_known_by_their_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, weights in (("one", b"1"), ("other", b"2"), ("copy", b"2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(weights)
    monkeypatch.chdir(tmp_path)

    def record(*beside: str) -> dict[str, Any]:
        settings = settings_record(load_config(None, ["encoder.name=./one", f"encoder.beside={json.dumps(beside)}"]))
        return dict(settings["encoder"])

    assert record("./other") == record(str(tmp_path / "copy"))
    assert record("./other") != record() != record("mpnet-base")
    assert record("mpnet-base")["beside"] == ["mpnet-base"]
    assert record()["beside"] == Config().to_dict()["encoder"]["beside"]
