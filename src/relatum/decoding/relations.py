"""Relations between known entities from the probabilities of each cell's tags (paper, equation 17)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from relatum.decoding.probabilities import Logits, Probabilities, check_sentences, check_shape, pick, values_of
from relatum.tagging.sequence import check_fit
from relatum.tagging.table import TableTags
from relatum.types import Entity, Relation

Opposite = Literal["no-relation", "ignored"]
Constraints = Literal["none", "schema"]
_Array = NDArray[np.float64]
_Indices = NDArray[np.intp]

_READINGS = tuple(product((True, False), (False, True)))
"""Of tags: whether the row is the head's, and whether the head comes first."""

_TOGETHER = 32
"""A sentence of more entities is decoded by itself: room for all their pairs in every sentence would be too much."""


def decode_relations(
    probabilities: Probabilities | Logits,
    entities: Sequence[Entity],
    tags: TableTags,
    opposite: Opposite,
    constraints: Constraints = "none",
) -> tuple[Relation, ...]:
    """The relations between the entities; `probabilities` has the axes (row words, column words, tags).

    For each ordered pair, `TableTags.ballot` names the cells that are asked and what each tag says in them; the outcome
    with the most probability wins. Ties go to no relation, then to the type that the schema has first. Entities that
    share words have no relation. Tags that speak for something else than a relation from head to tail, such as one in
    the opposite direction, count as no relation, which is how the published numbers were made, or with
    `opposite="ignored"` for nothing, as the paper's text has it: then only ⊥ speaks for no relation.

    With `constraints="schema"` a tag that the schema does not allow between entities of the two types, in the direction
    that the tag has, counts for nothing at all: not for no relation either, since it says that there is one. A score
    is the same as without constraints.

    A relation's score is its mass divided by the number of cells that were asked, so that it lies in [0, 1].
    """
    values = values_of(probabilities)
    check_shape("relation", probabilities, (len(values), len(values), len(tags.names)))
    batch = values[None]
    tables = Logits(batch) if isinstance(probabilities, Logits) else batch
    return decode_tables(tables, [len(values)], [entities], tags, opposite, constraints)[0]


def decode_tables(
    probabilities: Probabilities | Logits,
    lengths: Sequence[int],
    entities: Sequence[Sequence[Entity]],
    tags: TableTags,
    opposite: Opposite,
    constraints: Constraints = "none",
) -> list[tuple[Relation, ...]]:
    """The same for a batch: (sentences, row words, column words, tags), of which each sentence has so many words.

    All sentences go through the same few steps together: most have few entities, so that by themselves each step would
    take far longer than what is to be computed in it.
    """
    check_sentences("relation", probabilities, lengths, len(tags.names))
    known = [tuple(dict.fromkeys(one)) for one in entities]
    found: list[tuple[Relation, ...]] = [()] * len(known)
    related = [row for row, one in enumerate(known) if len(one) > 1]
    groups = [[row] for row in related if len(known[row]) > _TOGETHER]
    for rows in ([row for row in related if len(known[row]) <= _TOGETHER], *groups):
        if rows:
            asked = _Asked.of([known[row] for row in rows], [lengths[row] for row in rows], tags)
            decided = _decide(probabilities, np.array(rows), asked, tags, opposite, constraints)
            for row, relations in zip(rows, decided, strict=True):
                found[row] = relations
    return found


@dataclass(frozen=True, slots=True)
class _Asked:
    """The entities of some sentences and the words that stand for them, padded; no other word is ever asked."""

    entities: Sequence[tuple[Entity, ...]]
    words: _Indices
    """(sentences, words): which words of the sentence they are; 0 behind the last."""
    members: _Array
    """(sentences, entities, words): 1 where the word stands for the entity."""
    order: _Indices
    """(sentences, entities): whose number is lower comes first; of two that begin together, the shorter does."""

    @classmethod
    def of(cls, entities: Sequence[tuple[Entity, ...]], lengths: Sequence[int], tags: TableTags) -> _Asked:
        longest = max(lengths)
        memberships: list[tuple[int, int, int]] = []
        words: list[list[int]] = []
        order: list[list[int]] = []
        for row, (one, length) in enumerate(zip(entities, lengths, strict=True)):
            places: dict[int, int] = {}
            for number, entity in enumerate(one):
                check_fit(entity, length)
                memberships += [(row, number, places.setdefault(word, len(places))) for word in tags.words(entity)]
            words.append(list(places))
            order.append([entity.span.start * (longest + 1) + entity.span.end for entity in one])
        padded = _pad(words)
        members = np.zeros((len(entities), max(map(len, entities)), padded.shape[1]))
        members[tuple(np.array(memberships).T)] = 1
        return cls(entities, padded, members, _pad(order))

    def allowed(self, tags: TableTags) -> NDArray[np.bool_]:
        """(sentences, entities, entities, tags): the tags that the schema allows between a row's and a column's."""
        numbers = {label: number for number, label in enumerate(tags.schema.entity_types)}
        types = _pad([[numbers.get(entity.label, len(numbers)) for entity in one] for one in self.entities])
        return tags.allowed[types[:, :, None], types[:, None]]

    def cells(self, tags: TableTags) -> NDArray[np.bool_]:
        """(sentences, words, words): the cells that the table fills, of words that there are."""
        is_there = self.members.sum(1) > 0
        cells: NDArray[np.bool_] = is_there[:, :, None] & is_there[:, None]
        if tags.fill != "entire":
            cells &= tags.fill_mask(int(self.words.max()) + 1)[self.words[:, :, None], self.words[:, None]]
        return cells


