"""How far a model is from the gold annotations of sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from relatum.extractor.extractor import Extractor
from relatum.extractor.inside.overlay import lay_cells, lay_words
from relatum.models.labels import IGNORED, label_example
from relatum.types import Example

_LEAST = 1e-12
"""The least probability that is taken, so that a loss is a number."""


def sentence_losses(extractor: Extractor, examples: Sequence[Example], with_entities: bool = True) -> list[float]:
    """−log P of the gold tags, summed over the words of each sentence and over the cells of its table, not weighted.

    Without entities, which may be given to the model, it is that of the cells alone.

    Sentences are read as `Extractor.predict` reads them, in windows where they are long. What is annotated with types
    that the model does not know counts as not annotated. An ensemble has no one distribution, and is an error.
    """
    model = extractor.model
    losses = [0.0] * len(examples)
    for number, readings in extractor.read_layers([example.sentence for example in examples]):
        example = examples[number]
        labels = label_example(replace(example, gold=model.schema.restrict(example.gold)), model)
        windows = [reading.window for reading in readings]
        last = [reading.layers[-1] for reading in readings]
        if with_entities:
            of_words = lay_words(windows, [one.of_words for one in last], len(example.sentence))
            losses[number] = _loss(of_words, labels.entity_tags)
        cells = [one.of_cells for one in last if one.of_cells is not None]
        if cells:
            losses[number] += _loss(lay_cells(windows, cells, len(example.sentence)), labels.relation_tags)
    return losses


def _loss(probabilities: NDArray[np.float64], tags: Tensor) -> float:
    wanted = tags.numpy()
    counts = wanted != IGNORED
    chosen = np.take_along_axis(probabilities, np.where(counts, wanted, 0)[..., None], -1)[..., 0]
    return float(-np.log(np.maximum(chosen[counts], _LEAST)).sum())
