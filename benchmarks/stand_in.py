"""An encoder that makes its features up, where only their sizes matter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from relatum.encoders.base import EncoderInput, EncoderOutput, FrozenEncoder


class StandIn(FrozenEncoder):
    """Features of the given sizes, the same for the same words, and of no meaning."""

    n_mixed, max_pieces, fingerprint, folder = 1, None, "stand-in", Path()

    def __init__(self, width: int, n_attention_maps: int) -> None:
        self.width, self.n_attention_maps = width, n_attention_maps
        self.device = torch.device("cpu")

    def count_pieces(self, words: Sequence[str]) -> list[int]:
        return [1] * len(words)

    def encode(self, batch: EncoderInput) -> EncoderOutput:
        sentences = batch.words
        n_words = max(map(len, sentences))
        generator = torch.Generator().manual_seed(len("".join(word or "" for word in sentences[0])))
        vectors = torch.randn(len(sentences), n_words, self.width, generator=generator)
        maps = torch.rand(len(sentences), n_words, n_words, self.n_attention_maps, generator=generator) / n_words
        return EncoderOutput(vectors.to(self.device), maps.to(self.device))

    def to(self, device: torch.device | str) -> StandIn:
        self.device = torch.device(device)
        return self
