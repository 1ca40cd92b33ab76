"""The identity of an encoder: hashes of its files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from relatum.errors import RelatumError
from relatum.files import open_file

if TYPE_CHECKING:
    from torch import Tensor

ADAPTER_SETTINGS, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"

_CONFIGS = ("config.json", "model.safetensors.index.json", "*options.json")


def weights_hash(folder: Path) -> str:
    """Return the sha256 of the weights of an encoder; for several files, the sha256 of their hashes in order."""
    hashes = [file_hash(path) for path in encoder_weights(folder)]
    return hashes[0] if len(hashes) == 1 else hashlib.sha256(" ".join(hashes).encode()).hexdigest()


def files_hash(folder: Path) -> str:
    """Return a hash of all files of an encoder that affect its features."""
    return hashlib.sha256(" ".join(file_hash(path) for path in encoder_files(folder)).encode()).hexdigest()


def read_adapters(folder: Path) -> dict[str, bytes]:
    """Read the files of adapters, by their names."""
    files = {}
    try:
        for name in (ADAPTER_SETTINGS, ADAPTER_WEIGHTS):
            with open_file(folder / name) as file:
                files[name] = file.read()
    except (OSError, RelatumError) as error:
        raise RelatumError(f"{folder}: the adapters of the encoder cannot be read ({error})") from error
    return files


def encoder_files(folder: Path) -> list[Path]:
    """The files that are needed to load the encoder of a folder, in a fixed order."""
    configs = [path for name in _CONFIGS for path in sorted(folder.glob(name))]
    return encoder_weights(folder) + configs + tokenizer_files(folder)


def tokenizer_files(folder: Path) -> list[Path]:
    """The files that are needed to load the tokenizer of a folder, in a fixed order."""
    if (folder / "tokenizer.json").exists():
        return [folder / "tokenizer.json"]
    names = (
        *("*.model", "added_tokens.json", "merges.txt"),
        *("special_tokens_map.json", "tokenizer_config.json", "vocab.*"),
    )
    return [path for name in names for path in sorted(folder.glob(name))]


def encoder_weights(folder: Path) -> list[Path]:
    """Return the files of a folder that hold the weights of its encoder."""
    for pattern in ("model*.safetensors", "*weights.hdf5"):
        if paths := sorted(folder.glob(pattern)):
            return paths
    raise RelatumError(f"{folder} holds no weights: expected model.safetensors, or weights.hdf5 of an ELMo")


def hash_tensors(tensors: Mapping[str, Tensor], record: str = "") -> str:
    """A hash of a text and of tensors on the CPU: their names, types, shapes and values."""
    import torch  # it takes seconds, and hashes of files need none of it

    digest = hashlib.sha256(record.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"\n{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def file_hash(path: Path) -> str:
    """The sha256 of a file."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
