"""A network with all that it takes to read sentences with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relatum.config import Config
from relatum.encoders.base import EncoderOutput, TextEncoder
from relatum.encoders.huggingface import HuggingFaceEncoder
from relatum.kernels.encoder.cpu import PreparedReading
from relatum.layers.characters import Spelling
from relatum.layers.precision import without_autocast
from relatum.models.inputs import ModelInputs, Vectors
from relatum.models.known_words import KnownWords
from relatum.models.network import TableSequenceNetwork
from relatum.models.vocabulary import Vocabulary
from relatum.schema import Schema
from relatum.tagging.sequence import SequenceTags
from relatum.tagging.table import TableTags
from relatum.types import Calibration, Context


@dataclass(frozen=True)
class Model:
    """A model: settings, schema, network, encoder and vocabularies.

    `models.build` makes a model and `models.checkpoint` stores it.
    """

    config: Config
    schema: Schema
    network: TableSequenceNetwork
    encoder: TextEncoder | None
    words: Vocabulary | None
    characters: Vocabulary | None
    calibration: Calibration | None = None
    """The map that an extractor applies to scores; None if it shows the network's own scores."""

    @cached_property
    def sequence_tags(self) -> SequenceTags:
        return SequenceTags(self.schema, self.config.tagging.scheme)

    @cached_property
    def table_tags(self) -> TableTags:
        tagging = self.config.tagging
        return TableTags(self.schema, tagging.fill, tagging.cells, tagging.directed, tagging.conflicts)

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
        self,
        sentences: Sequence[Sequence[str]],
        features: EncoderOutput | None = None,
        n_words: int | None = None,
        known: KnownWords | None = None,
        late: bool = False,
        around: Sequence[Context] | None = None,
    ) -> ModelInputs:
        """Return sentences as inputs of the network, on its device; features are computed if not given.

        Sentences are padded to the longest, or to `n_words`. With the cache `known`, only words that are not in it are
        read by their characters. With `late`, computing the features may be left to the network, when all else is
        ready. The context `around` the sentences is read by the encoder alone.
        """
        device = self.device
        late = late and features is None and n_words is None and device.type == "cpu"
        n_words = n_words or max(map(len, sentences))
        if features is None and device.type != "cpu":
            features = self._encode(sentences, around)  # it computes while we spell
        mask = np.arange(n_words) < np.array([[len(words)] for words in sentences])
        words = spelling = spelt = vectors = maps = None
        if self.words is not None:
            words = _send(_spread(self.words.indices(chain.from_iterable(sentences)), mask), device)
        if self.characters is not None:
            if known is None or self.network.training:
                spelling = self._spelling(sentences, mask, self.characters)
            else:
                spelt = self._spelt(list(chain.from_iterable(sentences)), mask, self.characters, known)
        there = _send(torch.from_numpy(mask), device)
        begun = self._begin(sentences, around) if late else None
        if begun is not None:
            maps = begun.maps if self.reads_attention_maps else None
            return ModelInputs(there, words, spelling, begun.vectors, maps, spelt, begun.run)
        if features is None:
            features = self._encode(sentences, around)  # it leaves nothing in a CPU's cache of what spelling needs
        if features is not None:
            features = features.pad(n_words)
            vectors = _move(features.vectors, device)
            if self.reads_attention_maps and features.attention_maps is not None:
                maps = _move(features.attention_maps, device)
        return ModelInputs(there, words, spelling, vectors, maps, spelt)

    def _encode(self, sentences: Sequence[Sequence[str]], around: Sequence[Context] | None) -> EncoderOutput | None:
        return None if self.encoder is None else self.encoder.encode(sentences, around)

    def _begin(self, sentences: Sequence[Sequence[str]], around: Sequence[Context] | None) -> PreparedReading | None:
        """Return features that are yet to be computed; None if the encoder or the network cannot use them late."""
        encoder = self.encoder
        if not isinstance(encoder, HuggingFaceEncoder) or self.network.embedder.mixing is not None:
            return None
        return encoder.begin(sentences, around)

    def _spelling(
        self, sentences: Sequence[Sequence[str]], mask: NDArray[np.bool_], vocabulary: Vocabulary
    ) -> Spelling:
        # Dropout is drawn for every character of the text, so that while training each word is read by itself.
        packed = _spelling(sentences, mask, vocabulary, each_alone=self.network.training)
        return Spelling(_send(packed.characters, self.device), packed.n_words, _send(packed.places, self.device))

    def _spelt(
        self, words: Sequence[str], mask: NDArray[np.bool_], vocabulary: Vocabulary, known: KnownWords
    ) -> Vectors:
        """Return the vectors of words from their characters, by the cache `known`."""
        reader = self.network.embedder.characters
        assert reader is not None

        def read(new: Sequence[str], table: Tensor, first: int) -> None:
            packed = reader.packed()
            if packed is not None:
                lengths = np.fromiter(map(len, new), np.int64, len(new))
                packed.read(vocabulary.spell("".join(new)), lengths, table, first)
                return
            with torch.inference_mode(), without_autocast(reader.embedding.weight):
                vectors: Tensor = reader(self._spelling([new], np.ones((1, len(new)), dtype=np.bool_), vocabulary))
                table[first : first + len(new)] = vectors.squeeze(0)

        vectors, rows = known.find(words, reader.weights, reader.width, read)
        return Vectors(vectors, _send(_spread(rows, mask), self.device))


def _send(values: Tensor, device: torch.device) -> Tensor:
    """Copy to the device; to a GPU from pinned memory, since else the copy would wait for all work under way."""
    return _move(values.pin_memory() if device.type == "cuda" else values, device)


def _move(values: Tensor, device: torch.device) -> Tensor:
    return values if values.device == device else values.to(device, non_blocking=True)


def _spread(numbers: Sequence[int], mask: NDArray[np.bool_]) -> Tensor:
    """(batch, words): one number for each word, 0 where there is none."""
    places = np.zeros(mask.shape, dtype=np.int64)
    places[mask] = numbers
    return torch.from_numpy(places)


def _spelling(
    sentences: Sequence[Sequence[str]], mask: NDArray[np.bool_], vocabulary: Vocabulary, each_alone: bool
) -> Spelling:
    """Pack the characters of every word (`each_alone`, in training) or of each distinct word (inference)."""
    found = list(chain.from_iterable(sentences))
    words = [word for word in (found if each_alone else dict.fromkeys(found)) if word]
    if each_alone:
        is_there = np.array([bool(word) for word in found], dtype=np.int64)
        numbers = (is_there.cumsum() * is_there).tolist()
    else:
        known = {"": 0, **{word: number for number, word in enumerate(words, 1)}}
        numbers = [known[word] for word in found]
    return Spelling.pack(
        torch.from_numpy(vocabulary.spell("".join(words))),
        torch.tensor([len(word) for word in words], dtype=torch.long),
        _spread(numbers, mask),
    )
