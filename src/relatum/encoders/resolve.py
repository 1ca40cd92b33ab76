"""From the name of an encoder to the encoder."""

from __future__ import annotations

import os
import re
from pathlib import Path

from relatum.config import EncoderConfig
from relatum.encoders.base import TextEncoder
from relatum.encoders.hashing import weights_hash
from relatum.errors import RelatumError

__all__ = ["cache_folder", "find_encoder", "load_encoder", "weights_hash"]

_SHIPPED = Path(__file__).parent.parent / "pretrained" / "encoders"
_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
_HUB_FILES = ["*.json", "*.txt", "*.safetensors"]
"""What is downloaded: never pickles, never code."""


def cache_folder() -> Path:
    """Where relatum keeps what it downloads and computes for later: $RELATUM_CACHE, or ~/.cache/relatum."""
    return Path(os.environ.get("RELATUM_CACHE") or "~/.cache/relatum").expanduser()


def find_encoder(name: str) -> Path:
    """The folder of an encoder: the one named, one that comes with relatum, one in the cache, or one from the hub."""
    folder = Path(name).expanduser()
    if name and folder.is_dir():
        return folder
    if not _HUB_NAME.fullmatch(name):
        raise RelatumError(f"there is no encoder {name!r}: it is not a folder, nor can it be a name. {_known()}")
    for place in (_SHIPPED / name.lower(), cache_folder() / "encoders" / name):
        if place.is_dir():
            return place
    return _download(name)


def load_encoder(config: EncoderConfig, want_maps: bool, folder: Path | None = None) -> TextEncoder | None:
    """The encoder that a configuration asks for, on the CPU; None where it asks for none.

    It is read from `folder` where one is given, such as that of a model which holds its encoder.
    """
    if config.kind == "none":
        return None
    folder = folder or find_encoder(config.name)
    if config.kind == "elmo":
        from relatum.encoders.elmo import ElmoEncoder

        return ElmoEncoder.load(folder)
    from relatum.encoders.huggingface import HuggingFaceEncoder

    return HuggingFaceEncoder.load(folder, config, want_maps)


def _download(name: str) -> Path:
    cure = f"{_known()} Or put its files into {cache_folder() / 'encoders' / name}."
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise RelatumError(f"the encoder {name!r} is not here, and huggingface_hub is not installed. {cure}") from error
    try:
        folder = Path(snapshot_download(name, allow_patterns=_HUB_FILES, ignore_patterns=["*/*"]))
    except Exception as error:  # the errors of several libraries, with nothing in common
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RelatumError(f"the encoder {name!r} is not here and cannot be downloaded ({reason}). {cure}") from error
    if not any(folder.glob("model*.safetensors")):
        raise RelatumError(f"the encoder {name!r} on the model hub has no safetensors weights. {cure}")
    return folder


def _known() -> str:
    shipped = sorted(path.name for path in _SHIPPED.iterdir() if path.is_dir()) if _SHIPPED.is_dir() else []
    return f"encoder.name takes a folder, a name on the model hub, or {' or '.join(shipped)}, which needs no network."
