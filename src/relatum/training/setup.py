"""From settings and data to a model with fresh weights."""

from __future__ import annotations

import random

import torch
from torch import nn

from relatum.config import Config
from relatum.encoders.base import TextEncoder
from relatum.encoders.resolve import load_encoder, named_folder
from relatum.encoders.tuned import TunedEncoder
from relatum.encoders.words import WordVectors, read_word_vectors
from relatum.errors import ConfigError
from relatum.folders import expand_user
from relatum.models.build import build_model
from relatum.models.model import Model
from relatum.models.vocabulary import find_characters
from relatum.training.corpus import TrainingData
from relatum.training.optimisation import Group, encoder_groups
from relatum.training.warm_start import absolute_model, find_adapters, take_over


def set_up_device(device: torch.device) -> None:
    """Set torch up for training on a device: for a GPU, matrix products in TF32, and few threads on the CPU.

    The work that is left to the CPU beside a GPU is small, and dividing it among many threads takes longer than doing
    it.
    """
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
        torch.set_num_threads(min(torch.get_num_threads(), 2))


def with_absolute_paths(config: Config) -> Config:
    """Return the settings with absolute paths, for a program that is started in another directory."""
    encoder, words = config.encoder, config.words
    if encoder.kind != "none":
        name, *beside = map(_absolute, encoder.names)
        encoder = encoder.model_copy(update={"name": name, "beside": tuple(beside)})
    if encoder.adapters is not None:
        encoder = encoder.model_copy(update={"adapters": absolute_model(encoder.adapters)})
    if encoder.cache_path is not None:
        encoder = encoder.model_copy(update={"cache_path": str(expand_user(encoder.cache_path).absolute())})
    if words.path is not None:
        words = words.model_copy(update={"path": str(expand_user(words.path).absolute())})
    training = config.training
    changed: dict[str, object] = {"teachers": tuple(map(absolute_model, training.teachers))}
    if training.start is not None:
        changed["start"] = absolute_model(training.start)
    if training.unlabelled is not None:
        changed["unlabelled"] = str(expand_user(training.unlabelled).absolute())
    training = training.model_copy(update=changed)
    return config.model_copy(update={"encoder": encoder, "words": words, "training": training})


def _absolute(encoder: str) -> str:
    """Return the name of an encoder; if it is a folder, its absolute path."""
    folder = named_folder(encoder)
    return encoder if folder is None else str(folder.absolute())


def make_model(
    data: TrainingData, config: Config, device: torch.device, has_weights: bool = False
) -> tuple[Model, list[str]]:
    """Make a model with fresh weights, drawn by the seed, or those of `training.start`; return it and remarks on it.

    A run that is resumed has its weights in a checkpoint, and does not need the model that it was started from, unless
    `encoder.adapters` names it.
    """
    remarks: list[str] = []
    wants_maps = config.table.attention_maps and config.table.kind != "none"
    vectors = _read_vectors(config.words.path)
    encoder: TextEncoder | None
    if config.encoder.tuning == "frozen":
        encoder = load_encoder(config.encoder, wants_maps, adapters=find_adapters(config))
    else:
        encoder = TunedEncoder.prepare(config, wants_maps)
        sizes = [(one.numel(), one.requires_grad) for one in encoder.module.parameters()]
        learned = sum(size for size, is_learned in sizes if is_learned)
        what = "adapters beside" if config.encoder.tuning == "lora" else "all weights of"
        remarks.append(f"{what} the encoder are learned, too: {learned:,} of {sum(n for n, _ in sizes):,} numbers")
    characters = find_characters(example.sentence.words for example in data.train)
    random.seed(config.training.seed)
    torch.manual_seed(config.training.seed)
    model = build_model(config, data.schema, encoder, vectors, characters)
    if config.training.start is not None and not has_weights:
        remarks.append(take_over(model, config.training.start))
    if model.words is not None:
        unknown, total = model.words.unknown_share(example.sentence.words for example in data.train)
        remarks.append(f"{unknown:,} of {total:,} training words ({unknown / total:.1%}) have no vector")
    return model.to(device), remarks


def learned_parts(model: Model) -> tuple[nn.Module, list[Group]]:
    """Return the network, with a tuned encoder if there is one, as one module, and the encoder's weights and rates."""
    config = model.config
    encoder = None if model.encoder is None else model.encoder.trained
    if encoder is None:
        return model.network, []
    groups = encoder_groups(encoder.learned_weights(), config.encoder.tuning, config.training)
    return nn.ModuleDict({"network": model.network, "encoder": encoder.module}), groups


def _read_vectors(name: str | None) -> WordVectors | None:
    if name is None:
        return None
    path = expand_user(name)
    if not path.exists():
        raise ConfigError(
            f"words.path: no such file {path}; get GloVe (glove.6B.zip) or pass --set words.path=FILE, or "
            "--set words.path=unset to do without"
        )
    return read_word_vectors(path)
