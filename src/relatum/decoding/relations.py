"""Relations between known entities from the probabilities of each cell's tags (paper, equation 17)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, product
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

_TOGETHER = 32
"""The most entities of a sentence that is decoded together with others.

A sentence with more is decoded by itself: padding every sentence to so many pairs would take too much memory.
"""


def decode_relations(
    probabilities: Probabilities | Logits,
    entities: Sequence[Entity],
    tags: TableTags,
    opposite: Opposite,
    constraints: Constraints = "none",
) -> tuple[Relation, ...]:
    """Decode the relations between the entities; `probabilities` has the axes (row words, column words, tags).

    For each ordered pair, `TableTags.deciding_cells` names the cells that decide and what each tag votes for in them;
    the outcome with the most probability wins. Ties go to no relation, then to the type that the schema has first.
    Entities that share words have no relation.

    Tags that vote for something else than a relation from head to tail, such as a relation in the opposite direction,
    count as no relation; the published numbers were made so. With `opposite="ignored"` they count for nothing, as in
    the paper's text: then only ⊥ votes for no relation.

    With `constraints="schema"` a tag that the schema does not allow between entities of the two types, in the direction
    that the tag has, counts for nothing at all: not for no relation either, since it says that there is one. A score
    is the same as without constraints.

    A relation's score is its mass divided by the number of deciding cells, so that it lies in [0, 1].
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
    """Decode the relations of a batch as `decode_relations` does.

    `probabilities` has the axes (sentences, row words, column words, tags); `lengths` has the number of words of each
    sentence. All sentences go through the same few steps together: most sentences have few entities, so that for a
    single sentence the overhead of each step would far exceed the computation in it.
    """
    check_sentences("relation", probabilities, lengths, len(tags.names))
    distinct = [tuple(dict.fromkeys(of_sentence)) for of_sentence in entities]
    relations: list[tuple[Relation, ...]] = [()] * len(distinct)
    with_pairs = [row for row, of_sentence in enumerate(distinct) if len(of_sentence) > 1]
    alone = [[row] for row in with_pairs if len(distinct[row]) > _TOGETHER]
    for rows in ([row for row in with_pairs if len(distinct[row]) <= _TOGETHER], *alone):
        if rows:
            pairs = _EntityPairs.of([distinct[row] for row in rows], [lengths[row] for row in rows], tags)
            decided = _decide(probabilities, np.array(rows), pairs, tags, opposite, constraints)
            for row, of_sentence in zip(rows, decided, strict=True):
                relations[row] = of_sentence
    return relations


@dataclass(frozen=True, slots=True)
class _EntityPairs:
    """The entities of some sentences and the words that stand for them, padded; no cells of other words are read."""

    entities: Sequence[tuple[Entity, ...]]
    words_of: Sequence[list[tuple[int, ...]]]
    """The words that stand for each entity, by sentence and entity."""
    n_words: list[int]
    """The number of different words that stand for entities in each sentence."""
    words: _Indices
    """(sentences, words): the index in the sentence of each word that stands for an entity; 0 behind the last."""
    members: _Array
    """(sentences, entities, words): 1 where the word stands for the entity."""

    @classmethod
    def of(cls, entities: Sequence[tuple[Entity, ...]], lengths: Sequence[int], tags: TableTags) -> _EntityPairs:
        for of_sentence, length in zip(entities, lengths, strict=True):
            for entity in of_sentence:
                check_fit(entity, length)
        words_of = [list(map(tags.words, of_sentence)) for of_sentence in entities]
        words = [list(dict.fromkeys(chain.from_iterable(of_entities))) for of_entities in words_of]
        n_words = list(map(len, words))
        members = np.zeros((len(entities), max(map(len, entities)), max(n_words)))
        for row, of_entities in enumerate(words_of):
            columns = {word: column for column, word in enumerate(words[row])}
            for number, of_entity in enumerate(of_entities):
                for word in of_entity:
                    members[row, number, columns[word]] = 1
        return cls(entities, words_of, n_words, _pad(words), members)

    def allowed(self, tags: TableTags) -> NDArray[np.bool_]:
        """Return (sentences, entities, entities, tags): True if the schema allows the tag between the two entities."""
        numbers = {label: number for number, label in enumerate(tags.schema.entity_types)}
        other = len(numbers)
        rows = []
        for entities in self.entities:
            row = [numbers.get(entity.label, other) for entity in entities]
            rows.append(row)
        types = _pad(rows)
        return tags.allowed[types[:, :, None], types[:, None]]

    def in_order(self) -> NDArray[np.bool_]:
        """Return (sentences, heads, tails): True if the head comes first; if both begin together, the shorter does."""
        after = 1 + max(entity.span.end for entities in self.entities for entity in entities)
        rows = []
        for entities in self.entities:
            row = [entity.span.start * after + entity.span.end for entity in entities]
            rows.append(row)
        order = _pad(rows)
        in_order: NDArray[np.bool_] = order[:, :, None] < order[:, None]
        return in_order

    def cells(self, tags: TableTags) -> NDArray[np.bool_] | None:
        """Return (sentences, words, words): True for cells that the table fills, False for padding; None for all."""
        longest = max(self.n_words)
        if tags.fill == "entire" and min(self.n_words) == longest:
            return None  # as always where there is one sentence
        is_there = np.arange(longest) < np.array(self.n_words)[:, None]
        cells: NDArray[np.bool_] = is_there[:, :, None] & is_there[:, None]
        if tags.fill != "entire":
            cells &= tags.fill_mask(int(self.words.max()) + 1)[self.words[:, :, None], self.words[:, None]]
        return cells


