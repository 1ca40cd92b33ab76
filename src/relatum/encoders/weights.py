"""The weights and settings of a Hugging Face encoder: safetensors and plain JSON, and nothing else.

Encoders come from strangers. A pickle can run code when it is opened, and an index can name any file of the machine,
so weights are read here, by name, and never by a library that would look for others.
"""

from __future__ import annotations

import json
import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from safetensors import SafetensorError, safe_open

from relatum.encoders.hashing import encoder_weights
from relatum.errors import RelatumError
from relatum.files import open_file, read_json
from relatum.kernels.arrays import BFLOAT16, Array

WEIGHTS = "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
_DTYPES: dict[str, DTypeLike] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": BFLOAT16,
    "BOOL": np.bool_,
    **{f"I{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"U{bits}": np.dtype(f"uint{bits}") for bits in (8, 32, 64)},
}
"""The types of numbers that are read; `uint16` stands for bfloat16, see `kernels.arrays`."""


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


def load_weights(folder: Path) -> dict[str, Array]:
    """Read all tensors of an encoder, from model.safetensors or from the files that its index names."""
    weights: dict[str, Array] = {}
    for path in _weight_files(folder):
        try:
            open_file(path).close()
            weights |= read_tensors(path)
        except (OSError, SafetensorError) as error:
            raise RelatumError(f"{path}: the weights of the encoder cannot be read ({error})") from None
    return weights


def read_tensors(path: Path) -> dict[str, Array]:
    """Return the tensors of a safetensors file, whose bytes the system reads when they are needed.

    Whoever writes to such an array changes a copy, not the file. A bad file is an `OSError` or a `SafetensorError`.
    """
    with safe_open(path, framework="np"):
        pass  # the library has checked the header, and that the file has as many bytes as it says
    with path.open("rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    first = 8 + int.from_bytes(memory[:8], "little")
    arrays = {}
    for name, entry in json.loads(memory[8:first]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in _DTYPES:
            raise SafetensorError(f"found {entry['dtype']} for {name}, expected numbers of {', '.join(_DTYPES)}")
        start = first + entry["data_offsets"][0]
        values: Array = np.ndarray(entry["shape"], _DTYPES[entry["dtype"]], memory, start)
        # Not all programs pad the header: numbers may begin anywhere, which compiled code must not read.
        arrays[name] = np.require(values, requirements=["ALIGNED"])
    return arrays


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
