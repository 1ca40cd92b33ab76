"""Sentences as the padded tensors that a network reads: the one collator of training and extraction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from relatum.encoders.base import EncoderInput, EncoderOutput, Features, stack_features
from relatum.layers.characters import CharacterBatch, PaddedCharacterBatch
from relatum.layers.padding import Padding, measure
from relatum.models.inputs import ModelInputs, Vectors
from relatum.models.model import Model
from relatum.models.padding import Numbers, pad_rows
from relatum.models.vocabulary import Vocabulary

MAX_CHARACTERS = 64
"""The most characters of a word that is read with padding; a longer word would cost memory for all words of a batch."""


@dataclass(frozen=True, slots=True)
class WordCharacters:
    """The indices of the characters of a sentence's words."""

    in_a_row: Numbers
    """All characters, one word after the other."""
    lengths: Numbers
    """The number of characters of each word."""
    padded: Numbers | None
    """(characters, words): the same characters, with padding behind each word; None if that would be too much."""

    @classmethod
    def of(cls, words: Sequence[str], vocabulary: Vocabulary) -> WordCharacters:
        in_a_row = vocabulary.spell("".join(words))
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        return cls(in_a_row, lengths, _pad_words(in_a_row, lengths))


@dataclass(frozen=True, slots=True)
class IndexedSentence:
    """A sentence as numbers of a model's vocabularies; a vocabulary that the model does not have gives None."""

    n_words: int
    words: Numbers | None = None
    characters: WordCharacters | None = None

    @classmethod
    def of(cls, words: Sequence[str], model: Model, with_characters: bool = True) -> IndexedSentence:
        """Look up a sentence; characters are left out if their vectors come from elsewhere."""
        numbers = None if model.words is None else np.array(model.words.indices(words), np.int64)
        characters = None
        if model.characters is not None and with_characters:
            characters = WordCharacters.of(words, model.characters)
        return cls(len(words), numbers, characters)


def collate(
    model: Model,
    sentences: Sequence[IndexedSentence],
    features: EncoderOutput | Sequence[Features] | None,
    character_vectors: Vectors | None = None,
    fixed_sizes: bool = False,
) -> tuple[ModelInputs, Padding]:
    """Return sentences as inputs of the network, on its device, and their padding, by which labels are padded too.

    Features are those of the whole batch, or of each sentence. With `fixed_sizes`, batches are padded to few different
    shapes, as CUDA graphs need it. Values of features on the model's device are not read.
    """
    lengths = [sentence.n_words for sentence in sentences]
    n_words = round_words(max(lengths)) if fixed_sizes else max(lengths)
    arrays = [np.array(measure(lengths), np.int64)]
    if model.words is not None:
        arrays.append(pad_rows([sentence.words for sentence in sentences], n_words))
    n_steps: Tensor | None = None
    characters = [sentence.characters for sentence in sentences if sentence.characters is not None]
    if characters and character_vectors is None:
        if fixed_sizes and all(of_sentence.padded is not None for of_sentence in characters):
            arrays += _pad_characters(characters, n_words)
        else:
            packed = _pack_characters(characters, n_words)
            n_steps = packed.n_words
            arrays += [packed.characters.numpy(), packed.places.numpy()]
    table, *rest = _send_all(arrays, model.device)
    padding = Padding(table, n_words)
    words = None if model.words is None else rest.pop(0)
    batch: CharacterBatch | PaddedCharacterBatch | None = None
    if rest:
        batch = PaddedCharacterBatch(*rest) if n_steps is None else CharacterBatch(rest[0], n_steps, rest[1])
    vectors, maps = _pad_features(model, features, padding)
    return ModelInputs(padding.mask, words, batch, vectors, maps, character_vectors), padding


def collate_batch(model: Model, batch: EncoderInput, features: EncoderOutput | None = None) -> ModelInputs:
    """Return a batch as inputs of the network; features are computed if they are not given."""
    if features is None and model.encoder is not None:
        features = model.encoder.encode(batch)
    sentences = [IndexedSentence.of(words, model) for words in batch.words]
    inputs, _ = collate(model, sentences, features)
    return inputs


