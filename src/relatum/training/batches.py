"""Training sentences as batches of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

import torch
from torch import Tensor

from relatum.config import Config
from relatum.data.windows import make_windows, window_examples
from relatum.encoders.base import TextEncoder, stack_features
from relatum.encoders.cache import CachedEncoder
from relatum.layers.characters import Spelling
from relatum.layers.padding import Padding, measure
from relatum.models.inputs import ModelInputs
from relatum.models.labels import IGNORED, Labels, label_example
from relatum.models.model import Model
from relatum.types import Example


def cut_long(
    examples: Sequence[Example], encoder: TextEncoder | None, config: Config
) -> tuple[list[Example], list[str]]:
    """The examples, those too long for the encoder or the cell budget in windows, and what there is to say of it."""
    max_words = isqrt(config.training.max_cells)
    overlap = min(config.extraction.overlap, max_words // 2)
    max_pieces = None if encoder is None else encoder.max_pieces
    cut: list[Example] = []
    n_long = n_windows = n_entities = n_relations = 0
    for example in examples:
        words = example.sentence.words
        pieces = [1] * len(words) if encoder is None or max_pieces is None else encoder.count_pieces(words)
        windows = make_windows(pieces, max_pieces, max_words, overlap, words)
        parts, lost_entities, lost_relations = window_examples(example, windows)
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
    """What a batch takes from one example; all but the spelling is on the model's device."""

    words: Tensor | None
    entity_tags: Tensor
    relation_tags: Tensor
    characters: Tensor
    """Those of all words, one after the other, on the CPU."""
    word_lengths: Tensor
    """On the CPU."""


class Batches:
    """Makes the inputs and labels of a batch; what depends on one example alone is made once and kept.

    A batch is then a few operations on what is on the device already, and one copy of some kilobytes to it. Nothing
    waits for the device. Each word is read by itself, as `Model.inputs` has it while training.
    """

    def __init__(self, model: Model, examples: Sequence[Example]) -> None:
        self._model = model
        self._examples = examples
        self._parts: list[_Part | None] = [None] * len(examples)

    def make(self, indices: Sequence[int]) -> tuple[ModelInputs, Labels]:
        """The batch of these examples, on the model's device."""
        model = self._model
        parts = [self._part(index) for index in indices]
        sentences = [self._examples[index].sentence.words for index in indices]
        lengths = list(map(len, sentences))
        n_words = max(lengths)
        characters, n_spelt, numbers = _spell(parts)
        table = torch.tensor(measure(lengths))
        sent = _send(torch.cat((table.flatten(), characters, numbers)), model.device)
        table, characters, numbers = sent.split((table.numel(), len(characters), len(numbers)))
        padding = Padding.make(table.unflatten(0, (3, -1)), n_words)
        spelling = None
        if model.characters is not None:
            spelling = Spelling(characters, n_spelt, numbers[padding.words])
        words = [part.words for part in parts if part.words is not None]
        vectors, maps = self._features(sentences, padding)
        inputs = ModelInputs(padding.mask, padding.pad_words(words) if words else None, spelling, vectors, maps)
        return inputs, Labels(
            padding.pad_words([part.entity_tags for part in parts], IGNORED),
            padding.pad_cells([part.relation_tags for part in parts], IGNORED).long(),
        )

    def _features(self, sentences: Sequence[Sequence[str]], padding: Padding) -> tuple[Tensor | None, Tensor | None]:
        """The encoder's vectors and attention maps of a batch, as far as the model reads them."""
        encoder, device = self._model.encoder, self._model.device
        if encoder is None:
            return None, None
        if isinstance(encoder, CachedEncoder):
            found = encoder.features(sentences)
            if found[0].vectors.device == device:
                vectors = padding.pad_words([one.vectors for one in found])
                maps = [one.attention_maps for one in found if one.attention_maps is not None]
                reads = maps and self._model.reads_attention_maps
                return vectors, padding.pad_cells(maps) if reads else None
            output = stack_features(found)
        else:
            output = encoder.encode(sentences)
        return _send(output.vectors, device), (
            None
            if output.attention_maps is None or not self._model.reads_attention_maps
            else _send(output.attention_maps, device)
        )

    def _part(self, index: int) -> _Part:
        found = self._parts[index]
        if found is None:
            model, words = self._model, self._examples[index].sentence.words
            labels = label_example(self._examples[index], model)
            spelt = [] if model.characters is None else model.characters.indices("".join(words))
            found = _Part(
                None if model.words is None else torch.tensor(model.words.indices(words)).to(model.device),
                labels.entity_tags.to(model.device),
                # Tags are small numbers; a quarter of the memory holds them.
                labels.relation_tags.to(torch.int16).to(model.device),
                torch.tensor(spelt, dtype=torch.long),
                torch.tensor([0 if model.characters is None else len(word) for word in words]),
            )
            self._parts[index] = found
        return found


def _spell(parts: Sequence[_Part]) -> tuple[Tensor, Tensor, Tensor]:
    """The characters and counts of a `Spelling`, and which word of it each word is; the first number is for none."""
    lengths = torch.cat([part.word_lengths for part in parts])
    there = lengths > 0
    places = torch.zeros(len(lengths) + 1, dtype=torch.long)
    places[1:] = there.cumsum(0) * there
    packed = Spelling.pack(torch.cat([part.characters for part in parts]), lengths[there], places)
    return packed.characters, packed.n_words, packed.places


def _send(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor on the device; a copy to a GPU is from memory that it can read by itself, so that nobody waits."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