def _read_cells(
    probabilities: Probabilities | Logits, rows: _Indices, words: _Indices, cells: NDArray[np.bool_]
) -> _Array:
    """(sentences, words, words, tags): the probabilities in these cells of these rows of the batch, 0 in others."""
    if cells.all():
        return pick(probabilities, rows[:, None, None], words[:, :, None], words[:, None])
    sentence, row, column = cells.nonzero()
    picked = pick(probabilities, rows[sentence], words[sentence, row], words[sentence, column])
    table = np.zeros((*cells.shape, picked.shape[-1]))
    table[sentence, row, column] = picked
    return table


def _pad(rows: Sequence[list[int]]) -> _Indices:
    longest = max(map(len, rows))
    return np.array([row + [0] * (longest - len(row)) for row in rows], dtype=np.intp)


def _decide(
    probabilities: Probabilities | Logits,
    rows: _Indices,
    asked: _Asked,
    tags: TableTags,
    opposite: Opposite,
    constraints: Constraints,
) -> list[tuple[Relation, ...]]:
    """The relations of the sentences in these rows of the batch."""
    members, words = asked.members, asked.words
    turned = members.swapaxes(1, 2)
    cells = asked.cells(tags)
    blocks = _block_sums(members, _read_cells(probabilities, rows, words, cells))
    if constraints == "schema":
        blocks *= asked.allowed(tags)
    votes = _votes(blocks, asked.order[:, :, None] < asked.order[:, None], tags, opposite)
    # argmax takes the first of equals: no relation, then the types in the order of the schema.
    winners = votes.argmax(axis=-1)
    winners[members @ turned > 0] = 0
    places = winners.nonzero()
    found: list[list[Relation]] = [[] for _ in rows]
    if not len(places[0]):
        return [()] * len(found)
    n_cells = members @ cells @ turned
    if tags.asks_mirrored:
        n_cells = n_cells + n_cells.swapaxes(1, 2)
    won = winners[places]
    # Softmax in single precision may sum to a little more than 1.
    scores = np.minimum(votes[(*places, won)] / n_cells[places], 1.0)
    names = tags.schema.relation_names
    for number, head, tail, kind, score in zip(*(one.tolist() for one in (*places, won, scores)), strict=True):
        entities = asked.entities[number]
        found[number].append(Relation(entities[head], entities[tail], names[kind - 1], score))
    return [tuple(one) for one in found]


def _block_sums(members: _Array, table: _Array) -> _Array:
    """(sentences, entities, entities, tags): the table summed over the words of a row's and of a column's entity."""
    n_sentences, n_entities, n_words = members.shape
    rows = (members @ table.reshape(n_sentences, n_words, -1)).reshape(n_sentences, n_entities, n_words, -1)
    sums: _Array = members[:, None] @ rows
    return sums


def _votes(blocks: _Array, in_order: NDArray[np.bool_], tags: TableTags, opposite: Opposite) -> _Array:
    """(sentences, heads, tails, outcomes): the mass for each outcome."""
    n_outcomes, n_tags = 1 + len(tags.schema.relation_types), blocks.shape[-1]
    readings = tuple(tags.outcomes(*reading) for reading in _READINGS)
    # As if the row were the head's and as if the column were; then as if no pair were in order, and as if all were.
    masses = blocks.reshape(-1, n_tags) @ _gathering(readings, n_outcomes, opposite)
    masses = masses.reshape(*blocks.shape[:-1], 2, 2, n_outcomes)
    votes = masses[..., 0, :, :]
    if tags.asks_mirrored:
        votes = votes + masses[..., 1, :, :].swapaxes(1, 2)
    return np.where(in_order[..., None], votes[..., 1, :], votes[..., 0, :])


@lru_cache(maxsize=256)
def _gathering(outcomes: tuple[tuple[int, ...], ...], n_outcomes: int, opposite: Opposite) -> _Array:
    """(tags, outcomes of every reading): 1 where the tag speaks for the outcome; the same for all sentences."""
    parts = []
    for one in outcomes:
        gathering = np.zeros((len(one), n_outcomes))
        gathering[np.arange(len(one)), one] = 1
        if opposite == "ignored":
            gathering[1:, 0] = 0
        parts.append(gathering)
    return np.concatenate(parts, 1)
