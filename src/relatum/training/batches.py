"""Training sentences as batches of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isqrt

import torch

from relatum.config import Config
from relatum.data.windows import make_windows, window_examples
from relatum.encoders.base import TextEncoder
from relatum.models.inputs import ModelInputs
from relatum.models.labels import ExampleLabels, Labels, label_example, stack_labels
from relatum.models.model import Model
from relatum.types import Example

_STEP = 8
"""On a GPU batches are padded to a multiple of it: work is recorded for each shape, and so there are few."""


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


class Batches:
    """Makes the inputs and labels of a batch; labels are made once for each example and kept."""

    def __init__(self, model: Model, examples: Sequence[Example]) -> None:
        self._model = model
        self._examples = examples
        self._labels: list[ExampleLabels | None] = [None] * len(examples)

    def make(self, indices: Sequence[int]) -> tuple[ModelInputs, Labels]:
        """The batch of these examples, on the model's device."""
        sentences = [self._examples[index].sentence.words for index in indices]
        n_words = max(map(len, sentences))
        if self._model.device.type == "cuda":
            n_words = -(-n_words // _STEP) * _STEP
        inputs = self._model.inputs(sentences, n_words=n_words)
        labels = stack_labels([self._label(index) for index in indices], n_words)
        return inputs, labels.to(self._model.device)

    def _label(self, index: int) -> ExampleLabels:
        found = self._labels[index]
        if found is None:
            made = label_example(self._examples[index], self._model)
            # Tags are small numbers; a quarter of the memory holds them.
            found = replace(made, relation_tags=made.relation_tags.to(torch.int16))
            self._labels[index] = found
        return found
