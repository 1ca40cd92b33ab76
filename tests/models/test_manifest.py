"""Model directories in which a file was changed, exchanged, added or taken away, or that a stranger made."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from relatum import Extractor
from relatum.errors import RelatumError
from relatum.extractor.finding import find_model, shipped_models
from relatum.models.checkpoint import copy_model, load_model, save_model, write_calibration
from relatum.models.manifest import Manifest
from relatum.schema import Schema
from relatum.types import Calibration, ScoreMap

from ..small_models import make_small_model, seal
from .test_checkpoint import make_encoder_folder, make_encoder_model

OWN = Calibration(ScoreMap(4.25, -0.5), ScoreMap(3.5))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A model without an encoder, in its directory."""
    save_model(make_small_model(), tmp_path / "model", "A card.\n")
    return tmp_path / "model"


@pytest.fixture
def whole(schema: Schema, tmp_path: Path) -> Path:
    """A model with its encoder inside."""
    save_model(make_encoder_model(schema, make_encoder_folder(tmp_path / "bert"), "inside"), tmp_path / "whole")
    return tmp_path / "whole"


def refused(model: Path, message: str) -> str:
    with pytest.raises(RelatumError, match=message) as caught:
        Extractor.from_pretrained(model, "cpu")
    return str(caught.value)


def test_manifest_lists_every_file(whole: Path) -> None:
    listed = set(json.loads((whole / "manifest.json").read_text())["files"])
    there = {path.relative_to(whole).as_posix() for path in whole.rglob("*") if path.is_file()}
    assert there == listed | {"manifest.json"}
    assert "encoder/tokenizer.json" in listed
    assert "schema.json" in listed


@pytest.mark.parametrize("name", ["config.json", "schema.json", "manifest.json"])
def test_settings_of_many_megabytes_are_refused_before_they_are_parsed(saved: Path, name: str) -> None:
    (saved / name).write_text("[" + "{}," * (6 * 2**20) + "{}]")
    if name != "manifest.json":
        seal(saved)
    begun = time.process_time()
    refused(saved, f"{name}: found 18,874,372 bytes, expected at most 16,777,216")
    assert time.process_time() - begun < 1


def test_labels_that_were_exchanged_are_noticed(saved: Path) -> None:
    path = saved / "schema.json"
    path.write_text(path.read_text().replace("Loc", "LOC").replace("Peop", "Loc").replace("LOC", "Peop"))
    assert "copy the whole model again" in refused(saved, r"schema\.json: the file has the sha256")


@pytest.mark.parametrize("name", ["config.json", "schema.json", "model.safetensors", "encoder/config.json"])
def test_any_changed_byte_is_noticed(whole: Path, name: str) -> None:
    content = (whole / name).read_bytes()
    (whole / name).write_bytes(content.replace(b"a", b"b", 1))
    refused(whole, f"{name}: the file has the sha256")


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.pop("files"),
        lambda record: record["files"].pop("schema.json"),
        lambda record: record["files"].pop("config.json"),
        lambda record: record["files"].pop("model.safetensors"),
        lambda record: record["files"].update({"schema.json": None}),
        lambda record: record["files"].update({"schema.json": ""}),
        lambda record: record["files"].update({"../outside": "0" * 64}),
        lambda record: record["files"].update({"/etc/passwd": "0" * 64}),
        lambda record: record["files"].update({"..\\outside": "0" * 64}),
        lambda record: record["files"].update({"C:outside": "0" * 64}),
        lambda record: record["files"].update({"a/b/c": "0" * 64}),
        lambda record: record["files"].update({"a//b": "0" * 64}),
        lambda record: record["files"].update({"manifest.json": "0" * 64}),
        lambda record: record.update(replacing=[1]),
    ],
)
def test_manifest_cannot_be_shortened_or_point_outside(saved: Path, change: Callable[[Any], None]) -> None:
    record = json.loads((saved / "manifest.json").read_text())
    change(record)
    (saved / "manifest.json").write_text(json.dumps(record))
    assert "copy the whole model again" in refused(saved, r"manifest\.json: found no ")


