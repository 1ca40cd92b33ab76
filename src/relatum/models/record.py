"""The config.json of a model, and the checks of a model's JSON files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any

from relatum import files
from relatum._version import __version__
from relatum.config import Config, OwnFunctionError, load_record
from relatum.errors import ConfigError, RelatumError
from relatum.types import Calibration, ScoreMap

FORMAT = 2
"""The layout of a model's directory; a reader refuses one it does not know."""

CURE = "copy the whole model again from where it was made, or train it again with relatum train"


@dataclass(frozen=True, slots=True)
class EncoderRecord:
    """The encoder that a model was trained with: its name, its hashes, and whether its files are inside the model."""

    name: str
    sha256: str
    """The hash of the encoder's weights."""
    inside: bool
    files_sha256: str
    """The hash of all files of the encoder."""


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """The settings of a model, and whatever else is needed to build it."""

    config: Config
    encoder: EncoderRecord | None
    characters: tuple[str, ...]
    calibration: Calibration | None = None
    """The calibration of scores; None if the model shows the network's own scores."""
    beside: tuple[EncoderRecord, ...] = ()
    """Encoders beside the first."""

    @classmethod
    def read(cls, path: Path, text: Mapping[str, str] = MappingProxyType({})) -> ModelRecord:
        """Read the config.json of a model; `text` are rules for splitting text that the user gives instead of its own.

        A function of the user's own that the file names is an error unless `text` has another rule in its place.
        """
        record = read_json(path)
        if record.get("format") != FORMAT:
            raise RelatumError(
                f"{path}: found format {record.get('format')!r}, expected {FORMAT}; the model was made by relatum "
                f"{record.get('relatum_version')}, this is {__version__}: install a version that can read it"
            )
        settings = _value(path, record, "config", dict)
        if text and isinstance(settings.get("text"), dict):
            settings["text"] = {key: value for key, value in settings["text"].items() if key not in text}
        try:
            config = load_record(settings)
        except OwnFunctionError as error:
            raise OwnFunctionError(f"{path}: {error}") from None
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}\n{CURE}") from None
        config = config.model_copy(update={"text": config.text.model_copy(update=dict(text))})
        encoder = _value(path, record, "encoder", dict, NoneType)
        if encoder is not None:
            encoder = _read_encoder(path, encoder)
        beside = _read_beside(path, record, len(config.encoder.beside))
        characters = _value(path, record, "characters", list, NoneType) or ()
        check_entries(path, characters)
        calibration = _read_calibration(path, record) if "calibration" in record else None
        return cls(config, encoder, tuple(characters), calibration, beside)


def calibration_record(calibration: Calibration) -> dict[str, dict[str, float]]:
    """A calibration as it stands in config.json."""
    return asdict(calibration)


def _read_encoder(path: Path, record: dict[str, Any]) -> EncoderRecord:
    kinds = {"name": str, "sha256": str, "inside": bool, "files_sha256": str}
    values = {key: _value(path, record, key, kind) for key, kind in kinds.items()}
    return EncoderRecord(**values)


def _read_beside(path: Path, record: dict[str, Any], expected: int) -> tuple[EncoderRecord, ...]:
    entries = _value(path, record, "beside", list) if "beside" in record else []
    if len(entries) != expected:
        raise RelatumError(f"{path}: found {len(entries)} encoders in 'beside', expected {expected}; {CURE}")
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            raise RelatumError(
                f"{path}: found {type(entry).__name__} as entry {number} of 'beside', expected dict; {CURE}"
            )
    return tuple(_read_encoder(path, entry) for entry in entries)


def _read_calibration(path: Path, record: dict[str, Any]) -> Calibration:
    maps = {}
    calibration = _value(path, record, "calibration", dict)
    for task in (field.name for field in fields(Calibration)):
        values = _value(path, calibration, task, dict)
        numbers = {field.name: _value(path, values, field.name, float, int) for field in fields(ScoreMap)}
        try:
            maps[task] = ScoreMap(**{name: float(number) for name, number in numbers.items()})
        except (ValueError, OverflowError) as error:
            raise RelatumError(f"{path}: found no usable calibration of {task}: {error}; {CURE}") from None
    return Calibration(**maps)


def _value(path: Path, record: dict[str, Any], key: str, *kinds: type) -> Any:
    """Return a value of a record, which must be there and of one of the kinds."""
    if key in record and isinstance(record[key], kinds) and (bool in kinds or not isinstance(record[key], bool)):
        return record[key]
    found = f"{type(record[key]).__name__} for {key!r}" if key in record else f"no {key!r}"
    expected = " or ".join("null" if kind is NoneType else kind.__name__ for kind in kinds)
    raise RelatumError(f"{path}: found {found}, expected {expected}; {CURE}")


def check_entries(path: Path, entries: Sequence[object]) -> None:
    """Refuse a vocabulary whose entries are not strings that differ."""
    seen: set[str] = set()
    for place, entry in enumerate(entries, 1):
        if not isinstance(entry, str) or entry in seen:
            raise RelatumError(f"{path}: found {entry!r:.50} as entry {place}, expected strings that differ; {CURE}")
        seen.add(entry)


def read_json(path: Path, kind: type = dict) -> Any:
    """Read the JSON value in a file of a model; refuse a value that is not of the kind."""
    if not path.exists():
        raise RelatumError(f"{path}: no such file; a model is a directory made by relatum train")
    try:
        value = files.read_json(path, files.MAX_JSON if kind is list else files.MAX_RECORD)  # words are a list
    except RelatumError as error:
        raise RelatumError(f"{error}; {CURE}") from None
    if not isinstance(value, kind):
        raise RelatumError(f"{path}: found {type(value).__name__}, expected {kind.__name__}; {CURE}")
    return value
