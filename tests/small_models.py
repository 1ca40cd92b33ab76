"""A small random model that reads only characters, for tests of all that happens around a network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from relatum.config import load_config
from relatum.encoders.base import EncoderInput, EncoderOutput
from relatum.encoders.resolve import load_encoder
from relatum.encoders.words import WordVectors
from relatum.models.build import build_model
from relatum.models.collate import collate_batch
from relatum.models.inputs import ModelInputs
from relatum.models.manifest import Manifest
from relatum.models.model import Model
from relatum.schema import RelationType, Schema
from relatum.types import Context

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


def make_small_model(
    *overrides: str, seed: int = 160, spread: float = 1.5, schema: Schema = SCHEMA, words: WordVectors | None = None
) -> Model:
    """Weights so large that entities of several words and relations are found in any text."""
    config = load_config(None, (*SETTINGS, *overrides))
    model = build_model(config, schema, load_encoder(config.encoder, want_maps=True), words, "abdefhilmnoprstuw")
    torch.manual_seed(seed)
    for parameter in model.network.parameters():
        parameter.data = spread * torch.randn_like(parameter)
    model.network.eval()
    return model


def make_small_span_model(*overrides: str, seed: int = 3, shift: float = 2.0) -> Model:
    """Make a small random model with span tagging, which finds some entities and several relations of a pair.

    `shift` is added to the logits of relations; those of entities are lowered, or nearly all spans would be entities.
    A new model would find nothing, since its tags are unlikely at first.
    """
    model = make_small_model("tagging.kind=spans", *overrides, seed=seed, spread=1.0)
    scorer = model.network.relation_scorer
    assert scorer is not None
    n_types = len(model.schema.entity_types)
    scorer.bias.data[:n_types] = -2
    scorer.bias.data[n_types:] = shift
    return model


def make_inputs(
    model: Model,
    sentences: Sequence[Sequence[str]],
    features: EncoderOutput | None = None,
    context: Sequence[Context] | None = None,
) -> ModelInputs:
    """The inputs of a model's network for sentences of words."""
    return collate_batch(model, EncoderInput(sentences, context), features)