def test_directory_without_a_manifest_is_refused(saved: Path) -> None:
    (saved / "manifest.json").unlink()
    refused(saved, r"there is no manifest\.json, by which the files of a model are checked; copy the whole model again")


def test_file_that_was_put_beside_an_encoder_is_refused(whole: Path) -> None:
    (whole / "encoder" / ".DS_Store").write_bytes(b"a file manager's own")
    (whole / "notes.txt").write_text("mine")
    load_model(whole)
    (whole / "encoder" / "adapter_config.json").write_text("{}")
    refused(whole, r"encoder/adapter_config\.json: found a file that manifest\.json does not list; remove it")


def test_file_that_is_not_listed_is_not_read(saved: Path) -> None:
    expected = load_model(saved)
    (saved / "words.json").write_text("[1, 2")
    assert load_model(saved).config == expected.config


def test_encoder_of_the_model_before_that_was_damaged_is_noticed(schema: Schema, whole: Path, tmp_path: Path) -> None:
    twin = whole / "encoder" / "tokenizer.json"
    twin.write_text(twin.read_text() + " ")
    model = make_encoder_model(schema, tmp_path / "bert", "inside")
    save_model(model, tmp_path / "next", before=whole)
    refused(tmp_path / "next", r"next/encoder/tokenizer\.json: the file has the sha256")


