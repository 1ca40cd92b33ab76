"""A batch of sentences as the network reads it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from relatum.layers.characters import PaddedSpelling, Spelling


@dataclass(frozen=True, slots=True)
class ModelInputs:
    """Sentences padded to the longest of the batch, or to more; what a model does not use is None."""

    mask: Tensor
    """(batch, words), true where there is a word."""
    words: Tensor | None = None
    """(batch, words): indices into the word vectors."""
    spelling: Spelling | PaddedSpelling | None = None
    """The characters of the words."""
    vectors: Tensor | None = None
    """(batch, words, width): the encoder's vectors."""
    attention_maps: Tensor | None = None
    """(batch, words, words, maps): the encoder's attention."""
    spelt: Tensor | None = None
    """(batch, words, width): what the characters have been read as; then `spelling` is None."""

    def to(self, device: torch.device | str) -> ModelInputs:
        def move(part: Tensor | None) -> Tensor | None:
            return None if part is None else part.to(device, non_blocking=True)

        return replace(
            self,
            mask=self.mask.to(device, non_blocking=True),
            words=move(self.words),
            spelling=None if self.spelling is None else self.spelling.to(device),
            vectors=move(self.vectors),
            attention_maps=move(self.attention_maps),
            spelt=move(self.spelt),
        )
