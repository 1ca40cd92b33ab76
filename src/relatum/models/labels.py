"""Gold annotations as the tensors a loss is computed with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from relatum.models.model import Model
from relatum.types import Example

IGNORED = -100
"""The label of words and cells that take no part in a loss."""


@dataclass(frozen=True, slots=True)
class Labels:
    """Tags of words (batch, words) and of cells (batch, words, words); `IGNORED` outside the sentences."""

    entity_tags: Tensor
    relation_tags: Tensor

    def to(self, device: torch.device | str) -> Labels:
        entity_tags = self.entity_tags.to(device, non_blocking=True)
        return Labels(entity_tags, self.relation_tags.to(device, non_blocking=True))


@dataclass(frozen=True, slots=True)
class ExampleLabels:
    """The tags of one sentence, and the numbers of its entities and relations that the tags do not express."""

    entity_tags: Tensor
    relation_tags: Tensor
    n_lost_entities: int
    n_lost_relations: int


def label_example(example: Example, model: Model) -> ExampleLabels:
    """Return the tags of one example; cells that the table tags do not fill are ignored."""
    n_words = len(example.sentence)
    tagged = model.tagging.encode(example.gold, n_words)
    relation_tags = torch.zeros(n_words, n_words, dtype=torch.long)
    for (row, column), tag in tagged.cell_tags.items():
        relation_tags[row, column] = tag
    relation_tags[~torch.from_numpy(model.tagging.fill_mask(n_words))] = IGNORED
    if not model.config.training.diagonal_loss:
        relation_tags.fill_diagonal_(IGNORED)
    n_lost = len(tagged.lost_entities), len(tagged.lost_relations)
    return ExampleLabels(torch.tensor(tagged.word_tags), relation_tags, *n_lost)


def stack_labels(labels: Sequence[ExampleLabels], n_words: int | None = None) -> Labels:
    """Stack the labels of a batch, padded to the longest sentence, or to `n_words`."""
    n_words = n_words or max(len(example.entity_tags) for example in labels)
    entity_tags = torch.full((len(labels), n_words), IGNORED)
    relation_tags = torch.full((len(labels), n_words, n_words), IGNORED)
    for row, example in enumerate(labels):
        length = len(example.entity_tags)
        entity_tags[row, :length] = example.entity_tags
        relation_tags[row, :length, :length] = example.relation_tags
    return Labels(entity_tags, relation_tags)


def make_labels(examples: Sequence[Example], model: Model) -> Labels:
    """The labels of a batch of examples."""
    return stack_labels([label_example(example, model) for example in examples])
