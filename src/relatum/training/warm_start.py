"""Starting a run from a trained model: its sizes and encoder, and every weight that fits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from relatum.config import TAKEN_SECTIONS, Config, EncoderConfig, find_given, list_keys, without_idle
from relatum.encoders.adapters import load_adapters
from relatum.encoders.hashing import ADAPTER_SETTINGS, files_hash
from relatum.encoders.resolve import find_encoder
from relatum.errors import ConfigError, RelatumError
from relatum.extractor.finding import find_model, shipped_models
from relatum.files import read_json
from relatum.folders import expand_user
from relatum.models.checkpoint import load_stored
from relatum.models.model import Model
from relatum.models.record import ModelRecord
from relatum.models.stored import ADAPTERS, StoredModel, inside_names
from relatum.models.vocabulary import FIRST
from relatum.training.arguments import write_override

_OWN: tuple[str, ...] = (
    "encoder.cache",
    "encoder.cache_path",
    "encoder.cache_limit_mib",
    "encoder.store",
    "model.dropout",
)
"""Settings in the sections that are taken over which a run may choose for itself."""


def taken_overrides(path: Path | None, overrides: Sequence[str], freeze: bool = False) -> list[str]:
    """Return the settings that a run takes from other models, as `--set` takes them, except settings that are given.

    The model that it starts from gives it its sizes; with `freeze`, its encoder is not trained unless that is given.
    Without such a model, the run's teachers give it their tagging, which must be the same.
    """
    given = find_given(path, overrides)
    start = given["training.start"].value if "training.start" in given else None
    teachers = given["training.teachers"].value if "training.teachers" in given else None
    sections: tuple[str, ...] = TAKEN_SECTIONS
    own = _OWN
    if isinstance(start, str):
        name = start
    elif isinstance(teachers, list) and teachers and isinstance(teachers[0], str):
        name, sections, own = teachers[0], ("tagging",), ("tagging.conflicts",)
    else:
        return []
    rules = {key: given[f"text.{key}"].value for key in ("words", "sentences") if f"text.{key}" in given}
    settings = _read_settings(find_model(name), {key: rule for key, rule in rules.items() if isinstance(rule, str)})
    if isinstance(start, str):
        tuning = given["encoder.tuning"].value if "encoder.tuning" in given else "frozen" if freeze else None
        settings = settings.model_copy(update={"encoder": _change_tuning(settings.encoder, start, tuning)})
    names = {key.name for key in list_keys(settings)} - set(own)
    wanted = {name for name in names if name.partition(".")[0] in sections} - set(given)
    taken = [write_override(key.name, key.value) for key in list_keys(settings) if key.name in wanted]
    return without_idle(path, overrides, taken)


def _read_settings(path: Path, rules: Mapping[str, str]) -> Config:
    """Read the settings of a model; an encoder that is stored inside is named by its folder.

    `rules` are those for splitting text that the user gives: they may be functions, which no file may name.
    """
    record = ModelRecord.read(path / "config.json", rules)
    config = record.config
    if record.encoder is None or not record.encoder.inside:
        return config
    name, *beside = (str((path / folder).absolute()) for folder in inside_names(config))
    encoder = config.encoder.model_copy(update={"name": name, "beside": tuple(beside)})
    return config.model_copy(update={"encoder": encoder})


def _change_tuning(encoder: EncoderConfig, name: str, tuning: object) -> EncoderConfig:
    """Return the settings of a model's encoder for another tuning, with the adapters of the model; None for its own."""
    tuning = tuning or encoder.tuning
    has_adapters = encoder.tuning == "lora" or encoder.adapters is not None
    if tuning == "frozen":
        return encoder.model_copy(update={"tuning": tuning, "adapters": name if has_adapters else None})
    if tuning == "lora" and encoder.adapters is not None:
        return encoder.model_copy(
            update={"tuning": tuning, "adapters": None, **_read_shape(find_model(name) / ADAPTERS)}
        )
    return encoder


def _read_shape(adapters: Path) -> dict[str, object]:
    """Return the settings that adapters were made with."""
    path = adapters / ADAPTER_SETTINGS
    settings: Any = read_json(path)
    try:
        modules = tuple(sorted(settings["target_modules"]))
        return {"lora_rank": settings["r"], "lora_alpha": settings["lora_alpha"], "lora_modules": modules}
    except (LookupError, TypeError) as error:
        raise RelatumError(f"{path}: not the settings of LoRA adapters ({error!r}); copy the model again") from None


def find_adapters(config: Config) -> Path | None:
    """Return the folder of the adapters of a frozen encoder; None if the settings name none."""
    name = config.encoder.adapters
    if name is None:
        return None
    folder = expand_user(name)
    if (folder / ADAPTER_SETTINGS).is_file():
        return folder
    try:
        stored = StoredModel.read(find_model(name), config.text.functions())
    except RelatumError as error:
        raise ConfigError(f"encoder.adapters: {error}") from None
    if stored.adapters is None:
        raise ConfigError(f"encoder.adapters: the model {name} has no adapters; leave the setting out")
    _check_encoder(stored, config, "encoder.adapters")
    return stored.adapters


