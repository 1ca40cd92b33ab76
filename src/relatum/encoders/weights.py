"""The weights and settings of a Hugging Face encoder: safetensors and plain JSON, and nothing else.

Encoders come from strangers. A pickle can run code when it is opened, and an index can name any file of the machine,
so weights are read here, by name, and never by a library that would look for others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from relatum.encoders.hashing import encoder_weights
from relatum.errors import RelatumError
from relatum.files import open_file, read_json

WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"


def read_settings(folder: Path) -> dict[str, Any]:
    """Read the config.json of an encoder."""
    path = folder / "config.json"
    try:
        settings = read_json(path)
    except RelatumError as error:
        raise RelatumError(f"{error}; the encoder's configuration cannot be read") from None
    if not isinstance(settings, dict):
        raise RelatumError(
            f"{path}: found {type(settings).__name__}, expected the JSON object of an encoder's settings"
        )
    return settings


def load_weights(folder: Path) -> dict[str, Tensor]:
    """Read all tensors of an encoder, from model.safetensors or from the files that its index names."""
    weights: dict[str, Tensor] = {}
    for path in _weight_files(folder):
        try:
            open_file(path).close()
            weights |= load_file(path)
        except (OSError, SafetensorError) as error:
            raise RelatumError(f"{path}: the weights of the encoder cannot be read ({error})") from None
    return weights


def _weight_files(folder: Path) -> list[Path]:
    if (folder / WEIGHTS).exists():
        return [folder / WEIGHTS]
    index = folder / INDEX
    if not index.exists():
        raise RelatumError(f"{folder}: the encoder cannot be loaded: it has no {WEIGHTS}")
    record = read_json(index)
    names = record.get("weight_map") if isinstance(record, dict) else None
    if not isinstance(names, dict) or not names:
        raise RelatumError(f'{index}: found no "weight_map", expected the file of each tensor')
    known = {path.name: path for path in encoder_weights(folder)}
    for name in names.values():
        if not isinstance(name, str) or name not in known:
            raise RelatumError(
                f"{index}: found the file {name!r:.100}, expected a safetensors file of the folder itself, such as "
                f"{next(iter(known))}; relatum reads no other weights"
            )
    return [known[name] for name in sorted(set(names.values()))]
