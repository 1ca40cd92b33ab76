"""A model as a directory: settings, labels, vocabularies, weights, the encoder or its name, and a card."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from safetensors.torch import save_file

from relatum._version import __version__
from relatum.config import Config, load_record
from relatum.data.atomic import new_folder, replacing_file
from relatum.encoders.base import TextEncoder
from relatum.encoders.hashing import encoder_files, file_hash, files_hash, weights_hash
from relatum.encoders.resolve import load_encoder, named_folder
from relatum.encoders.words import WordVectors
from relatum.errors import ConfigError, RelatumError
from relatum.kernels.arrays import to_float32
from relatum.kernels.tensors import as_tensor
from relatum.models.build import build_model
from relatum.models.manifest import CARD, Manifest
from relatum.models.manifest import NAME as MANIFEST
from relatum.models.model import Model
from relatum.models.record import (
    CURE,
    FORMAT,
    calibration_record,
    read_json,
)
from relatum.models.stored import ADAPTERS, ENCODER, WEIGHTS, StoredModel, inside_names
from relatum.models.vocabulary import FIRST
from relatum.types import Calibration

_DTYPES = {"float32": torch.float32, "float16": torch.float16}


def save_model(model: Model, path: Path, card: str = "", before: Path | None = None) -> None:
    """Write the model to a new or empty directory, whole or not at all.

    `before` is the directory of a model with the same encoder, such as an earlier one of the same run: the files of an
    encoder inside are then those of that model, linked, so that a large encoder is not copied again and again.
    """
    if any(weight.dtype == torch.bfloat16 for weight in model.network.parameters()):
        raise RelatumError(
            f"{path}: the weights have been rounded to bfloat16 for reading, and are not saved so; load the model with "
            "precision='fp32' to save it"
        )
    _check_functions(model.config)
    known: dict[str, str] = {}
    with new_folder(path) as folder:
        dtype = _DTYPES[model.config.training.save_dtype]
        weights = model.network.state_dict()
        stored = {name: value.detach().to("cpu", dtype).contiguous() for name, value in weights.items()}
        save_file(stored, folder / WEIGHTS, metadata={"format": "pt"})
        record = {
            "format": FORMAT,
            "relatum_version": __version__,
            "config": model.config.to_dict(),
            "encoder": _save_encoder(model, folder, before, known),
            **_save_beside(model, folder, before, known),
            "characters": None if model.characters is None else list(model.characters.entries),
        }
        if model.calibration is not None:
            record["calibration"] = calibration_record(model.calibration)
        _write_json(folder / "config.json", record)
        _write_json(folder / "schema.json", model.schema.to_dict())
        if model.words is not None:
            _write_json(folder / "words.json", list(model.words.entries))
        (folder / CARD).write_text(card, encoding="utf-8")
        Manifest.of_folder(folder, known).write()


def load_model(path: Path, device: torch.device | str = "cpu", text: Mapping[str, str] = MappingProxyType({})) -> Model:
    """Read a model from its directory; nothing in it is executed, and any encoder but its own is refused.

    `text` are rules for splitting text, by key of the section `text`, that the user gives instead of the model's own.
    """
    return load_stored(StoredModel.read(path, text), device)


def load_stored(stored: StoredModel, device: torch.device | str = "cpu") -> Model:
    """Make a model of what its directory holds, with its encoder."""
    encoder = None
    if stored.encoders:
        encoder = load_encoder(stored.config.encoder, stored.reads_maps, stored.encoders, stored.adapters)
    return make_model(stored, encoder).to(device)


def make_model(stored: StoredModel, encoder: TextEncoder | None) -> Model:
    """Make a model of what its directory holds, on the CPU."""
    path, config = stored.path, stored.config
    words = None
    if stored.words is not None:
        vectors = to_float32(stored.weights["embedder.words.vectors"][FIRST:])
        words = WordVectors(stored.words, as_tensor(vectors))
    try:
        model = build_model(config, stored.schema, encoder, words, stored.characters)
    except ConfigError as error:
        raise ConfigError(f"{path / 'config.json'}: {error}") from None
    except (RuntimeError, MemoryError) as error:  # torch's words for a network that has no room
        raise RelatumError(f"{path / 'config.json'}: the network cannot be made ({error}); {CURE}") from None
    try:
        model.network.load_state_dict({name: as_tensor(value).float() for name, value in stored.weights.items()})
    except RuntimeError as error:
        raise RelatumError(f"{path / WEIGHTS}: the weights do not fit config.json: {error}\n{CURE}") from None
    model.network.eval()
    return replace(model, calibration=stored.calibration)


def write_calibration(path: Path, calibration: Calibration | None, card: str, config: Config | None = None) -> None:
    """Give the model in a directory another calibration, or none, and card; all else stays as it is.

    Settings are written, too, if they are given.
    """
    manifest = Manifest.read(path)
    manifest.check()
    record = read_json(path / "config.json")
    record.pop("calibration", None)
    if config is not None:
        record["config"] = config.to_dict()
    if calibration is not None:
        record["calibration"] = calibration_record(calibration)
    # Both are written whole before either takes its place, and the manifest knows of both, old and new, in between: a
    # process that is killed at any instant leaves a model that can be read.
    with replacing_file(path / CARD) as readme, replacing_file(path / "config.json") as settings:
        readme.write_text(card, encoding="utf-8")
        _write_json(settings, record)
        changed = {CARD: file_hash(readme), "config.json": file_hash(settings)}
        replace(manifest, replacing=changed).write()
    manifest.replace(**changed).write()


@contextmanager
def copy_model(path: Path, target: Path) -> Iterator[Path]:
    """Yield a copy of a model's directory, which becomes `target` when the block ends without an error.

    `target` must be new or empty.
    """
    manifest = Manifest.read(path)
    manifest.check()
    with new_folder(target) as draft:
        for name in (*manifest.files, MANIFEST):
            (draft / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(path / name, draft / name)
        yield draft


def _save_encoder(model: Model, folder: Path, before: Path | None, known: dict[str, str]) -> dict[str, Any] | None:
    """Save the encoder (or its name and hash) and the adapters; return its entry in config.json.

    The sha256 of files that are copied are noted in `known`.
    """
    encoder = model.encoder
    tuning = model.config.encoder.tuning
    if encoder is None:
        return None
    dtype = _DTYPES[model.config.training.save_dtype]
    source = encoder.folder
    name = model.config.encoder.name
    inside = model.config.encoder.store == "inside" or tuning == "full"  # nowhere else is there such an encoder
    if tuning == "full" and encoder.trained is not None:
        source = folder / ENCODER
        encoder.save_learned(source, dtype)
        return _describe(source, name, inside)
    encoder.save_learned(folder / ADAPTERS, dtype)
    if inside:
        known |= _copy_encoder(source, folder, before, ENCODER)
    return _describe(source, name, inside)


def _save_beside(model: Model, folder: Path, before: Path | None, known: dict[str, str]) -> dict[str, Any]:
    """Save the encoders beside the first as `_save_encoder` does; return their entries in config.json."""
    encoder = model.encoder
    config = model.config.encoder
    if encoder is None or not config.beside:
        return {}
    inside = config.store == "inside"
    records = []
    targets = inside_names(model.config)[1:]
    for member, name, target in zip(encoder.members[1:], config.beside, targets, strict=True):
        if inside:
            known |= _copy_encoder(member.folder, folder, before, target)
        records.append(_describe(member.folder, name, inside))
    return {"beside": records}


def _copy_encoder(source: Path, folder: Path, before: Path | None, name: str) -> dict[str, str]:
    """Copy the files of an encoder, or link their twins in `before`; return the sha256 of the source files.

    By these hashes a damaged twin is noticed.
    """
    (folder / name).mkdir()
    for file in encoder_files(source):
        _link_or_copy(None if before is None else before / name / file.name, file, folder / name / file.name)
    return {f"{name}/{file.name}": file_hash(file) for file in encoder_files(source)}


def _describe(source: Path, name: str, inside: bool) -> dict[str, Any]:
    """Describe the encoder of a folder, for config.json: its name, by which it is looked for, and its hashes."""
    named = None if inside else named_folder(name)
    if named is not None:
        name = str(named.absolute())  # it is looked for from wherever the model is used
    return {"name": name, "sha256": weights_hash(source), "files_sha256": files_hash(source), "inside": inside}


def _link_or_copy(twin: Path | None, source: Path, target: Path) -> None:
    """Link the twin as `target`; if there is no twin, or the file system has no links, copy the source."""
    if twin is not None:
        try:
            os.link(twin, target)
        except OSError:
            pass
        else:
            return
    shutil.copyfile(source, target)


def _check_functions(config: Config) -> None:
    """Refuse to save settings that name a function which cannot be found by its name, such as a lambda."""
    try:
        load_record(config.to_dict(), config.text.functions().values())
    except ConfigError as error:
        raise ConfigError(
            f"{error}\nload the model with a function of a module, such as words='my_module:my_function', to save it"
        ) from None


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
