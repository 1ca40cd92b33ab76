"""Small models and what they read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import pytest
import torch

from relatum.config import load_config
from relatum.encoders.base import EncoderInput, EncoderOutput, Features, FrozenEncoder, stack_features
from relatum.encoders.words import WordVectors
from relatum.models.build import build_model
from relatum.models.model import Model
from relatum.schema import RelationType, Schema
from relatum.types import Annotation, Entity, Example, Relation, Sentence, Span

SMALL = (
    "model.width=8",
    "sequence.n_attention_heads=2",
    "sequence.feedforward_width=12",
    "characters.width=4",
)


class FakeEncoder(FrozenEncoder):
    """Features that depend on the words and their places, and on nothing else."""

    width = 6
    n_mixed = 1
    n_attention_maps = 3
    max_pieces: int | None = None
    fingerprint = "fake"
    folder = Path("fake")

    def __init__(self) -> None:
        self.n_calls = 0

    def count_pieces(self, words: Sequence[str]) -> list[int]:
        return [1] * len(words)

    def features(self, words: Sequence[str]) -> Features:
        generator = torch.Generator().manual_seed(sum(map(ord, "".join(word or "" for word in words))))
        n = len(words)
        return Features(
            torch.randn(n, self.width, generator=generator),
            torch.rand(n, n, self.n_attention_maps, generator=generator),
        )

    def encode(self, batch: EncoderInput) -> EncoderOutput:
        self.n_calls += 1
        return stack_features([self.features(words) for words in batch.words])

    def to(self, device: torch.device | str) -> FakeEncoder:
        del device
        return self


class MakeModel(Protocol):
    def __call__(self, *overrides: str, encoder: bool = True, words: bool = True) -> Model: ...


@pytest.fixture
def schema() -> Schema:
    return Schema(("Org", "Peop"), (RelationType("Work_For"), RelationType("Kin", symmetric=True)))


@pytest.fixture
def make_model(schema: Schema) -> MakeModel:
    def make(*overrides: str, encoder: bool = True, words: bool = True) -> Model:
        """A model in evaluation mode whose parameters are all random, biases and norms too."""
        torch.manual_seed(3)
        vectors = WordVectors(("mara", "works", "tarn"), torch.randn(3, 5)) if words else None
        config = load_config(None, (*SMALL, *overrides))
        model = build_model(config, schema, FakeEncoder() if encoder else None, vectors, "aeklmnorstwMT")
        for parameter in model.network.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
        model.network.eval()
        return model

    return make


@pytest.fixture
def sentences() -> list[list[str]]:
    """Three sentences of different lengths, with unknown words and characters."""
    return [["Mara", "works"], ["Tarn", "hired", "Mara", "Ílves", "again"], ["Tarn"]]


@pytest.fixture
def examples() -> list[Example]:
    """The first sentence has a relation, the second has two, of which one is symmetric."""
    mara, tarn = Entity(Span(0, 2), "Peop"), Entity(Span(4, 5), "Org")
    first = Example(
        Sentence(("Mara", "Ilves", "works", "for", "Tarn", ".")),
        Annotation((mara, tarn), (Relation(mara, tarn, "Work_For"),)),
    )
    one, two, firm = Entity(Span(2, 3), "Peop"), Entity(Span(0, 1), "Peop"), Entity(Span(3, 4), "Org")
    second = Example(
        Sentence(("Mara", "and", "Tom", "Tarn")),
        Annotation((two, one, firm), (Relation(one, two, "Kin"), Relation(firm, one, "Work_For"))),
    )
    return [first, second]


@pytest.fixture
def perturb() -> Callable[[torch.nn.Module], None]:
    """Changes every parameter of a module."""

    def change(module: torch.nn.Module) -> None:
        for parameter in module.parameters():
            parameter.data += 1 + torch.rand_like(parameter)

    return change
