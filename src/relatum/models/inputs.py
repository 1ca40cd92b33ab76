"""A batch of sentences as the network reads it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding

from relatum.encoders.base import Pieces
from relatum.layers.characters import CharacterBatch, PaddedCharacterBatch


class Vectors(NamedTuple):
    """The vectors of words: one for each word (batch, words, width), or a table of vectors and the row of each word."""

    values: Tensor
    rows: Tensor | None = None
    """(batch, words): the row of each word in `values`, which is then (rows, width)."""

    def look_up(self) -> Tensor:
        """(batch, words, width)"""
        return self.values if self.rows is None else embedding(self.rows, self.values)

    def to(self, device: torch.device | str) -> Vectors:
        rows = self.rows
        return Vectors(
            self.values.to(device, non_blocking=True), None if rows is None else rows.to(device, non_blocking=True)
        )


@dataclass(frozen=True, slots=True)
class ModelInputs:
    """Sentences padded to the longest of the batch, or to more; what a model does not use is None."""

    mask: Tensor
    """(batch, words), true where there is a word."""
    words: Tensor | None = None
    """(batch, words): indices into the word vectors."""
    characters: CharacterBatch | PaddedCharacterBatch | None = None
    """The characters of the words."""
    vectors: Tensor | None = None
    """(batch, words, width): the encoder's vectors."""
    attention_maps: Tensor | None = None
    """(batch, words, words, maps): the encoder's attention."""
    character_vectors: Vectors | None = None
    """The vectors of the words, already computed from their characters; then `characters` is None."""
    pieces: Pieces | None = None
    """The pieces that a trained encoder will read; `vectors` and `attention_maps` are then None."""

    def to(self, device: torch.device | str) -> ModelInputs:
        def move(part: Tensor | None) -> Tensor | None:
            return None if part is None else part.to(device, non_blocking=True)

        return replace(
            self,
            mask=self.mask.to(device, non_blocking=True),
            words=move(self.words),
            characters=None if self.characters is None else self.characters.to(device),
            vectors=move(self.vectors),
            attention_maps=move(self.attention_maps),
            character_vectors=None if self.character_vectors is None else self.character_vectors.to(device),
            pieces=None if self.pieces is None else self.pieces.to(device),
        )
