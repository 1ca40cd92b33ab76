"""From settings and data to a model with fresh weights."""

from __future__ import annotations

import random
from pathlib import Path

import torch

from relatum.config import Config
from relatum.encoders.resolve import load_encoder
from relatum.encoders.words import read_word_vectors
from relatum.errors import RelatumError
from relatum.models.build import build_model
from relatum.models.model import Model
from relatum.models.vocabulary import find_characters
from relatum.training.corpus import TrainingData


def choose_device(name: str) -> torch.device:
    """The device of a name; "auto" is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise RelatumError("--device cuda: torch finds no GPU here; see relatum doctor, or use --device cpu")
    return torch.device(name)


def make_model(data: TrainingData, config: Config, device: torch.device) -> tuple[Model, list[str]]:
    """A model with fresh weights, drawn by the seed, and what there is to say about it."""
    remarks = []
    wants_maps = config.table.attention_maps and config.table.kind != "none"
    encoder = load_encoder(config.encoder, wants_maps)
    vectors = None if config.words.path is None else read_word_vectors(Path(config.words.path))
    characters = find_characters(example.sentence.words for example in data.train)
    random.seed(config.training.seed)
    torch.manual_seed(config.training.seed)
    model = build_model(config, data.schema, encoder, vectors, characters)
    if model.words is not None:
        unknown, total = model.words.unknown_share(example.sentence.words for example in data.train)
        remarks.append(f"{unknown:,} of {total:,} training words ({unknown / total:.1%}) have no vector")
    return model.to(device), remarks
