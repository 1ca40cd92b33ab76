"""A network with all that it takes to read sentences with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from relatum.config import Config
from relatum.encoders.base import EncoderOutput, TextEncoder
from relatum.layers.characters import Spelling
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

    @cached_property
    def sequence_tags(self) -> SequenceTags:
        return SequenceTags(self.schema, self.config.tagging.scheme)

    @cached_property
    def table_tags(self) -> TableTags:
        tagging = self.config.tagging
        return TableTags(self.schema, tagging.fill, tagging.cells, tagging.directed)

    @property
    def reads_attention_maps(self) -> bool:
        return self.config.table.attention_maps and self.config.table.kind != "none"

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
        spelling = None
        if self.characters is not None:
            # Dropout is drawn for every character of the text, so that while training each word is read by itself.
            spelling = _spelling(sentences, n_words, self.characters, each_alone=self.network.training)
        return ModelInputs(
            mask=torch.arange(n_words) < lengths.unsqueeze(1),
            words=None if self.words is None else _word_indices(sentences, n_words, self.words),
            spelling=spelling,
            vectors=None if features is None else features.vectors,
            attention_maps=features.attention_maps if features is not None and self.reads_attention_maps else None,
        ).to(self.device)


def _word_indices(sentences: Sequence[Sequence[str]], n_words: int, vocabulary: Vocabulary) -> Tensor:
    rows = [vocabulary.indices(words) for words in sentences]
    return torch.tensor([row + [0] * (n_words - len(row)) for row in rows])


def _spelling(sentences: Sequence[Sequence[str]], n_words: int, vocabulary: Vocabulary, each_alone: bool) -> Spelling:
    """The characters of the words: of each one that is there, or of each that is different."""
    found = [word for words in sentences for word in words if word]
    words = found if each_alone else list(dict.fromkeys(found))
    known = {word: number for number, word in enumerate(words, 1)}
    numbers = iter(range(1, len(words) + 1)) if each_alone else map(known.__getitem__, found)
    places = [[next(numbers) if word else 0 for word in row] + [0] * (n_words - len(row)) for row in sentences]
    return Spelling.pack(
        torch.tensor(vocabulary.indices("".join(words)), dtype=torch.long),
        torch.tensor([len(word) for word in words], dtype=torch.long),
        torch.tensor(places, dtype=torch.long),
    )
