"""Relations between known entities from the probabilities of each cell's tags (paper, equation 17)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from relatum.decoding.probabilities import Logits, Probabilities, check_probabilities, pick_cells
from relatum.tagging.sequence import check_fit
from relatum.tagging.table import TableTags
from relatum.types import Entity, Relation

Opposite = Literal["no-relation", "ignored"]
_Array = NDArray[np.float64]


def decode_relations(
    probabilities: Probabilities | Logits, entities: Sequence[Entity], tags: TableTags, opposite: Opposite
) -> tuple[Relation, ...]:
    """The relations between the entities; `probabilities` has the axes (row words, column words, tags).

    For each ordered pair, `TableTags.ballot` names the cells that are asked and what each tag says in them; the outcome
    with the most probability wins. Ties go to no relation, then to the type that the schema has first. Entities that
    share words have no relation. Tags that speak for something else than a relation from head to tail, such as one in
    the opposite direction, count as no relation, which is how the published numbers were made, or with
    `opposite="ignored"` for nothing, as the paper's text has it: then only ⊥ speaks for no relation.

    A relation's score is its mass divided by the number of cells that were asked, so that it lies in [0, 1].
    """
    n_words = len(probabilities.values if isinstance(probabilities, Logits) else probabilities)
    check_probabilities("relation", probabilities, (n_words, n_words, len(tags.names)))
    known = tuple(dict.fromkeys(entities))
    if len(known) < 2:
        return ()
    members = _members(known, tags, n_words)
    words = np.flatnonzero(members.any(0))  # the others are never asked
    members = members[:, words]
    filled = tags.fill_mask(n_words)[words[:, None], words]
    blocks = _block_sums(members, np.where(filled[..., None], pick_cells(probabilities, words), 0.0))
    n_cells = members @ filled @ members.T
    if tags.asks_mirrored:
        n_cells = n_cells + n_cells.T
    votes = np.where(
        _starts_first(known)[..., None], _votes(blocks, tags, opposite, True), _votes(blocks, tags, opposite, False)
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


def _starts_first(entities: Sequence[Entity]) -> NDArray[np.bool_]:
    """(heads, tails): whether the head comes first; of two that begin together, the shorter does."""
    places = {span: place for place, span in enumerate(sorted({entity.span for entity in entities}))}
    order = np.array([places[entity.span] for entity in entities])
    first: NDArray[np.bool_] = order[:, None] < order
    return first


def _block_sums(members: _Array, table: _Array) -> _Array:
    """(entities, entities, tags): the table summed over the words of a row's and of a column's entity."""
    n_words, n_tags = table.shape[1:]
    rows = (members @ table.reshape(n_words, n_words * n_tags)).reshape(len(members), n_words, n_tags)
    sums: _Array = members @ rows
    return sums


def _votes(blocks: _Array, tags: TableTags, opposite: Opposite, in_order: bool) -> _Array:
    """(heads, tails, outcomes): the mass for each outcome, read as if all pairs were in order, or all were not."""
    n_outcomes = 1 + len(tags.schema.relation_types)
    votes: _Array = blocks @ _gathering(tags.outcomes(True, in_order), n_outcomes, opposite)
    if tags.asks_mirrored:
        votes = votes + blocks.swapaxes(0, 1) @ _gathering(tags.outcomes(False, in_order), n_outcomes, opposite)
    return votes


@lru_cache(maxsize=256)
def _gathering(outcomes: tuple[int, ...], n_outcomes: int, opposite: Opposite) -> _Array:
    """(tags, outcomes): 1 where the tag speaks for the outcome; the same for every sentence."""
    gathering = np.zeros((len(outcomes), n_outcomes))
    gathering[np.arange(len(outcomes)), outcomes] = 1
    if opposite == "ignored":
        gathering[1:, 0] = 0
    return gathering
