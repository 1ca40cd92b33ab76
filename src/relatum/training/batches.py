"""Training sentences as batches of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isqrt

import torch
from torch import Tensor

from relatum.config import Config
from relatum.data.windows import make_passage_windows, make_windows, window_examples
from relatum.encoders.base import EncoderInput, EncoderOutput, Features, TextEncoder
from relatum.layers.padding import Padding
from relatum.models.collate import IndexedSentence, collate
from relatum.models.inputs import ModelInputs
from relatum.models.labels import IGNORED, Labels, Targets, label_example, make_tag_sets
from relatum.models.model import Model
from relatum.types import Example, Sentence


def cut_long(
    examples: Sequence[Example], encoder: TextEncoder | None, config: Config
) -> tuple[list[Example], list[str]]:
    """Cut examples too long for the encoder or the cell budget into windows; return all examples, and remarks.

    Passages are cut by the limit of extraction, too, so that a model learns from the lengths that it will read.
    """
    limits = [(isqrt(config.training.max_cells), "training.max_cells")]
    if config.text.unit == "passage":
        limits.append((config.extraction.max_words, "extraction.max_words"))
    cut = _cut(examples, encoder, config, *min(limits))
    units = "texts" if config.text.unit == "passage" else "sentences"
    return cut.examples, cut.describe(f"long training {units} are learned in")


def remark_on_windows(part: str, examples: Sequence[Example], encoder: TextEncoder | None, config: Config) -> list[str]:
    """Return a remark on the passages of dev or test that are read in windows, if there are any."""
    if config.text.unit != "passage":
        return []
    cut = _cut(examples, encoder, config, config.extraction.max_words, "extraction.max_words")
    return [f"{part}: {remark} and count as missed" for remark in cut.describe("long texts are read in")]


@dataclass(slots=True)
class _Cut:
    """Examples after cutting, the limits of their windows, and the number of annotations that are in no window."""

    limits: str
    examples: list[Example] = field(default_factory=list)
    n_long: int = 0
    n_windows: int = 0
    n_entities: int = 0
    n_relations: int = 0

    def describe(self, done: str) -> list[str]:
        """Return a remark on the long examples, if there are any."""
        if not self.n_long:
            return []
        return [
            f"{self.n_long:,} {done} {self.n_windows:,} windows of at most {self.limits}; "
            f"{self.n_entities:,} entities and {self.n_relations:,} relations are in none of them"
        ]


def _cut(
    examples: Sequence[Example], encoder: TextEncoder | None, config: Config, max_words: int, setting: str
) -> _Cut:
    """Cut examples that have more words than the setting allows, or more pieces than the encoder can read."""
    overlap = min(config.extraction.overlap, max_words // 2)
    max_pieces = None if encoder is None else encoder.max_pieces
    limits = f"{max_words} words ({setting})"
    if max_pieces is not None:
        limits += f" and {max_pieces} pieces (the encoder)"
    cut = _Cut(limits)
    for example in examples:
        words = example.sentence.words
        pieces = [1] * len(words) if encoder is None or max_pieces is None else encoder.count_pieces(words)
        if starts := example.sentence.starts:
            windows = make_passage_windows(pieces, starts, max_pieces, max_words, overlap, words)
        else:
            windows = make_windows(pieces, max_pieces, max_words, overlap, words)
        parts, lost_entities, lost_relations = window_examples(example, windows, config.encoder.context)
        cut.examples += parts
        if len(windows) > 1:
            cut.n_long += 1
            cut.n_windows += len(windows)
            cut.n_entities += lost_entities
            cut.n_relations += lost_relations
    return cut


@dataclass(frozen=True, slots=True)
class _IndexedExample:
    """An example as numbers; the tags are on the model's device, in a fraction of the memory that labels take."""

    sentence: IndexedSentence
    entity_tags: Tensor
    """(words)"""
    relation_tags: Tensor
    """(words, words)"""


