"""A network with all that it takes to read sentences with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from relatum.config import Config
from relatum.encoders.base import EncoderOutput, TextEncoder
from relatum.models.inputs import ModelInputs
from relatum.models.network import TableSequenceNetwork
from relatum.models.vocabulary import Vocabulary
from relatum.schema import Schema
from relatum.tagging.sequence import SequenceTags
from relatum.tagging.table import TableTags


@dataclass(frozen=True)
class Model:
    """What `models.build` makes and `models.checkpoint` stores."""

    config: Config
    schema: Schema
    network: TableSequenceNetwork
    encoder: TextEncoder | None
    words: Vocabulary | None
    characters: Vocabulary | None

    @property
    def sequence_tags(self) -> SequenceTags:
        return SequenceTags(self.schema, self.config.tagging.scheme)

    @property
    def table_tags(self) -> TableTags:
        tagging = self.config.tagging
        return TableTags(self.schema, tagging.fill, tagging.cells, tagging.directed)

    @property
    def device(self) -> torch.device:
        return self.network.device

    def to(self, device: torch.device | str) -> Model:
        """Move the network and the encoder; returns itself."""
        self.network.to(device)
        if self.encoder is not None:
            self.encoder.to(device)
        return self

    def inputs(
        self, sentences: Sequence[Sequence[str]], features: EncoderOutput | None = None, n_words: int | None = None
    ) -> ModelInputs:
        """Sentences of words as the network reads them, on its device; features are computed where not given.

        They are padded to the longest, or to `n_words`.
        """
        if self.encoder is not None and features is None:
            features = self.encoder.encode(sentences)
        n_words = n_words or max(map(len, sentences))
        if features is not None:
            features = features.pad(n_words)
        lengths = torch.tensor([len(words) for words in sentences])
        counts = characters = None
        if self.characters is not None:
            characters, counts = _character_indices(sentences, n_words, self.characters)
        maps = None if features is None or not self.config.table.attention_maps else features.attention_maps
        return ModelInputs(
            mask=torch.arange(n_words) < lengths.unsqueeze(1),
            words=None if self.words is None else _word_indices(sentences, n_words, self.words),
            characters=characters,
            character_counts=counts,
            vectors=None if features is None else features.vectors,
            attention_maps=None if self.config.table.kind == "none" else maps,
        ).to(self.device)


def _word_indices(sentences: Sequence[Sequence[str]], n_words: int, vocabulary: Vocabulary) -> Tensor:
    rows = [vocabulary.indices(words) for words in sentences]
    return torch.tensor([row + [0] * (n_words - len(row)) for row in rows])


def _character_indices(
    sentences: Sequence[Sequence[str]], n_words: int, vocabulary: Vocabulary
) -> tuple[Tensor, Tensor]:
    """Indices (batch, words, characters), and how many each word has."""
    counts = torch.tensor([[len(word) for word in words] + [0] * (n_words - len(words)) for words in sentences])
    longest = int(counts.max())
    nothing = [0] * longest
    indices = [
        [vocabulary.indices(word) + nothing[len(word) :] for word in words] + [nothing] * (n_words - len(words))
        for words in sentences
    ]
    return torch.tensor(indices), counts
