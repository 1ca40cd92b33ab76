"""The identity of runs: a hash of all settings but the seed, and of the data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from relatum.config import Config
from relatum.encoders.hashing import file_hash, weights_hash
from relatum.encoders.resolve import named_folder
from relatum.folders import expand_user

_WITHOUT_SAY = ("cache", "cache_path", "cache_limit_mib", "store")
"""Settings of an encoder that change no number."""


def settings_record(config: Config) -> dict[str, Any]:
    """Return the settings that identify runs, the same for all seeds and wherever the encoder and word vectors lie."""
    record = config.to_dict()
    del record["training"]["seed"]
    for key in _WITHOUT_SAY:
        del record["encoder"][key]
    if config.encoder.kind != "none":
        name, *beside = map(_known, config.encoder.names)
        record["encoder"] |= {"name": name, "beside": beside}
    if config.words.path is not None and expand_user(config.words.path).is_file():
        record["words"]["path"] = _words_hash(expand_user(config.words.path))
    return record


def _known(encoder: str) -> str:
    """Return an encoder's name, or the hash of its weights if it is named by its folder."""
    folder = named_folder(encoder)
    return encoder if folder is None else weights_hash(folder)


def settings_hash(record: Mapping[str, Any], fingerprint: str, with_test: bool) -> str:
    """Return the hash of the settings, the data and the parts that are scored."""
    whole = json.dumps([record, fingerprint, with_test], sort_keys=True)
    return hashlib.sha256(whole.encode()).hexdigest()[:12]


@cache
def _words_hash(path: Path) -> str:
    return file_hash(path)