class Batches:
    """The inputs and labels of batches, made on demand; what depends on one example alone is made once and kept.

    A batch then takes one copy of some kilobytes to the device, and a few operations on what is there already. Nothing
    waits for the device.

    With `fixed_sizes`, as on a GPU, batches are padded to few different shapes, whether or not updates are recorded as
    CUDA graphs: the random numbers of dropout depend on shapes, and must not depend on what is recorded.
    """

    def __init__(self, model: Model, examples: Sequence[Example], fixed_sizes: bool | None = None) -> None:
        self._model = model
        self._examples = examples
        self._fixed_sizes = model.device.type == "cuda" if fixed_sizes is None else fixed_sizes
        self._indexed: list[_IndexedExample | None] = [None] * len(examples)
        self._targets: Sequence[Targets] | None = None
        self._n_tags: dict[int, tuple[int, int]] = {}
        self._tag_sets = make_tag_sets(model)
        if self._tag_sets is not None:
            for index in range(len(examples)):
                self._index(index)  # so that all sets are known, and batches have the same list of them

    def follow(self, targets: Sequence[Targets]) -> None:
        """Give all examples targets, which are learned instead of their tags."""
        self._targets = targets

    def make(self, indices: Sequence[int]) -> tuple[ModelInputs, Labels]:
        """Make the batch of these examples, on the model's device."""
        indexed = [self._index(index) for index in indices]
        model = self._model
        to_read = make_input([self._examples[index].sentence for index in indices], model)
        trained = None if model.encoder is None else model.encoder.trained
        features = self._encode(to_read) if trained is None else None
        sentences = [example.sentence for example in indexed]
        inputs, padding = collate(model, sentences, features, fixed_sizes=self._fixed_sizes)
        if trained is not None:  # it reads as part of the update
            inputs = replace(inputs, pieces=trained.cut_batch(to_read, self._fixed_sizes))
        entity_tags = padding.pad_words([example.entity_tags for example in indexed], IGNORED)
        relation_tags = padding.pad_cells([example.relation_tags for example in indexed], IGNORED)
        tag_sets = None if self._tag_sets is None else self._tag_sets.to_table(model.device)
        targets = self._pad_targets(indices, padding)
        return inputs, Labels(entity_tags.long(), relation_tags.long(), tag_sets, *targets)

    def _pad_targets(self, indices: Sequence[int], padding: Padding) -> tuple[Tensor | None, Tensor | None]:
        """Return the targets of the words and of the cells of a batch, if there are any."""
        if self._targets is None:
            return None, None
        device, targets = self._model.device, [self._targets[index] for index in indices]
        cells = [one.relation.to(device) for one in targets if one.relation is not None]
        words = padding.pad_words([one.entity.to(device) for one in targets])
        return words, padding.pad_cells(cells) if cells else None

    def _encode(self, batch: EncoderInput) -> EncoderOutput | list[Features] | None:
        encoder = self._model.encoder
        if encoder is None:
            return None
        return encoder.encode_each(batch) if encoder.is_cached else encoder.encode(batch)

    def count_tags(self, indices: Sequence[int]) -> tuple[int, int]:
        """Count the words, and the cells, of a batch that have a tag that takes part in the loss."""
        for index in indices:
            if index not in self._n_tags:
                example = self._index(index)
                n_words = int((example.entity_tags != IGNORED).sum())
                self._n_tags[index] = n_words, int((example.relation_tags != IGNORED).sum())
        counts = [self._n_tags[index] for index in indices]
        return sum(n_words for n_words, _ in counts), sum(n_cells for _, n_cells in counts)

    def _index(self, index: int) -> _IndexedExample:
        indexed = self._indexed[index]
        if indexed is None:
            model, example = self._model, self._examples[index]
            labels = label_example(example, model, self._tag_sets)
            # There may be many sets of tags, but not many tags.
            small = torch.int16 if self._tag_sets is None else torch.int32
            indexed = _IndexedExample(
                IndexedSentence.of(example.sentence.words, model),
                labels.entity_tags.to(torch.int16).to(model.device),
                labels.relation_tags.to(small).to(model.device),
            )
            self._indexed[index] = indexed
        return indexed


def make_input(sentences: Sequence[Sentence], model: Model) -> EncoderInput:
    """Return sentences as an encoder reads them, with their context if the settings of the model ask for it."""
    context = [sentence.context for sentence in sentences] if model.config.encoder.context else None
    return EncoderInput([sentence.words for sentence in sentences], context)
