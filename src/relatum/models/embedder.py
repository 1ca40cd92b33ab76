"""The text embedder of section 4.1."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from relatum.layers.characters import CharacterLSTM
from relatum.layers.dropout import Dropout
from relatum.layers.mixing import LayerMixing
from relatum.models.inputs import ModelInputs, Vectors


class WordTable(nn.Module):
    """x^w: frozen word vectors; only the vector of unknown words is learned, if `learn_unknown` is true.

    Row 0 is padding and row 1 stands for unknown words (see `models.vocabulary`).
    """

    def __init__(self, vectors: Tensor, learn_unknown: bool) -> None:
        super().__init__()
        self.register_buffer("vectors", vectors)
        self.unknown = nn.Parameter(torch.zeros(vectors.shape[1])) if learn_unknown else None

    def forward(self, words: Tensor) -> Tensor:
        found = nn.functional.embedding(words, self.get_buffer("vectors"))
        if self.unknown is None:
            return found
        return torch.where((words == 1).unsqueeze(-1), self.unknown, found)


class TextEmbedder(nn.Module):
    """S_0 = Linear([x^c; x^w; x^ℓ]) (equation 1); vectors that the model does not have are left out.

    With a `mixing`, x^ℓ is made of all layers of the encoder; `context_width` is the width of one layer.
    """

    def __init__(
        self,
        characters: CharacterLSTM | None,
        words: WordTable | None,
        context_width: int,
        width: int,
        dropout: float,
        mixing: LayerMixing | None = None,
    ) -> None:
        super().__init__()
        self.characters = characters
        self.words = words
        self.mixing = mixing
        joined = context_width
        joined += 0 if characters is None else characters.width
        joined += 0 if words is None else words.get_buffer("vectors").shape[1]
        self.projection = nn.Linear(joined, width)
        self.dropout = Dropout(dropout)

    def forward(self, inputs: ModelInputs) -> Tensor:
        """(batch, words, width)"""
        characters = inputs.character_vectors
        if characters is None and self.characters is not None:
            characters = Vectors(self.characters(inputs.characters))
        joined = [part.look_up() for part in self.join(characters, inputs.words, inputs.vectors)]
        embedded: Tensor = self.projection(self.dropout(torch.cat(joined, -1)))
        return embedded

    def join(self, characters: Vectors | None, words: Tensor | None, context: Tensor | None) -> list[Vectors]:
        """Return the vectors that stand side by side before the projection: x^c, x^w and x^ℓ, as far as there are."""
        parts = [] if characters is None else [characters]
        if self.words is not None:
            parts.append(Vectors(self.words(words)))
        if context is not None:
            context = context.to(self.projection.weight.dtype)
            parts.append(Vectors(context if self.mixing is None else self.mixing(context)))
        return parts
