"""The loss of a model on the gold annotations of sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from relatum.extractor.extractor import Extractor
from relatum.extractor.introspection.overlay import lay_cells, lay_words
from relatum.models.labels import IGNORED, TagSets, label_example, make_tag_sets
from relatum.types import Example

_LEAST = 1e-12
"""The lower bound on probabilities, so that every loss is finite."""


def sentence_losses(extractor: Extractor, examples: Sequence[Example], with_entities: bool = True) -> list[float]:
    """Return −log P of the gold tags of each sentence, summed over its words and the cells of its table, unweighted.

    If the tags of a cell are independent of one another, each of them counts, whether the cell has it or not.
    Without entities, which may be given to the model, only the cells are summed.

    Sentences are read as `Extractor.predict` reads them, in windows if they are long. Entities and relations of types
    that the model does not know count as not annotated. An ensemble is an error: it has no single distribution.
    """
    model = extractor.model
    losses = [0.0] * len(examples)
    sets = make_tag_sets(model)
    for number, readings in extractor.read_layers([example.sentence for example in examples]):
        example = examples[number]
        labels = label_example(replace(example, gold=model.schema.restrict(example.gold)), model, sets)
        windows = [reading.window for reading in readings]
        last = [reading.layers[-1] for reading in readings]
        if with_entities:
            of_words = lay_words(windows, [window_scores.of_words for window_scores in last], len(example.sentence))
            losses[number] = _loss(of_words, labels.entity_tags)
        cells = [window_scores.of_cells for window_scores in last if window_scores.of_cells is not None]
        if not cells:
            continue
        of_cells = lay_cells(windows, cells, len(example.sentence), no_relation=0 if sets is None else None)
        if sets is None:
            losses[number] += _loss(of_cells, labels.relation_tags)
        else:
            losses[number] += _independent_loss(of_cells, labels.relation_tags, sets)
    return losses


def _independent_loss(probabilities: NDArray[np.float64], tags: Tensor, sets: TagSets) -> float:
    counts = (tags != IGNORED).numpy()
    has_tag = sets.to_table("cpu")[tags.clamp(min=0)].numpy()
    chosen = np.where(has_tag, probabilities, 1 - probabilities)[counts]
    return float(-np.log(np.maximum(chosen, _LEAST)).sum())


def _loss(probabilities: NDArray[np.float64], tags: Tensor) -> float:
    wanted = tags.numpy()
    counts = wanted != IGNORED
    chosen = np.take_along_axis(probabilities, np.where(counts, wanted, 0)[..., None], -1)[..., 0]
    return float(-np.log(np.maximum(chosen[counts], _LEAST)).sum())
