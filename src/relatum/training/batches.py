"""Training sentences as batches of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relatum.config import Config
from relatum.data.windows import make_windows, window_examples
from relatum.encoders.base import TextEncoder, stack_features
from relatum.encoders.cache import CachedEncoder
from relatum.encoders.tuned import TunedEncoder
from relatum.layers.characters import PaddedSpelling, Spelling
from relatum.layers.padding import Padding, measure
from relatum.models.inputs import ModelInputs
from relatum.models.labels import IGNORED, Labels, label_example
from relatum.models.model import Model
from relatum.types import Context, Example

_Numbers = NDArray[np.int64]

MAX_CHARACTERS = 64
"""The most characters of a word that is read with padding; a longer word would cost memory for all words of a batch."""


def round_words(n_words: int) -> int:
    """Round the words of a batch up to one of few sizes, so that few updates are recorded, but with little padding."""
    step = 4 if n_words <= 64 else 8
    return -(-n_words // step) * step


def round_characters(n_characters: int) -> int:
    """Round the characters of a batch's words up to a multiple of 8, at least 8."""
    return max(1, -(-n_characters // 8)) * 8


def cut_long(
    examples: Sequence[Example], encoder: TextEncoder | None, config: Config
) -> tuple[list[Example], list[str]]:
    """Cut examples too long for the encoder or the cell budget into windows; return all examples, and remarks."""
    max_words = isqrt(config.training.max_cells)
    overlap = min(config.extraction.overlap, max_words // 2)
    max_pieces = None if encoder is None else encoder.max_pieces
    cut: list[Example] = []
    n_long = n_windows = n_entities = n_relations = 0
    for example in examples:
        words = example.sentence.words
        pieces = [1] * len(words) if encoder is None or max_pieces is None else encoder.count_pieces(words)
        windows = make_windows(pieces, max_pieces, max_words, overlap, words)
        parts, lost_entities, lost_relations = window_examples(example, windows, config.encoder.context)
        cut += parts
        if len(windows) > 1:
            n_long, n_windows = n_long + 1, n_windows + len(windows)
            n_entities, n_relations = n_entities + lost_entities, n_relations + lost_relations
    if not n_long:
        return cut, []
    limits = [f"{max_words} words (training.max_cells)"]
    if max_pieces is not None:
        limits.append(f"{max_pieces} pieces (the encoder)")
    return cut, [
        f"{n_long:,} long training sentences are learned in {n_windows:,} windows of at most {' and '.join(limits)}; "
        f"{n_entities:,} entities and {n_relations:,} relations are in none of them"
    ]


@dataclass(frozen=True, slots=True)
class _Part:
    """The arrays that a batch takes from one example; all but the relation tags are small and on the CPU."""

    words: _Numbers | None
    entity_tags: _Numbers
    relation_tags: Tensor
    """(words, words), on the model's device."""
    characters: _Numbers
    """The characters of all words, one word after the other."""
    word_lengths: _Numbers
    letters: _Numbers | None
    """(characters, words): the same characters, with padding behind each word; None if that would be too much."""


class Batches:
    """The inputs and labels of batches, made on demand; what depends on one example alone is made once and kept.

    A batch then takes one copy of some kilobytes to the device, and a few operations on what is there already. Nothing
    waits for the device. Each word is read by itself, as `Model.inputs` has it while training.

    With `in_sizes`, as on a GPU, batches are padded to few different shapes, whether or not updates are recorded: the
    random numbers of dropout depend on shapes, and must not depend on what is recorded.
    """

    def __init__(self, model: Model, examples: Sequence[Example], in_sizes: bool | None = None) -> None:
        self._model = model
        self._examples = examples
        self._in_sizes = model.device.type == "cuda" if in_sizes is None else in_sizes
        self._parts: list[_Part | None] = [None] * len(examples)
        self._n_tags: dict[int, tuple[int, int]] = {}

    def make(self, indices: Sequence[int]) -> tuple[ModelInputs, Labels]:
        """Make the batch of these examples, on the model's device."""
        model = self._model
        parts = [self._part(index) for index in indices]
        sentences = [self._examples[index].sentence.words for index in indices]
        lengths = list(map(len, sentences))
        n_words = round_words(max(lengths)) if self._in_sizes else max(lengths)
        shape = len(parts), n_words
        arrays = [np.array(measure(lengths), np.int64), np.full(shape, IGNORED, np.int64)]
        _fill(arrays[-1], [part.entity_tags for part in parts])
        if model.words is not None:
            arrays.append(np.zeros(shape, np.int64))
            _fill(arrays[-1], [part.words for part in parts])
        n_steps: Tensor | None = None
        if model.characters is not None:
            letters = [part.letters for part in parts]
            if self._in_sizes and all(one is not None for one in letters):
                arrays += _pad_spelling(letters, [part.word_lengths for part in parts], shape)
            else:
                packed = _pack_spelling(parts, shape)
                n_steps = packed.n_words
                arrays += [packed.characters.numpy(), packed.places.numpy()]
        table, entity_tags, *rest = _send_all(arrays, model.device)
        padding = Padding.make(table, n_words)
        words = None if model.words is None else rest.pop(0)
        spelling: Spelling | PaddedSpelling | None = None
        if rest:
            spelling = PaddedSpelling(*rest) if n_steps is None else Spelling(rest[0], n_steps, rest[1])
        around = None
        if model.config.encoder.context:
            around = [self._examples[index].sentence.around for index in indices]
        vectors, maps = self._features(sentences, around, padding)
        relation_tags = padding.pad_cells([part.relation_tags for part in parts], IGNORED).long()
        labels = Labels(entity_tags, relation_tags)
        return ModelInputs(padding.mask, words, spelling, vectors, maps), labels

    def _features(
        self, sentences: Sequence[Sequence[str]], around: Sequence[Context] | None, padding: Padding
    ) -> tuple[Tensor | None, Tensor | None]:
        """Return the encoder's vectors and attention maps of a batch, as far as the model reads them."""
        encoder, device = self._model.encoder, self._model.device
        if encoder is None:
            return None, None
        if isinstance(encoder, CachedEncoder):
            found = encoder.features(sentences, around)
            if found[0].vectors.device == device:
                vectors = padding.pad_words([one.vectors for one in found])
                maps = [one.attention_maps for one in found if one.attention_maps is not None]
                reads = maps and self._model.reads_attention_maps
                return vectors, padding.pad_cells(maps) if reads else None
            output = stack_features(found)
        else:
            read = encoder.learn if isinstance(encoder, TunedEncoder) else encoder.encode
            output = read(sentences, around)
        output = output.pad(padding.mask.shape[1])
        return _send(output.vectors, device), (
            None
            if output.attention_maps is None or not self._model.reads_attention_maps
            else _send(output.attention_maps, device)
        )

    def count_tags(self, indices: Sequence[int]) -> tuple[int, int]:
        """Count the words, and the cells, of a batch that have a tag that takes part in the loss."""
        for index in indices:
            if index not in self._n_tags:
                part = self._part(index)
                n_words = int((part.entity_tags != IGNORED).sum())
                self._n_tags[index] = n_words, int((part.relation_tags != IGNORED).sum())
        found = [self._n_tags[index] for index in indices]
        return sum(n_words for n_words, _ in found), sum(n_cells for _, n_cells in found)

    def _part(self, index: int) -> _Part:
        found = self._parts[index]
        if found is None:
            model, words = self._model, self._examples[index].sentence.words
            labels = label_example(self._examples[index], model)
            spelt = [] if model.characters is None else model.characters.indices("".join(words))
            characters = np.array(spelt, np.int64)
            word_lengths = np.array([0 if model.characters is None else len(word) for word in words], np.int64)
            found = _Part(
                None if model.words is None else np.array(model.words.indices(words), np.int64),
                labels.entity_tags.numpy(),
                # Tags are small numbers; a quarter of the memory holds them.
                labels.relation_tags.to(torch.int16).to(model.device),
                characters,
                word_lengths,
                _lay_out(characters, word_lengths),
            )
            self._parts[index] = found
        return found


def _fill(rows: _Numbers, parts: Sequence[_Numbers | None]) -> None:
    for row, part in zip(rows, parts, strict=True):
        if part is not None:
            row[: len(part)] = part


def _lay_out(characters: _Numbers, lengths: _Numbers) -> _Numbers | None:
    longest = int(lengths.max(initial=0))
    if longest > MAX_CHARACTERS:
        return None
    words = np.zeros((len(lengths), longest), np.int64)
    words[np.arange(longest) < lengths[:, None]] = characters
    return words.T


def _pad_spelling(
    letters: Sequence[_Numbers | None], word_lengths: Sequence[_Numbers], shape: tuple[int, int]
) -> tuple[_Numbers, _Numbers]:
    """Return the characters and lengths of a `PaddedSpelling`."""
    there = [one for one in letters if one is not None]
    characters = np.zeros((round_characters(max(map(len, there))), *shape), np.int64)
    for row, one in enumerate(there):
        characters[: one.shape[0], row, : one.shape[1]] = one
    lengths = np.zeros(shape, np.int64)
    _fill(lengths, word_lengths)
    return characters, lengths


def _pack_spelling(parts: Sequence[_Part], shape: tuple[int, int]) -> Spelling:
    lengths = np.concatenate([part.word_lengths for part in parts])
    there = lengths > 0
    numbers = there.cumsum() * there
    places = np.zeros(shape, np.int64)
    _fill(places, np.split(numbers, np.cumsum([len(part.word_lengths) for part in parts])[:-1]))
    characters = np.concatenate([part.characters for part in parts])
    return Spelling.pack(torch.from_numpy(characters), torch.from_numpy(lengths[there]), torch.from_numpy(places))


def _send_all(arrays: Sequence[_Numbers], device: torch.device) -> list[Tensor]:
    """Send arrays to the device in one copy; for a GPU from pinned memory, so that nothing waits for the copy."""
    sizes = [array.size for array in arrays]
    staged = torch.empty(sum(sizes), dtype=torch.long, pin_memory=device.type == "cuda")
    np.concatenate([array.ravel() for array in arrays], out=staged.numpy())
    sent = staged.to(device, non_blocking=True).split(sizes)
    return [part.view(array.shape) for part, array in zip(sent, arrays, strict=True)]


def _send(tensor: Tensor, device: torch.device) -> Tensor:
    """Send a tensor to the device; for a GPU from pinned memory, so that nothing waits for the copy."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
