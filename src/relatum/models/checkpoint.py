"""A model as a directory: settings, labels, vocabularies, weights, the encoder or its name, and a card."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from relatum._version import __version__
from relatum.config import load_record
from relatum.data.atomic import new_folder
from relatum.encoders.hashing import encoder_files, weights_hash
from relatum.encoders.resolve import find_encoder, load_encoder
from relatum.encoders.words import WordVectors
from relatum.errors import ConfigError, RelatumError
from relatum.models.build import build_model
from relatum.models.model import Model
from relatum.schema import Schema

FORMAT = 1
"""The layout of the directory; a reader refuses one it does not know."""

ENCODER = "encoder"
"""The folder of an encoder that is stored inside."""

_DTYPES = {"float32": torch.float32, "float16": torch.float16}


def save_model(model: Model, path: Path, card: str = "") -> None:
    """Write the model to a new or empty directory, whole or not at all."""
    with new_folder(path) as folder:
        record = {
            "format": FORMAT,
            "relatum_version": __version__,
            "config": model.config.to_dict(),
            "encoder": _save_encoder(model, folder),
            "characters": None if model.characters is None else list(model.characters.entries),
        }
        _write_json(folder / "config.json", record)
        _write_json(folder / "schema.json", model.schema.to_dict())
        if model.words is not None:
            _write_json(folder / "words.json", list(model.words.entries))
        dtype = _DTYPES[model.config.training.save_dtype]
        weights = {name: value.detach().to("cpu", dtype).contiguous() for name, value in _weights(model).items()}
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "README.md").write_text(card, encoding="utf-8")


def load_model(path: Path, device: torch.device | str = "cpu") -> Model:
    """Read a model from its directory; nothing in it is executed, and any encoder but its own is refused."""
    record = _read_json(path / "config.json")
    if record.get("format") != FORMAT:
        raise RelatumError(
            f"{path / 'config.json'}: found format {record.get('format')!r}, expected {FORMAT}; the model was made by "
            f"relatum {record.get('relatum_version')}, this is {__version__}: install a version that can read it"
        )
    try:
        config = load_record(record["config"])
    except ConfigError as error:
        raise ConfigError(f"{path / 'config.json'}: {error}") from None
    schema = Schema.load(path / "schema.json")
    try:
        weights = load_file(path / "model.safetensors")
    except (OSError, SafetensorError) as error:
        raise RelatumError(f"{path / 'model.safetensors'}: the weights cannot be read ({error})") from None
    words = None
    if (path / "words.json").exists():
        vectors = weights["embedder.words.vectors"][2:].float()
        words = WordVectors(tuple(_read_json(path / "words.json", list)), vectors)
    encoder = None
    if record["encoder"] is not None:
        want_maps = config.table.attention_maps and config.table.kind != "none"
        encoder = load_encoder(config.encoder, want_maps, _find_encoder(record["encoder"], path))
    model = build_model(config, schema, encoder, words, record["characters"] or ())
    try:
        model.network.load_state_dict({name: value.float() for name, value in weights.items()})
    except RuntimeError as error:
        raise RelatumError(f"{path / 'model.safetensors'}: the weights do not fit config.json: {error}") from None
    model.network.eval()
    return model.to(device)


def _weights(model: Model) -> dict[str, torch.Tensor]:
    return model.network.state_dict()


def _save_encoder(model: Model, folder: Path) -> dict[str, Any] | None:
    """Which encoder it is, and its files where they are to be inside."""
    if model.encoder is None:
        return None
    source = model.encoder.folder
    inside = model.config.encoder.store == "inside"
    if inside:
        (folder / ENCODER).mkdir()
        for file in encoder_files(source):
            shutil.copyfile(file, folder / ENCODER / file.name)
    return {"name": model.config.encoder.name, "sha256": weights_hash(source), "inside": inside}


def _find_encoder(record: dict[str, Any], path: Path) -> Path:
    """The folder of the model's encoder, which must be the very one it was trained with."""
    folder = path / ENCODER if record["inside"] else find_encoder(record["name"])
    found = weights_hash(folder)
    if found != record["sha256"]:
        raise RelatumError(
            f"{folder}: the encoder's weights have the sha256 {found}, but {path} was trained with {record['sha256']}; "
            f"get the encoder {record['name']!r} that it was trained with"
        )
    return folder


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _read_json(path: Path, kind: type = dict) -> Any:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RelatumError(f"{path}: {error.strerror}; a model is a directory made by relatum train") from None
    except ValueError as error:
        raise RelatumError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(value, kind):
        raise RelatumError(f"{path}: found {type(value).__name__}, expected {kind.__name__}")
    return value
