"""From settings and data to a model with fresh weights."""

from __future__ import annotations

import random

import torch

from relatum.config import Config
from relatum.encoders.resolve import expand_user, load_encoder, named_folder
from relatum.encoders.words import WordVectors, read_word_vectors
from relatum.errors import ConfigError
from relatum.models.build import build_model
from relatum.models.model import Model
from relatum.models.vocabulary import find_characters
from relatum.training.corpus import TrainingData


def set_up_device(device: torch.device) -> None:
    """What training wants of torch on a device: on a GPU, products as TF32, and few threads beside it.

    What is left to the CPU there is small, and sharing it out among many threads takes longer than doing it.
    """
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")
        torch.set_num_threads(min(torch.get_num_threads(), 2))


def with_absolute_paths(config: Config) -> Config:
    """The same settings for a program that is started in another directory."""
    encoder, words = config.encoder, config.words
    folder = None if encoder.kind == "none" else named_folder(encoder.name)
    if folder is not None:
        encoder = encoder.model_copy(update={"name": str(folder.absolute())})
    if encoder.cache_path is not None:
        encoder = encoder.model_copy(update={"cache_path": str(expand_user(encoder.cache_path).absolute())})
    if words.path is not None:
        words = words.model_copy(update={"path": str(expand_user(words.path).absolute())})
    return config.model_copy(update={"encoder": encoder, "words": words})


def make_model(data: TrainingData, config: Config, device: torch.device) -> tuple[Model, list[str]]:
    """A model with fresh weights, drawn by the seed, and what there is to say about it."""
    remarks = []
    wants_maps = config.table.attention_maps and config.table.kind != "none"
    vectors = _read_vectors(config.words.path)
    encoder = load_encoder(config.encoder, wants_maps)
    characters = find_characters(example.sentence.words for example in data.train)
    random.seed(config.training.seed)
    torch.manual_seed(config.training.seed)
    model = build_model(config, data.schema, encoder, vectors, characters)
    if model.words is not None:
        unknown, total = model.words.unknown_share(example.sentence.words for example in data.train)
        remarks.append(f"{unknown:,} of {total:,} training words ({unknown / total:.1%}) have no vector")
    return model.to(device), remarks


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
