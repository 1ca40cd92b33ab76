"""Reading with compiled code and without torch: the encoder and the network in two calls, back to back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from relatum.encoders.base import EncoderInput
from relatum.kernels.arrays import Array
from relatum.models.padding import pad_rows
from relatum.runtime.native.model import NativeModel
from relatum.runtime.native.pooling import locate_words
from relatum.runtime.row_cache import ArrayRowCache, join_words, pad_word_rows


@dataclass(frozen=True, slots=True)
class ArrayOutputs:
    """Scores before the softmax, as `models.outputs.Outputs` has them."""

    entity_logits: Array
    relation_logits: Array | None


class NativeReader:
    """Reads batches with a `NativeModel`; vectors of words from their characters are cached."""

    def __init__(self, model: NativeModel) -> None:
        self._model = model
        self._cache = ArrayRowCache()

    def read(self, batch: EncoderInput) -> ArrayOutputs:
        """Return the scores of a batch."""
        model, packed = self._model, self._model.pack()
        parts: list[tuple[Array, Array | None]] = []
        if packed.characters is not None:
            table, rows = self._cache.find(join_words(batch.words), 2 * packed.characters.width, self._read_words)
            parts.append((table, pad_word_rows(batch.words, rows)))
        if packed.word_table is not None and model.words is not None:
            indices = [np.array(model.words.indices(words), np.int64) for words in batch.words]
            parts.append((packed.word_table, pad_rows(indices, max(batch.lengths))))
        encoder = model.encoder
        features = packed.encoder.prepare(*locate_words(encoder.cut(batch)), encoder.pooling)
        assert features.maps is not None
        parts.append((features.vectors, None))
        prepared = packed.network.prepare(parts, features.maps, batch.lengths)
        # The encoder runs last before the network: so its results are still in the CPU's cache when they are read.
        features.run()
        prepared.run()
        return ArrayOutputs(prepared.scores.of_words, prepared.scores.of_cells)

    def _read_words(self, words: Sequence[str], table: Array, first: int) -> None:
        """Write the vectors of words into the rows of a table, from row `first` on."""
        vocabulary, reader = self._model.characters, self._model.pack().characters
        assert vocabulary is not None
        assert reader is not None
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        reader.read(vocabulary.spell("".join(words)), lengths, table, first)
