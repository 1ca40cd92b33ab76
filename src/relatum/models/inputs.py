"""A batch of sentences as the network reads it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class ModelInputs:
    """Sentences padded to the longest of the batch; what a model does not use is None."""

    mask: Tensor
    """(batch, words), true where there is a word."""
    words: Tensor | None = None
    """(batch, words): indices into the word vectors."""
    characters: Tensor | None = None
    """(batch, words, characters): indices of characters, 0 after the last."""
    character_counts: Tensor | None = None
    """(batch, words): how many characters each word has; always on the CPU."""
    vectors: Tensor | None = None
    """(batch, words, width): the encoder's vectors."""
    attention_maps: Tensor | None = None
    """(batch, words, words, maps): the encoder's attention."""

    def to(self, device: torch.device | str) -> ModelInputs:
        def move(part: Tensor | None) -> Tensor | None:
            return None if part is None else part.to(device, non_blocking=True)

        return replace(
            self,
            mask=self.mask.to(device, non_blocking=True),
            words=move(self.words),
            characters=move(self.characters),
            vectors=move(self.vectors),
            attention_maps=move(self.attention_maps),
        )
