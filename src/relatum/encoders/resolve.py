"""From the name of an encoder to the encoder."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from relatum.config import EncoderConfig
from relatum.encoders.fetching.catalogue import CATALOGUE, HUB_NAMES, fetchable_names
from relatum.errors import RelatumError
from relatum.folders import cache_folder, expand_user

if TYPE_CHECKING:  # torch takes seconds to import, and names need none of it
    from relatum.encoders.base import TextEncoder

SHIPPED = Path(__file__).parent.parent / "pretrained" / "encoders"
_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
_HUB_FILES = ["*.json", "*.txt", "*.safetensors"]
"""The files that are downloaded: never pickles, never code."""


def find_encoder(name: str) -> Path:
    """Return the folder of an encoder: a folder by its path, or by name from relatum, the cache or the hub."""
    folder = named_folder(name)
    if folder is not None:
        return folder
    if not _HUB_NAME.fullmatch(name):
        raise RelatumError(f"there is no encoder {name!r}: it is not a folder, nor can it be a name. {_known()}")
    folder = _stored(name)
    if folder is None and name in CATALOGUE and name not in HUB_NAMES:
        raise RelatumError(f"the encoder {name!r} is not here yet; get it with 'relatum encoder fetch {name}'")
    if folder is not None:
        return folder
    try:
        return download_from_hub(name)
    except RelatumError as error:
        place = cache_folder() / "encoders" / name
        raise RelatumError(
            f"the encoder {name!r} is not here: {error}. {_known()} Or put its files into {place}."
        ) from error


def named_folder(name: str) -> Path | None:
    """Return the folder that a name is the path of; None if there is none, or if the name is an encoder's own.

    A plain word means an encoder that comes with relatum or is in the cache, and a folder only if there is no such
    encoder: else a folder that happens to be in the current directory would take the place of a model's encoder.
    """
    folder = expand_user(name)
    is_path = name.startswith((".", "~")) or "/" in name or os.sep in name
    return folder if name and (is_path or _stored(name) is None) and folder.is_dir() else None


def _stored(name: str) -> Path | None:
    """Return the folder of the encoder of that name that comes with relatum or is in the cache, or None."""
    if not _HUB_NAME.fullmatch(name):
        return None
    places = (SHIPPED / name.lower(), cache_folder() / "encoders" / name)
    return next((place for place in places if place.is_dir()), None)


def load_encoder(
    config: EncoderConfig, want_maps: bool, folders: Sequence[Path] = (), adapters: Path | None = None
) -> TextEncoder | None:
    """Load the encoder that a configuration asks for, frozen and on the CPU; None if it asks for none.

    The encoder, and encoders beside it, are read from `folders` if these are given, such as the folders of a model that
    holds its encoder. The adapters of a folder are made part of the encoder.
    """
    if config.kind == "none":
        return None
    folders = folders or _find_all(config.names)
    folder, *others = folders
    if config.kind == "elmo":
        from relatum.encoders.elmo import ElmoEncoder

        return ElmoEncoder.load(folder, config.mixing)
    from relatum.encoders.huggingface import HuggingFaceEncoder

    first = HuggingFaceEncoder.load(folder, config, want_maps, adapters)
    if not others:
        return first
    from relatum.encoders.stacked import StackedEncoder

    return StackedEncoder(
        [first, *(HuggingFaceEncoder.load(other, config, want_maps, allow_fewer_layers=True) for other in others)]
    )


def _find_all(names: Sequence[str]) -> list[Path]:
    """Return the folders of encoders, which must all be different."""
    folders = list(map(find_encoder, names))
    paths = [folder.resolve() for folder in folders]
    for number, path in enumerate(paths):
        if path in paths[:number]:
            raise RelatumError(
                f"encoder.beside: {names[number]!r} is encoder {paths.index(path) + 1} once more ({path}); name "
                "each of them once"
            )
    return folders


def download_from_hub(name: str) -> Path:
    """Download an encoder from the model hub, without pickles or code, and return its folder."""
    try:
        from huggingface_hub import snapshot_download

        folder = Path(snapshot_download(name, allow_patterns=_HUB_FILES, ignore_patterns=["*/*"]))
    except Exception as error:  # the errors of several libraries, with nothing in common
        lines = str(error).strip().splitlines()
        reason = lines[0] if lines else type(error).__name__
        raise RelatumError(f"{name} cannot be downloaded from the model hub ({reason})") from error
    if not any(folder.glob("model*.safetensors")):
        raise RelatumError(f"{name} on the model hub has no safetensors weights")
    return folder


def _known() -> str:
    shipped = sorted(path.name for path in SHIPPED.iterdir() if path.is_dir()) if SHIPPED.is_dir() else []
    return (
        f"encoder.name and encoder.beside take a folder, a name on the model hub, or {' or '.join(shipped)}, which "
        f"needs no network; 'relatum encoder fetch' gets {fetchable_names()} without the model hub."
    )
