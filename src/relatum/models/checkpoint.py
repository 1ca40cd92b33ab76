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
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from relatum._version import __version__
from relatum.config import Config, load_record
from relatum.data.atomic import new_folder, replacing_file
from relatum.encoders.hashing import encoder_files, file_hash, files_hash, weights_hash
from relatum.encoders.resolve import find_encoder, load_encoder, named_folder
from relatum.encoders.words import WordVectors
from relatum.errors import ConfigError, RelatumError
from relatum.files import read_bytes
from relatum.models.build import build_model
from relatum.models.manifest import CARD, Manifest
from relatum.models.manifest import NAME as MANIFEST
from relatum.models.model import Model
from relatum.models.record import (
    CURE,
    FORMAT,
    EncoderRecord,
    ModelRecord,
    calibration_record,
    check_entries,
    read_json,
)
from relatum.models.vocabulary import FIRST
from relatum.schema import Schema
from relatum.types import Calibration

ENCODER = "encoder"
"""The folder of an encoder that is stored inside."""

ADAPTERS = "adapter"
"""The folder of the LoRA adapters that were learned for an encoder."""

WEIGHTS = "model.safetensors"

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
    manifest = Manifest.read(path)
    manifest.check()
    record = ModelRecord.read(path / "config.json", text)
    schema = Schema.load(path / "schema.json")
    weights = _read_weights(path / WEIGHTS)
    words = _read_words(path, weights) if "words.json" in manifest else None
    _check_sizes(path, record, schema, weights)
    config = record.config
    encoder = None
    if record.encoder is not None:
        want_maps = config.table.attention_maps and config.table.kind != "none"
        encoders = zip((record.encoder, *record.beside), inside_names(config), strict=True)
        folders = [_find_encoder(entry, manifest, inside) for entry, inside in encoders]
        adapters = _listed_folder(manifest, ADAPTERS) if config.encoder.tuning == "lora" else None
        encoder = load_encoder(config.encoder, want_maps, folders, adapters)
    try:
        model = build_model(config, schema, encoder, words, record.characters)
    except ConfigError as error:
        raise ConfigError(f"{path / 'config.json'}: {error}") from None
    except (RuntimeError, MemoryError) as error:  # torch's words for a network that has no room
        raise RelatumError(f"{path / 'config.json'}: the network cannot be made ({error}); {CURE}") from None
    try:
        model.network.load_state_dict({name: value.float() for name, value in weights.items()})
    except RuntimeError as error:
        raise RelatumError(f"{path / WEIGHTS}: the weights do not fit config.json: {error}\n{CURE}") from None
    model.network.eval()
    return replace(model, calibration=record.calibration).to(device)


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


def read_card(path: Path) -> str:
    """Read the card of a model whose files have been checked; empty if it has none."""
    if CARD not in Manifest.read(path):
        return ""
    try:
        return read_bytes(path / CARD).decode()
    except UnicodeDecodeError as error:
        raise RelatumError(f"{path / CARD}: found a byte that is not UTF-8 at {error.start}; {CURE}") from None


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


def _read_weights(path: Path) -> dict[str, torch.Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise RelatumError(f"{path}: the weights cannot be read ({error}); {CURE}") from None


def _read_words(path: Path, weights: dict[str, torch.Tensor]) -> WordVectors:
    """Return the words of words.json and their vectors, which are among the weights."""
    words = read_json(path / "words.json", list)
    check_entries(path / "words.json", words)
    vectors = weights.get("embedder.words.vectors")
    if vectors is None or vectors.ndim != 2:
        raise RelatumError(f"{path / WEIGHTS}: found no vectors for the words of words.json; {CURE}")
    if len(words) != len(vectors) - FIRST:
        raise RelatumError(
            f"{path / 'words.json'}: found {len(words)} words, but {WEIGHTS} has vectors for {len(vectors) - FIRST}; "
            f"{CURE}"
        )
    return WordVectors(tuple(words), vectors[FIRST:].float())


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
    if tuning == "lora":
        (folder / ADAPTERS).mkdir()
        encoder.save_learned(folder / ADAPTERS, dtype)
    if tuning == "full" and encoder.is_trained:
        source = folder / ENCODER
        source.mkdir()
        encoder.save_learned(source, dtype)
        return _describe(source, name, inside)
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


def inside_names(config: Config) -> list[str]:
    """Return the names of the folders of encoders stored inside: the first encoder's, then those of the others."""
    return [ENCODER, *(f"{ENCODER}-{number}" for number in range(2, len(config.encoder.beside) + 2))]


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


def _listed_folder(manifest: Manifest, name: str) -> Path:
    """Return a folder inside the model; refuse a folder without files in the manifest, which have been checked."""
    if not any(file.startswith(f"{name}/") for file in manifest.files):
        raise RelatumError(f"{manifest.folder / name}: the files of the model's {name} are not there; {CURE}")
    return manifest.folder / name


def _find_encoder(record: EncoderRecord, manifest: Manifest, inside: str) -> Path:
    """Return the folder of a model's encoder, which must be the very encoder that the model was trained with.

    For an encoder stored in the folder `inside` of the model, the model's manifest ensures that.
    """
    path = manifest.folder
    if record.inside:
        return _listed_folder(manifest, inside)
    if Path(record.name).is_absolute() and not Path(record.name).is_dir():
        raise RelatumError(
            f"{path}: the model was trained with the encoder in the folder {record.name}, which is not there; put it "
            "back, or make a link there to where it is now"
        )
    folder = find_encoder(record.name)
    if files_hash(folder) == record.files_sha256:
        return folder
    cure = f"get the encoder {record.name!r} that it was trained with"
    found = weights_hash(folder)
    if found != record.sha256:
        raise RelatumError(
            f"{folder}: the encoder's weights have the sha256 {found}, but {path} was trained with {record.sha256}; "
            f"{cure}"
        )
    raise RelatumError(
        f"{folder}: the encoder has the weights that {path} was trained with, but its settings or its tokenizer are "
        f"others (the sha256 of its files is not {record.files_sha256}); {cure}"
    )


def _check_sizes(path: Path, record: ModelRecord, schema: Schema, weights: Mapping[str, torch.Tensor]) -> None:
    """Refuse sizes that the weights do not have, before a network of these sizes is made.

    Everything that has a size is a dimension of some weights, so no size is larger than the largest dimension.
    """
    config = record.config
    largest = max((size for tensor in weights.values() for size in tensor.shape), default=0)
    sizes = {
        "model.width": config.model.width,
        "table.width": config.table.width or 0,
        "sequence.feedforward_width": config.sequence.feedforward_width if config.sequence.kind != "none" else 0,
        "characters.width": config.characters.width if config.characters.kind != "none" else 0,
        "table.kernel_size": config.table.kernel_size if config.table.kind == "cnn" else 0,
        "characters": len(record.characters),
        "entity types": len(schema.entity_types),
        "relation types": len(schema.relation_types) if config.table.kind != "none" else 0,
    }
    n_layers = len({name.split(".")[1] for name in weights if name.startswith("layers.")})
    wrong = next((f"{number} for {name}" for name, number in sizes.items() if number > largest), None)
    if not config.model.share_layers and config.model.n_layers > n_layers:
        wrong = f"{config.model.n_layers} for model.n_layers"
    if wrong:
        raise RelatumError(
            f"{path / WEIGHTS}: the weights do not fit config.json and schema.json, which have {wrong}\n{CURE}"
        )


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
