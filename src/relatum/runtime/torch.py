"""Reading in plain PyTorch, on any device: the encoder, then the network."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from relatum.encoders.base import EncoderInput, EncoderOutput
from relatum.layers.precision import without_autocast
from relatum.models.collate import IndexedSentence, collate, collate_characters
from relatum.models.model import Model
from relatum.models.outputs import Outputs
from relatum.runtime.base import evaluating
from relatum.runtime.character_cache import CharacterVectorCache


class TorchRuntime:
    """The encoder and the network as they are."""

    def __init__(self, model: Model, cache: CharacterVectorCache | None = None) -> None:
        self._model = model
        self._cache = cache or CharacterVectorCache()

    @torch.inference_mode()
    def read(self, batch: EncoderInput, keep_layers: bool = False, features: EncoderOutput | None = None) -> Outputs:
        del keep_layers  # they are there anyway
        model = self._model
        with evaluating(model.network) as is_training:
            if features is None and model.encoder is not None:
                features = model.encoder.encode(batch)  # first: a GPU computes them while we look up words
            if is_training:
                self._cache.clear()  # not every change of weights is seen
            vectors = self._cache.vectors(batch.words, model, self._read_words)
            sentences = [IndexedSentence.of(words, model, with_characters=False) for words in batch.words]
            outputs: Outputs = model.network(collate(model, sentences, features, vectors)[0])
        return outputs

    def _read_words(self, words: Sequence[str], table: Tensor, first: int) -> None:
        """Write the vectors of words into the rows of a table, from row `first` on."""
        model = self._model
        reader = model.network.embedder.characters
        assert reader is not None
        with without_autocast(table):
            vectors: Tensor = reader(collate_characters(model, words))
        table[first : first + len(words)] = vectors.squeeze(0)
