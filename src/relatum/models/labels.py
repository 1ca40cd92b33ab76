"""Gold annotations as the tensors a loss is computed with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from relatum.models.model import Model
from relatum.types import Example

IGNORED = -100
"""The label of words and cells that take no part in a loss."""

_CERTAIN = 1e4
"""Log-odds of 1 in every precision, and finite in half precision, so that no gradient is infinity times zero."""


@dataclass(frozen=True, slots=True)
class Labels:
    """Tags of words (batch, words) and of cells (batch, words, words); `IGNORED` outside the sentences.

    If cells have any number of tags, `relation_tags` are rows of `tag_sets`. If there are targets, they are learned
    instead of the tags, which then only say which words and cells are ignored.
    """

    entity_tags: Tensor
    relation_tags: Tensor
    tag_sets: Tensor | None = None
    """(sets, tags): True for the tags in a set."""
    entity_targets: Tensor | None = None
    """(batch, words, tags): probabilities."""
    relation_targets: Tensor | None = None
    """(batch, words, words, tags): probabilities, or their log-odds if cells have any number of tags."""

    def to(self, device: torch.device | str) -> Labels:
        def move(part: Tensor | None) -> Tensor | None:
            return None if part is None else part.to(device, non_blocking=True)

        return Labels(
            self.entity_tags.to(device, non_blocking=True),
            self.relation_tags.to(device, non_blocking=True),
            move(self.tag_sets),
            move(self.entity_targets),
            move(self.relation_targets),
        )


class TagSets:
    """The different sets of tags that cells have, numbered in the order in which they come; 0 is the empty set.

    Few sets occur in a corpus, so a number for each cell takes a small part of the memory of all its tags.
    """

    def __init__(self, n_tags: int) -> None:
        self._n_tags = n_tags
        self._numbers: dict[tuple[int, ...], int] = {(): 0}
        self._table: Tensor | None = None

    def number(self, tags: tuple[int, ...]) -> int:
        """Return the number of a set, a new one if it has not come yet."""
        return self._numbers.setdefault(tags, len(self._numbers))

    def to_table(self, device: torch.device | str) -> Tensor:
        """Return (sets, tags), on the device: True for the tags in a set."""
        if self._table is None or len(self._table) < len(self._numbers):
            table = torch.zeros(len(self._numbers), self._n_tags, dtype=torch.bool)
            for tags, number in self._numbers.items():
                table[number, list(tags)] = True
            self._table = table.to(device)
        return self._table.to(device)


@dataclass(frozen=True, slots=True)
class ExampleLabels:
    """The tags of one sentence, and the numbers of its entities and relations that the tags do not express."""

    entity_tags: Tensor
    relation_tags: Tensor
    n_lost_entities: int
    n_lost_relations: int


@dataclass(frozen=True, slots=True)
class Targets:
    """The targets of one sentence, in half precision; see `Labels`.

    The targets of cells with any number of tags are log-odds, which keep their digits near 1 as well as near 0.
    """

    entity: Tensor
    """(words, tags)"""
    relation: Tensor | None
    """(words, words, tags); None without a table."""

    @classmethod
    def mix(
        cls,
        labels: ExampleLabels,
        entity_logits: Tensor,
        relation_logits: Tensor | None,
        share: float,
        tag_sets: Tensor | None = None,
    ) -> Targets:
        """Mix the probabilities of teachers, given by their logits, with the gold tags; `share` is the teachers'.

        The loss of a cell with any number of tags is lowest where the log-odds of a tag are half of its target's. So
        those of the teachers are doubled, and the lowest loss is where the student's are equal to theirs.
        """
        device, gold = entity_logits.device, 1 - share

        def mix_one(logits: Tensor, tags: Tensor) -> Tensor:
            is_gold = one_hot(tags.clamp(min=0).to(device), logits.shape[-1])
            return (share * logits.float().softmax(-1) + gold * is_gold).half()

        entity = mix_one(entity_logits, labels.entity_tags)
        if relation_logits is None:
            return cls(entity, None)
        if tag_sets is None:
            return cls(entity, mix_one(relation_logits, labels.relation_tags))
        has_tag = tag_sets[labels.relation_tags.clamp(min=0).to(device)]
        doubled = 2 * relation_logits.float()
        present = share * doubled.sigmoid() + gold * has_tag
        absent = share * (-doubled).sigmoid() + gold * ~has_tag
        return cls(entity, (present.log() - absent.log()).clamp(-_CERTAIN, _CERTAIN).half())


def make_tag_sets(model: Model) -> TagSets | None:
    """Return an empty list of sets for a model whose cells have any number of tags; None for others."""
    return TagSets(len(model.tagging.cells.names)) if model.tagging.has_tag_sets else None


def label_example(example: Example, model: Model, sets: TagSets | None) -> ExampleLabels:
    """Return the tags of one example; cells that the table tags do not fill are ignored.

    New sets of tags are added to `sets`.
    """
    n_words = len(example.sentence)
    tagged = model.tagging.encode(example.gold, n_words)
    relation_tags = torch.zeros(n_words, n_words, dtype=torch.long)
    for (row, column), tags in tagged.cell_tags.items():
        relation_tags[row, column] = tags[0] if sets is None else sets.number(tags)
    relation_tags[~torch.from_numpy(model.tagging.fill_mask(n_words))] = IGNORED
    if not model.config.training.diagonal_loss:
        relation_tags.fill_diagonal_(IGNORED)
    n_lost = len(tagged.lost_entities), len(tagged.lost_relations)
    return ExampleLabels(torch.tensor(tagged.word_tags), relation_tags, *n_lost)


def stack_labels(labels: Sequence[ExampleLabels], n_words: int | None = None, tag_sets: Tensor | None = None) -> Labels:
    """Stack the labels of a batch, padded to the longest sentence, or to `n_words`."""
    n_words = n_words or max(len(example.entity_tags) for example in labels)
    entity_tags = torch.full((len(labels), n_words), IGNORED)
    relation_tags = torch.full((len(labels), n_words, n_words), IGNORED)
    for row, example in enumerate(labels):
        length = len(example.entity_tags)
        entity_tags[row, :length] = example.entity_tags
        relation_tags[row, :length, :length] = example.relation_tags
    return Labels(entity_tags, relation_tags, tag_sets)


def make_labels(examples: Sequence[Example], model: Model) -> Labels:
    """The labels of a batch of examples."""
    sets = make_tag_sets(model)
    labels = [label_example(example, model, sets) for example in examples]
    return stack_labels(labels, tag_sets=None if sets is None else sets.to_table("cpu"))
