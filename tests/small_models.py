"""A small random model that reads only characters, for tests of all that happens around a network."""

from __future__ import annotations

from pathlib import Path

import torch

from relatum.config import load_config
from relatum.encoders.resolve import load_encoder
from relatum.models.build import build_model
from relatum.models.manifest import Manifest
from relatum.models.model import Model
from relatum.schema import RelationType, Schema

SCHEMA = Schema(("Loc", "Peop"), (RelationType("Live_In"), RelationType("Kin", symmetric=True)))


def seal(folder: Path) -> None:
    """Write the manifest of a model anew, after a test has changed its files."""
    Manifest.of_folder(folder, {}).write()


SETTINGS = (
    "encoder.kind=none",
    "model.width=8",
    "model.n_layers=2",
    "sequence.n_attention_heads=2",
    "sequence.feedforward_width=8",
    "characters.width=6",
)


def make_small_model(*overrides: str, seed: int = 160, spread: float = 1.5, schema: Schema = SCHEMA) -> Model:
    """Weights so large that entities of several words and relations are found in any text."""
    config = load_config(None, (*SETTINGS, *overrides))
    model = build_model(config, schema, load_encoder(config.encoder, want_maps=True), None, "abdefhilmnoprstuw")
    torch.manual_seed(seed)
    for parameter in model.network.parameters():
        parameter.data = spread * torch.randn_like(parameter)
    model.network.eval()
    return model
