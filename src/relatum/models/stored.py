"""A model's directory as it is read: settings, labels, vocabularies and weights, checked; without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
from safetensors import SafetensorError

from relatum.config import Config
from relatum.encoders.hashing import files_hash, weights_hash
from relatum.encoders.resolve import find_encoder
from relatum.encoders.weights import read_tensors
from relatum.errors import RelatumError
from relatum.files import read_bytes
from relatum.kernels.arrays import Array
from relatum.models.manifest import CARD, Manifest
from relatum.models.record import CURE, EncoderRecord, ModelRecord, check_entries, read_json
from relatum.models.vocabulary import FIRST
from relatum.schema import Schema
from relatum.types import Calibration

ENCODER = "encoder"
"""The folder of an encoder that is stored inside."""

ADAPTERS = "adapter"
"""The folder of the LoRA adapters of an encoder, learned with the model or with another model."""

WEIGHTS = "model.safetensors"


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model as its directory holds it."""

    path: Path
    config: Config
    schema: Schema
    weights: Mapping[str, Array]
    """The weights of the network, in the precision of the file."""
    words: tuple[str, ...] | None
    characters: tuple[str, ...]
    calibration: Calibration | None
    encoders: tuple[Path, ...]
    """The folders of the encoder and of those beside it; empty if the model has none."""
    adapters: Path | None

    @classmethod
    def read(cls, path: Path, text: Mapping[str, str] = MappingProxyType({})) -> StoredModel:
        """Read and check a directory; `text` are rules for splitting text that the user gives instead of its own."""
        manifest = Manifest.read(path)
        manifest.check()
        record = ModelRecord.read(path / "config.json", text)
        schema = Schema.load(path / "schema.json")
        weights = _read_weights(path / WEIGHTS)
        words = _read_words(path, weights) if "words.json" in manifest else None
        _check_sizes(path, record, schema, weights)
        config = record.config
        folders: list[Path] = []
        adapters = None
        if record.encoder is not None:
            encoders = zip((record.encoder, *record.beside), inside_names(config), strict=True)
            folders = [_find_encoder(entry, manifest, inside) for entry, inside in encoders]
            has_adapters = config.encoder.tuning == "lora" or config.encoder.adapters is not None
            adapters = _listed_folder(manifest, ADAPTERS) if has_adapters else None
        return cls(
            path, config, schema, weights, words, record.characters, record.calibration, tuple(folders), adapters
        )

    @property
    def reads_maps(self) -> bool:
        """True if the table reads the attention maps of an encoder."""
        return self.config.table.attention_maps and self.config.table.kind != "none"


def read_card(path: Path) -> str:
    """Read the card of a model whose files have been checked; empty if it has none."""
    if CARD not in Manifest.read(path):
        return ""
    try:
        return read_bytes(path / CARD).decode()
    except UnicodeDecodeError as error:
        raise RelatumError(f"{path / CARD}: found a byte that is not UTF-8 at {error.start}; {CURE}") from None


def _read_weights(path: Path) -> dict[str, Array]:
    """Read the weights of the network into memory, where a file that is written over does not change them."""
    try:
        return {name: np.array(values) for name, values in read_tensors(path).items()}
    except (OSError, SafetensorError) as error:
        raise RelatumError(f"{path}: the weights cannot be read ({error}); {CURE}") from None


def _read_words(path: Path, weights: Mapping[str, Array]) -> tuple[str, ...]:
    """Return the words of words.json, whose vectors are among the weights."""
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
    return tuple(words)


def inside_names(config: Config) -> list[str]:
    """Return the names of the folders of encoders stored inside: the first encoder's, then those of the others."""
    return [ENCODER, *(f"{ENCODER}-{number}" for number in range(2, len(config.encoder.beside) + 2))]


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


def _check_sizes(path: Path, record: ModelRecord, schema: Schema, weights: Mapping[str, Array]) -> None:
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