@pytest.mark.parametrize("name", ["README.md", "schema.json", "encoder/config.json", "encoder"])
def test_links_are_refused(whole: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    (whole / name).rename(outside)
    (whole / name).symlink_to(outside)
    refused(whole, f"{name}.*: found a link, expected the file itself")


def test_model_that_is_reached_by_a_link_is_read(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(saved)
    load_model(tmp_path / "link")


@pytest.mark.parametrize("name", ["README.md", "config.json", "schema.json", "model.safetensors", "manifest.json"])
def test_pipes_are_refused(saved: Path, name: str) -> None:
    (saved / name).unlink()
    os.mkfifo(saved / name)
    refused(saved, f"{name}: found a pipe, a device or a socket, expected a file")


@pytest.mark.parametrize("name", ["manifest.json", "README.md"])
def test_devices_are_refused(saved: Path, name: str) -> None:
    (saved / name).unlink()
    (saved / name).symlink_to("/dev/zero")
    refused(saved, f"{name}: found a")


@pytest.mark.parametrize("name", ["config.json", "schema.json"])
def test_json_that_is_too_large_is_refused(saved: Path, name: str) -> None:
    with (saved / name).open("r+b") as file:
        file.truncate(2**30)  # it takes no room on disk
    (saved / "manifest.json").unlink()
    (saved / "manifest.json").symlink_to(saved / name)
    refused(saved, r"manifest\.json: found 1,073,741,824 bytes, expected at most")


def test_card_that_was_changed_is_said(saved: Path, caplog: pytest.LogCaptureFixture) -> None:
    (saved / "README.md").write_text("My own card.\n")
    assert Extractor.from_pretrained(saved, "cpu").card == "My own card.\n"
    assert "README.md is not the card that the model was saved with" in caplog.text


def test_card_that_is_not_utf_8_is_refused(saved: Path) -> None:
    (saved / "README.md").write_bytes(b"\xff")
    refused(saved, r"README\.md: found a byte that is not UTF-8 at 0; copy the whole model again")
    (saved / "README.md").unlink()
    seal(saved)
    assert Extractor.from_pretrained(saved, "cpu").card == ""


def change_setting(model: Path, section: str, key: str, value: object) -> None:
    path = model / "config.json"
    record = json.loads(path.read_text())
    record["config"][section][key] = value
    path.write_text(json.dumps(record))
    seal(model)


@pytest.mark.parametrize(
    ("section", "key", "value", "message"),
    [
        ("model", "n_layers", 10**6, r"model\.n_layers: .*less than or equal to"),
        ("model", "n_layers", 900, r"model\.safetensors: the weights do not fit .* 900 for model\.n_layers"),
        ("model", "width", 10**9, r"model\.width: .*less than or equal to"),
        ("model", "width", 16_384, r"16384 for model\.width"),
        ("table", "width", 16_384, r"16384 for table\.width"),
        ("sequence", "feedforward_width", 2**31, r"sequence\.feedforward_width: .*less than"),
        ("sequence", "feedforward_width", 60_000, r"60000 for sequence\.feedforward_width"),
        ("characters", "width", 16_384, r"16384 for characters\.width"),
        ("encoder", "n_layers", 10**6, r"encoder\.n_layers: .*less than or equal to"),
        ("extraction", "max_cells", 10**12, r"extraction\.max_cells: .*less than or equal to"),
        ("training", "seed", 10**22, r"training\.seed: .*less than 2147483648"),
    ],
)
def test_sizes_that_no_model_has_are_refused_at_once(
    saved: Path, section: str, key: str, value: object, message: str
) -> None:
    change_setting(saved, section, key, value)
    begun = time.monotonic()
    refused(saved, message)
    assert time.monotonic() - begun < 5


def test_many_labels_are_refused_at_once(saved: Path) -> None:
    names = [f"label {number}" for number in range(30_000)]
    kinds = [{"name": "r", "head_labels": names, "tail_labels": names, "pairs": [[name, name] for name in names]}]
    (saved / "schema.json").write_text(json.dumps({"entity_types": names, "relation_types": kinds}))
    seal(saved)
    begun = time.monotonic()
    refused(saved, "the weights do not fit config.json and schema.json, which have 30000 for entity types")
    assert time.monotonic() - begun < 10


def test_calibration_that_is_interrupted_leaves_a_model_that_can_be_read(
    saved: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whenever the process ends between two renamings, the directory is that of a model."""
    replace = Path.replace
    kept: list[Path] = []

    def watch(self: Path, target: Path) -> Path:
        moved = replace(self, target)
        kept.append(Path(shutil.copytree(saved, tmp_path / f"after-{len(kept)}", ignore=_drafts)))
        return moved

    monkeypatch.setattr(Path, "replace", watch)
    write_calibration(saved, OWN, "# Another card\n")
    monkeypatch.undo()
    assert len(kept) == 4
    assert [load_model(folder).calibration for folder in kept] == [None, OWN, OWN, OWN]
    assert "replacing" not in json.loads((saved / "manifest.json").read_text())
    write_calibration(kept[1], None, "# Mine\n")
    assert load_model(kept[1]).calibration is None


def _drafts(_: object, names: list[str]) -> list[str]:
    return [name for name in names if name.endswith(".partial")]


def test_files_that_are_not_the_models_own_are_not_calibrated_or_copied(saved: Path, tmp_path: Path) -> None:
    (saved / "notes.txt").write_text("mine")
    with copy_model(saved, tmp_path / "copy"):
        pass
    assert not (tmp_path / "copy" / "notes.txt").exists()
    load_model(tmp_path / "copy")
    (saved / "schema.json").write_text("{}")
    with pytest.raises(RelatumError, match=r"schema\.json: the file has the sha256"):
        write_calibration(saved, OWN, "")
    with (
        pytest.raises(RelatumError, match=r"schema\.json: the file has the sha256"),
        copy_model(saved, tmp_path / "two"),
    ):
        pass


@pytest.mark.parametrize("name", shipped_models())
def test_models_that_come_with_relatum_have_their_manifests(name: str) -> None:
    folder = find_model(name)
    assert Manifest.of_folder(folder, {}).files == Manifest.read(folder).files
    assert load_file(folder / "model.safetensors")
