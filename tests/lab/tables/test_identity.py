"""By what runs are known again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relatum.config import Config, load_config, load_record
from relatum.errors import ConfigError
from relatum.lab.tables import identity
from relatum.lab.tables.identity import as_older, settings_hash, settings_record
from relatum.lab.tables.making import make_tables
from relatum.lab.tables.planning import Planner
from relatum.lab.tables.selection import Request, select_rows

from .conftest import TINY

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
    assert record()["beside"] == Config().to_dict()["encoder"]["beside"], "or older runs would not be known"


def test_settings_that_were_not_known_count_only_where_they_differ_from_the_default() -> None:
    record, older = Config().to_dict(), Config().to_dict()
    del older["training"]["clip_norm"], older["decoding"]
    assert as_older(record, older) == older
    assert as_older(record, record) == record
    record["training"]["clip_norm"] = 3.0
    assert as_older(record, older)["training"]["clip_norm"] == 3.0


def test_settings_whose_default_is_new_tell_older_runs_apart() -> None:
    """Runs of versions without model.initialisation began with torch's values, which is no longer the default."""
    older = Config().to_dict()
    del older["model"]["initialisation"], older["tagging"]["conflicts"]
    assert load_record(older).model.initialisation == "torch"
    assert load_record(older).tagging.conflicts == "first"
    assert load_record(Config().to_dict()) == Config()
    assert as_older(Config().to_dict(), older) != older
    as_before = load_config(None, ["model.initialisation=torch", "tagging.conflicts=first"])
    assert as_older(as_before.to_dict(), older) == older


def test_settings_that_are_gone_count_only_where_they_did_something() -> None:
    record, older = Config().to_dict(), Config().to_dict()
    older["training"]["consistency"] = 0.0
    assert as_older(record, older) == older
    assert load_record(older) == Config()
    older["training"]["consistency"] = 1.0
    assert as_older(record, older) == record
    with pytest.raises(ConfigError, match=r"training\.consistency"):
        load_record(older)


def _without_a_newer_setting(record: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    del record["training"]["clip_norm"]
    return record


def _with_a_setting_that_is_gone(record: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    record["training"]["consistency"] = 0.0
    return record


@pytest.mark.parametrize("of_its_time", [_without_a_newer_setting, _with_a_setting_that_is_gone])
def test_runs_from_before_settings_changed_are_taken_up_and_stay_known(
    news: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    of_its_time: Callable[[dict[str, dict[str, object]]], dict[str, dict[str, object]]],
) -> None:
    def request(n_runs: int, *more: str) -> Request:
        return Request(5, (str(news),), rows=("default",), n_runs=n_runs, steps=40, overrides=(*TINY, *more))

    def folder(wanted: Request) -> Path:
        (selected,) = select_rows(wanted)
        return Planner(tmp_path, wanted, "cpu").plan(selected).folder.path

    # What a relatum with other settings would have written: its hash, and its plan.
    to_dict = Config.to_dict
    with monkeypatch.context() as patch:
        patch.setattr(Config, "to_dict", lambda config: of_its_time(to_dict(config)))
        identity._defaults.cache_clear()
        (made,) = make_tables([request(1)], tmp_path, device="cpu", jobs=1)
    identity._defaults.cache_clear()
    (older,) = (tmp_path / "runs").glob("news-*")
    assert made.record["complete"] is True
    assert folder(request(1)) == older
    assert folder(request(1, "training.clip_norm=3.0")) != older
    # More runs are added, by which the plan is written anew, and it is known even then.
    make_tables([request(2)], tmp_path, device="cpu", jobs=1)
    assert len(json.loads((older / "runs.json").read_text())["runs"]) == 2
    assert folder(request(2)) == older
    assert [path.name for path in (tmp_path / "runs").glob("news-*")] == [older.name]