def _check_encoder(stored: StoredModel, config: Config, setting: str) -> None:
    """Refuse adapters of another encoder than that of a run."""
    own, theirs = find_encoder(config.encoder.name), stored.encoders[0]
    if files_hash(own) != files_hash(theirs):
        raise ConfigError(
            f"{setting}: the adapters of {stored.path} are of another encoder ({stored.config.encoder.name}) than "
            f"{config.encoder.name}; leave encoder.name to the model"
        )


def absolute_model(name: str) -> str:
    """Return the absolute path of a model's folder, or the name of a model that comes with relatum or is on the hub."""
    return name if name in shipped_models() or not Path(name).is_dir() else str(Path(name).absolute())


def take_over(model: Model, name: str) -> str:
    """Copy every weight that fits from a trained model into a new one; return a remark about it.

    Weights of characters and of tags are copied by the names of the characters and tags, so that labels which both
    models have are known from the start.
    """
    stored = StoredModel.read(find_model(name), model.config.text.functions())
    start = load_stored(stored)
    if stored.adapters is not None and model.encoder is not None:
        _take_adapters(model, stored)
    before = start.network.state_dict()
    weights = model.network.state_dict()
    n_taken = n_all = 0
    for key, weight in weights.items():
        rows = _matching_rows(key, model, start)
        taken = _copy(before.get(key), weight, rows)
        n_taken += taken
        n_all += weight.numel()
    if not n_taken:
        raise ConfigError(f"training.start: no weight of {name} fits this network; leave the sizes to the model")
    known = _labels(model) & _labels(start)
    if model.config.tagging.kind != start.config.tagging.kind:
        known -= set(model.schema.entity_types)  # they have other tags
    labels = f"; it knows the labels {', '.join(sorted(known))}" if known else ""
    adapters = ""
    if model.config.encoder.adapters is not None:
        adapters = (
            "; the adapters of its encoder stay as they are (--set encoder.tuning=lora trains them on, more slowly)"
        )
    return f"the run starts from {name}: {n_taken / n_all:.1%} of {n_all:,} weights are taken over{labels}{adapters}"


def _labels(model: Model) -> set[str]:
    return {*model.schema.entity_types, *model.schema.relation_names}


def _take_adapters(model: Model, stored: StoredModel) -> None:
    """Copy the adapters of an encoder, unless the run's encoder has them already; refuse to lose them."""
    encoder = model.config.encoder
    trained = None if model.encoder is None else model.encoder.trained
    if encoder.tuning == "lora" and trained is not None and stored.adapters is not None:
        _check_encoder(stored, model.config, "training.start")
        load_adapters(trained.module, stored.adapters)
    elif encoder.tuning == "full" or (encoder.kind == "huggingface" and encoder.adapters is None):
        raise ConfigError(
            "training.start: the encoder of this model has adapters, which are lost with encoder.tuning = "
            f'"{encoder.tuning}"; set it to "lora" to train the adapters on, or to "frozen" to keep them as they are'
        )


def _matching_rows(key: str, model: Model, start: Model) -> list[tuple[int, int]] | None:
    """Return pairs of rows with the same meaning, ours and theirs; None if rows have no names."""
    if key.startswith("entity_scorer."):
        return _by_name(model.tagging.words.names, start.tagging.words.names)
    if key.startswith("relation_scorer."):
        return _by_name(model.tagging.cells.names, start.tagging.cells.names)
    if key == "embedder.characters.embedding.weight" and model.characters and start.characters:
        pairs = _by_name(model.characters.entries, start.characters.entries)
        special = [(row, row) for row in range(FIRST)]
        return special + [(ours + FIRST, theirs + FIRST) for ours, theirs in pairs]
    return None


def _by_name(ours: Sequence[str], theirs: Sequence[str]) -> list[tuple[int, int]]:
    places = {name: place for place, name in enumerate(theirs)}
    return [(place, places[name]) for place, name in enumerate(ours) if name in places]


@torch.no_grad()
def _copy(theirs: Tensor | None, ours: Tensor, rows: Collection[tuple[int, int]] | None) -> int:
    """Copy a weight, or some of its rows, if the shapes allow it; return how many numbers were copied."""
    if theirs is None or theirs.shape[1:] != ours.shape[1:]:
        return 0
    if rows is None:
        if theirs.shape != ours.shape:
            return 0
        ours.copy_(theirs)
        return ours.numel()
    for place, source in rows:
        ours[place] = theirs[source]
    return len(rows) * ours[0].numel()