def collate_characters(model: Model, words: Sequence[str]) -> CharacterBatch:
    """Return the characters of words as one row of a batch, on the model's device."""
    assert model.characters is not None
    packed = _pack_characters([WordCharacters.of(words, model.characters)], len(words))
    characters, places = _send_all([packed.characters.numpy(), packed.places.numpy()], model.device)
    return CharacterBatch(characters, packed.n_words, places)


def round_words(n_words: int) -> int:
    """Round the words of a batch up to one of few sizes, so that there are few CUDA graphs, but little padding."""
    step = 4 if n_words <= 64 else 8
    return -(-n_words // step) * step


def round_characters(n_characters: int) -> int:
    """Round the characters of a batch's words up to a multiple of 8, at least 8."""
    return max(1, -(-n_characters // 8)) * 8


def _pad_words(characters: Numbers, lengths: Numbers) -> Numbers | None:
    longest = int(lengths.max(initial=0))
    if longest > MAX_CHARACTERS:
        return None
    words = np.zeros((len(lengths), longest), np.int64)
    words[np.arange(longest) < lengths[:, None]] = characters
    return words.T


def _pad_characters(sentences: Sequence[WordCharacters], n_words: int) -> tuple[Numbers, Numbers]:
    """Return the characters and lengths of a `PaddedCharacterBatch`."""
    padded = [sentence.padded for sentence in sentences if sentence.padded is not None]
    n_characters = round_characters(max(map(len, padded)))
    characters = np.zeros((n_characters, len(padded), n_words), np.int64)
    for row, sentence in enumerate(padded):
        characters[: sentence.shape[0], row, : sentence.shape[1]] = sentence
    return characters, pad_rows([sentence.lengths for sentence in sentences], n_words)


def _pack_characters(sentences: Sequence[WordCharacters], n_words: int) -> CharacterBatch:
    lengths = np.concatenate([sentence.lengths for sentence in sentences])
    is_there = lengths > 0
    numbers = is_there.cumsum() * is_there
    ends = np.cumsum([len(sentence.lengths) for sentence in sentences])[:-1]
    places = pad_rows(np.split(numbers, ends), n_words)
    characters = np.concatenate([sentence.in_a_row for sentence in sentences])
    return CharacterBatch.pack(*map(torch.from_numpy, (characters, lengths[is_there], places)))


def _pad_features(
    model: Model, features: EncoderOutput | Sequence[Features] | None, padding: Padding
) -> tuple[Tensor | None, Tensor | None]:
    """Return the encoder's vectors and attention maps of a batch, as far as the model reads them."""
    if features is None:
        return None, None
    device = model.device
    if not isinstance(features, EncoderOutput):
        if features[0].vectors.device == device:
            vectors = padding.pad_words([sentence.vectors for sentence in features])
            maps = [sentence.attention_maps for sentence in features if sentence.attention_maps is not None]
            return vectors, padding.pad_cells(maps) if maps and model.reads_attention_maps else None
        features = stack_features(features)
    output = features.pad(padding.mask.shape[1])
    reads_maps = output.attention_maps is not None and model.reads_attention_maps
    return send(output.vectors, device), send(output.attention_maps, device) if reads_maps else None


def send(values: Tensor | None, device: torch.device) -> Tensor | None:
    """Send a tensor to the device; to a GPU from pinned memory, so that nothing waits for the copy."""
    if values is None or values.device == device:
        return values
    if device.type == "cuda" and values.is_cpu:
        values = values.pin_memory()
    return values.to(device, non_blocking=True)


def _send_all(arrays: Sequence[Numbers], device: torch.device) -> list[Tensor]:
    """Send arrays to the device in one copy; to a GPU from pinned memory, so that nothing waits for the copy."""
    if device.type == "cpu":
        return [torch.from_numpy(array) for array in arrays]
    sizes = [array.size for array in arrays]
    staged = torch.empty(sum(sizes), dtype=torch.long, pin_memory=device.type == "cuda")
    np.concatenate([array.ravel() for array in arrays], out=staged.numpy())
    sent = staged.to(device, non_blocking=True).split(sizes)
    return [part.view(array.shape) for part, array in zip(sent, arrays, strict=True)]