def _read_cells(
    probabilities: Probabilities | Logits, rows: _Indices, words: _Indices, cells: NDArray[np.bool_] | None
) -> _Array:
    """Return (sentences, words, words, tags): the probabilities in `cells` of `rows` of the batch, 0 in other cells."""
    if cells is None:
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
    pairs: _EntityPairs,
    tags: TableTags,
    opposite: Opposite,
    constraints: Constraints,
) -> list[tuple[Relation, ...]]:
    """Decide on the relations of the sentences in these rows of the batch."""
    # The cells have no name of their own: kept in memory to the end, they would make a batch take 4 % longer.
    blocks = _block_sums(pairs.members, _read_cells(probabilities, rows, pairs.words, pairs.cells(tags)))
    if constraints == "schema":
        blocks *= pairs.allowed(tags)
    votes = _votes(blocks, pairs, tags, opposite)
    # argmax takes the first of equals: no relation, then the types in the order of the schema.
    winners = votes.argmax(axis=-1)
    related = winners.nonzero()
    relations: list[list[Relation]] = [[] for _ in pairs.entities]
    if not len(related[0]):
        return [()] * len(relations)
    won = winners[related]
    names = tags.schema.relation_names
    # Where only one half of the table is filled, so is only one of a cell and its mirrored one.
    n_cells_of_pair = 2 if tags.uses_mirrored_cells and tags.fill == "entire" else 1
    columns = (*related, won, votes[(*related, won)])
    for number, head, tail, kind, mass in zip(*(column.tolist() for column in columns), strict=True):
        entities = pairs.entities[number]
        words_of = pairs.words_of[number]
        if not set(words_of[head]).isdisjoint(words_of[tail]):
            continue
        n_cells = n_cells_of_pair * len(words_of[head]) * len(words_of[tail])
        score = min(mass / n_cells, 1.0)  # softmax in single precision may sum to a little more than 1
        relations[number].append(Relation(entities[head], entities[tail], names[kind - 1], score))
    return [tuple(of_sentence) for of_sentence in relations]


def _block_sums(members: _Array, table: _Array) -> _Array:
    """Return (sentences, entities, entities, tags): the table summed over the words of the two entities."""
    n_sentences, n_entities, n_words = members.shape
    rows = (members @ table.reshape(n_sentences, n_words, -1)).reshape(n_sentences, n_entities, n_words, -1)
    sums: _Array = members[:, None] @ rows
    return sums


def _votes(blocks: _Array, pairs: _EntityPairs, tags: TableTags, opposite: Opposite) -> _Array:
    """Return (sentences, heads, tails, outcomes): the probability mass for each outcome."""
    n_outcomes = 1 + len(tags.schema.relation_types)
    n_tags = blocks.shape[-1]
    # Only the tags of symmetric types say something else of a pair that is not in order.
    orders = (False, True) if any(kind.symmetric for kind in tags.schema.relation_types) else (True,)
    readings = tuple([tags.tag_votes(*reading) for reading in product((True, False), orders)])
    # As if the row were the head's and as if the column were; then as if no pair were in order, and as if all were.
    masses = blocks.reshape(-1, n_tags) @ _gathering(readings, n_outcomes, opposite)
    masses = masses.reshape(*blocks.shape[:-1], 2, len(orders), n_outcomes)
    votes = masses[..., 0, :, :]
    if tags.uses_mirrored_cells:
        votes = votes + masses[..., 1, :, :].swapaxes(1, 2)
    if len(orders) == 1:
        return votes[..., 0, :]
    return np.where(pairs.in_order()[..., None], votes[..., 1, :], votes[..., 0, :])


@lru_cache(maxsize=256)
def _gathering(tag_votes: tuple[tuple[int, ...], ...], n_outcomes: int, opposite: Opposite) -> _Array:
    """Return (tags, outcomes of every reading): 1 where the tag speaks for the outcome; the same for all sentences."""
    parts = []
    for votes in tag_votes:
        gathering = np.zeros((len(votes), n_outcomes))
        gathering[np.arange(len(votes)), votes] = 1
        if opposite == "ignored":
            gathering[1:, 0] = 0
        parts.append(gathering)
    return np.concatenate(parts, 1)
