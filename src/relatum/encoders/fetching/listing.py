"""The encoders that are here, and the encoders that can be fetched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from relatum.encoders.fetching.assemble import CARD, WEIGHTS
from relatum.encoders.fetching.catalogue import CATALOGUE, Fetchable
from relatum.encoders.fetching.fetch import encoder_folder
from relatum.encoders.hashing import encoder_weights
from relatum.encoders.resolve import SHIPPED
from relatum.errors import RelatumError
from relatum.files import MAX_JSON, read_json
from relatum.folders import cache_folder

_LICENCE = re.compile(r"\*\*Licence:\*\* ([^,\n]+)")


@dataclass(frozen=True, slots=True)
class Listed:
    """An encoder that `encoder.name` takes, now or once it is fetched; unknown values are None."""

    name: str
    state: Literal["shipped", "fetched", "cached", "fetchable"]
    folder: str | None
    n_bytes: int
    """The size of the encoder's weights."""
    to_download: int | None
    n_layers: int | None
    width: int | None
    n_attention_heads: int | None
    cased: bool | None
    licence: str | None
    origin: str | None = None
    remark: str | None = None


def list_encoders() -> list[Listed]:
    """Return the encoders that come with relatum, all of the catalogue, fetched or not, and others in the cache."""
    shipped = [_describe(path.name, path, "shipped") for path in _folders(SHIPPED)]
    known = [_known(encoder) for encoder in CATALOGUE.values()]
    root = cache_folder() / "encoders"
    names = {path.relative_to(root).as_posix(): path for path in _folders(root)}
    cached = [_describe(name, path, "cached") for name, path in names.items() if name not in CATALOGUE]
    return [*shipped, *known, *cached]


def _known(encoder: Fetchable) -> Listed:
    folder = encoder_folder(encoder)
    if folder.exists() and not _is_whole(encoder, folder):
        return _describe(encoder.name, folder, "cached")
    fetched = folder.exists()
    return Listed(
        encoder.name,
        "fetched" if fetched else "fetchable",
        str(folder) if fetched else None,
        encoder.n_bytes,
        None if fetched else encoder.n_package_bytes,
        encoder.n_layers,
        encoder.width,
        encoder.n_attention_heads,
        encoder.cased,
        encoder.licence,
        encoder.origin,
        encoder.remark,
    )


def _is_whole(encoder: Fetchable, folder: Path) -> bool:
    """True if the folder looks like the fetched encoder; hashing its weights would take seconds."""
    weights = folder / WEIGHTS
    return weights.is_file() and weights.stat().st_size == encoder.n_bytes


def _folders(root: Path) -> Iterator[Path]:
    """Yield the folders of encoders in a folder; encoders of the hub are in a folder of their owner."""
    for path in sorted([*root.glob("*"), *root.glob("*/*")]):
        is_hidden = path.name.startswith(".") or path.parent.name.startswith(".")
        if not is_hidden and path.is_dir() and _weights(path):
            yield path


def _weights(folder: Path) -> list[Path]:
    try:
        return encoder_weights(folder)
    except RelatumError:
        return []


def _describe(name: str, folder: Path, state: Literal["shipped", "cached"]) -> Listed:
    """Describe an encoder by the files of its folder."""
    config, tokenizer = _json(folder / "config.json"), _json(folder / "tokenizer.json")
    card = folder / CARD
    licence = _LICENCE.search(card.read_text(encoding="utf-8", errors="replace")) if card.is_file() else None
    return Listed(
        name,
        state,
        str(folder),
        sum(path.stat().st_size for path in _weights(folder)),
        None,
        _number(config, "num_hidden_layers", "n_layers"),
        _number(config, "hidden_size", "dim"),
        _number(config, "num_attention_heads", "n_heads"),
        not _lowers(tokenizer.get("normalizer")) if tokenizer else None,
        licence[1] if licence else None,
    )


def _lowers(part: Any) -> bool:
    """True if a normaliser makes letters lowercase."""
    if not isinstance(part, dict):
        return False
    inner = part.get("normalizers")
    within = isinstance(inner, list) and any(map(_lowers, inner))
    return within or part.get("lowercase") is True or part.get("type") == "Lowercase"


def _number(config: dict[str, Any], *keys: str) -> int | None:
    return next((config[key] for key in keys if isinstance(config.get(key), int)), None)


def _json(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path, MAX_JSON)
    except RelatumError:
        return {}
    return content if isinstance(content, dict) else {}
