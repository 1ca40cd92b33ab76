"""Relations between known entities from the probabilities of each cell's tags (paper, equation 17)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from relatum.decoding.probabilities import Probabilities, check_probabilities
from relatum.tagging.sequence import check_fit
from relatum.tagging.table import TableTags
from relatum.types import Entity, Relation

Opposite = Literal["no-relation", "ignored"]
_Array = NDArray[np.float64]


def decode_relations(
    probabilities: Probabilities, entities: Sequence[Entity], tags: TableTags, opposite: Opposite
) -> tuple[Relation, ...]:
    """The relations between the entities; `probabilities` has the axes (row words, column words, tags).

    For each ordered pair, `TableTags.ballot` names the cells that are asked and what each tag says in them; the outcome
    with the most probability wins. Ties go to no relation, then to the type that the schema has first. Entities that
    share words have no relation. Tags that speak for something else than a relation from head to tail, such as one in
    the opposite direction, count as no relation, which is how the published numbers were made, or with
    `opposite="ignored"` for nothing, as the paper's text has it: then only ⊥ speaks for no relation.

    A relation's score is its mass divided by the number of cells that were asked, so that it lies in [0, 1].
    """
    n_words = len(probabilities)
    check_probabilities("relation", probabilities, (n_words, n_words, len(tags.names)))
    known = tuple(dict.fromkeys(entities))
    if len(known) < 2:
        return ()
    members = _members(known, tags, n_words)
    filled = tags.fill_mask(n_words)
    blocks = _block_sums(members, np.where(filled[..., None], probabilities.astype(np.float64), 0.0))
    n_cells = members @ filled @ members.T
    if tags.asks_mirrored:
        n_cells = n_cells + n_cells.T
    starts_first = np.array([[head.span < tail.span for tail in known] for head in known])
    votes = np.where(
        starts_first[..., None], _votes(blocks, tags, opposite, True), _votes(blocks, tags, opposite, False)
    )
    # argmax takes the first of equals: no relation, then the types in the order of the schema.
    winners = votes.argmax(axis=-1)
    winners[members @ members.T > 0] = 0
    kinds = tags.schema.relation_types
    return tuple(
        Relation(
            known[head],
            known[tail],
            kinds[winners[head, tail] - 1].name,
            # Softmax in single precision may sum to a little more than 1.
            min(1.0, float(votes[head, tail, winners[head, tail]] / n_cells[head, tail])),
        )
        for head, tail in np.argwhere(winners)
    )


def _members(entities: Sequence[Entity], tags: TableTags, n_words: int) -> _Array:
    """(entities, words): 1 where the word stands for the entity in the table."""
    members = np.zeros((len(entities), n_words))
    for row, entity in zip(members, entities, strict=True):
        check_fit(entity, n_words)
        row[list(tags.words(entity))] = 1
    return members


def _block_sums(members: _Array, table: _Array) -> _Array:
    """(entities, entities, tags): the table summed over the words of a row's and of a column's entity."""
    n_words, n_tags = table.shape[1:]
    rows = (members @ table.reshape(n_words, n_words * n_tags)).reshape(len(members), n_words, n_tags)
    sums: _Array = members @ rows
    return sums


def _votes(blocks: _Array, tags: TableTags, opposite: Opposite, in_order: bool) -> _Array:
    """(heads, tails, outcomes): the mass for each outcome, read as if all pairs were in order, or all were not."""
    votes = blocks @ _gathering(tags, True, in_order, opposite)
    if tags.asks_mirrored:
        votes = votes + blocks.swapaxes(0, 1) @ _gathering(tags, False, in_order, opposite)
    return votes


def _gathering(tags: TableTags, row_is_head: bool, in_order: bool, opposite: Opposite) -> _Array:
    """(tags, outcomes): 1 where the tag speaks for the outcome."""
    outcomes = tags.outcomes(row_is_head, in_order)
    gathering = np.zeros((len(tags.names), 1 + len(tags.schema.relation_types)))
    gathering[np.arange(len(outcomes)), outcomes] = 1
    if opposite == "ignored":
        gathering[1:, 0] = 0
    return gathering
