"""Entities and relations from cells whose tags are independent of one another."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from relatum.decoding.probabilities import Logits, Probabilities, check_sentences, check_shape, values_of
from relatum.decoding.relations import Constraints
from relatum.tagging.sequence import check_fit
from relatum.tagging.spans import (
    Overlap,
    SpanTags,
    find_corners,
    find_same_words,
    find_sharing,
    is_other_allowed,
    keep_compatible,
    list_types,
    words_of,
)
from relatum.tagging.table import comes_before
from relatum.types import Annotation, Entity, Relation, Span

_Array = NDArray[np.float64]
_Indices = NDArray[np.intp]

_MOST_CELLS = 65_536
"""The most cells of pairs of entities that are decided together, so that they do not fill the memory."""
MOST_WORDS = 256
"""The most words that the entities of a sentence have together, or twice the words of the sentence if that is more.

The cells of all pairs are the square of this number, so that it limits time and memory. A trained model stays far below
it; one that was hardly trained may find nearly all spans to be entities.
"""
MOST_RELATIONS = 4096
"""The most relations of a sentence."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SpanChoices:
    """The entities and relations that may be found together."""

    overlap: Overlap = "any"
    """Entities that share words: none, only one inside another, or any."""
    several_relations: bool = True
    """False if an ordered pair of entities has one relation at most, the one with the highest score."""
    constraints: Constraints = "none"
    """The relations that are possible between two entities: any, or those that the schema allows."""
    entity_threshold: float = 0.5
    """The score, between 0 and 1, that an entity must exceed to be found."""
    relation_threshold: float = 0.5
    """The score, between 0 and 1, that a relation must exceed to be found."""


def decode_spans(
    probabilities: Probabilities | Logits,
    lengths: Sequence[int],
    tags: SpanTags,
    choices: SpanChoices,
    entities: Sequence[tuple[Entity, ...]] | None = None,
) -> list[Annotation]:
    """Decode the entities and relations of a batch; `probabilities` has the axes (sentences, words, words, tags).

    Each tag of a cell has a probability of its own: the sigmoid of its logit. The score of an entity is the mean of its
    two cells. The score of a relation is the mean over the cells of its two entities and their mirrored cells. If one
    of the two shares words with another entity, it is at most the score of each corner of the pair: of the corner's own
    tag, and of the relation's tag there. Whatever exceeds its threshold is found, as far as the choices allow; of
    entities or relations that exclude one another, those with the highest scores are kept. So are those with the
    highest scores of more entities than `MOST_WORDS` allows, and of more than `MOST_RELATIONS`; a warning is logged.

    If `entities` are given, only relations between them are looked for.
    """
    n_words = values_of(probabilities).shape[1]
    check_shape("relation", probabilities, (len(lengths), n_words, n_words, len(tags.names)))
    check_sentences("relation", probabilities, lengths, len(tags.names))
    if entities is None:
        entities = _find_entities(probabilities, lengths, tags, choices)
    relations: list[list[Relation]] = [[] for _ in entities]
    crowded: set[int] = set()
    for pairs in _batches(_list_pairs(entities, lengths)):
        for sentence, relation in _find_relations(probabilities, pairs, tags, choices, crowded):
            relations[sentence].append(relation)
    crowded.update(number for number, related in enumerate(relations) if len(related) > MOST_RELATIONS)
    for number in crowded:
        relations[number] = _keep_highest(relations[number])
    _warn(crowded, "relations", f"{MOST_RELATIONS:,}", "relation_threshold")
    return [Annotation(found, tuple(related)) for found, related in zip(entities, relations, strict=True)]


def _keep_highest(relations: Sequence[Relation]) -> list[Relation]:
    """Return as many relations as a sentence may have, in their order."""
    by_score = sorted(range(len(relations)), key=lambda number: -(relations[number].score or 0))
    return [relations[number] for number in sorted(by_score[:MOST_RELATIONS])]


def _probable(probabilities: Probabilities | Logits, *indices: NDArray[np.intp]) -> _Array:
    """Return the probabilities of the tags at some indices, along all axes."""
    values: _Array = values_of(probabilities)[indices].astype(np.float64)
    if isinstance(probabilities, Logits):
        values = 1 / (1 + np.exp(-np.clip(values, -700, 700)))
    return values


def _find_entities(
    probabilities: Probabilities | Logits, lengths: Sequence[int], tags: SpanTags, choices: SpanChoices
) -> list[tuple[Entity, ...]]:
    n_types = len(tags.schema.entity_types)
    values = values_of(probabilities)[..., :n_types]
    least = choices.entity_threshold
    if isinstance(probabilities, Logits):
        least = float(np.log(least / (1 - least)))
    # The mean of two cells exceeds the threshold only if one of them does: few cells are left to look at. Those that
    # are equal to it are among them, since it may be rounded here.
    with np.errstate(invalid="ignore"):  # of padding, which may be anything
        likely = np.maximum(values, values.swapaxes(1, 2)) >= least
    places = np.arange(values.shape[1])
    likely &= (places[:, None] <= places)[None, :, :, None]
    likely &= (places < np.array(lengths)[:, None])[:, None, :, None]
    sentence, first, last, kind = likely.nonzero()
    score = (
        _probable(probabilities, sentence, first, last, kind) + _probable(probabilities, sentence, last, first, kind)
    ) / 2
    kept = score > choices.entity_threshold
    limits = [max(MOST_WORDS, 2 * length) for length in lengths]
    crowded = _drop_lowest(kept, sentence, last - first + 1, score, limits)
    _warn(crowded, "entities", f"{MOST_WORDS} words together, or twice the words of the sentence", "entity_threshold")
    names = tags.schema.entity_types
    found: list[list[Entity]] = [[] for _ in lengths]
    columns = (column[kept].tolist() for column in (sentence, first, last, kind, score))
    for number, start, end, label, certain in zip(*columns, strict=True):
        found[number].append(Entity(Span(start, end + 1), names[label], score=certain))
    return [tuple(_without_conflicts(of_sentence, choices.overlap)) for of_sentence in found]


def _drop_lowest(
    kept: NDArray[np.bool_], sentence: _Indices, size: _Indices, score: _Array, limits: Sequence[int]
) -> set[int]:
    """Drop candidates from `kept` until their sizes do not exceed the limit of their sentence, lowest scores first.

    Return the sentences that had more.
    """
    totals = np.bincount(sentence[kept], size[kept], len(limits))
    crowded = (totals > np.array(limits)).nonzero()[0].tolist()
    for number in crowded:
        rows = (kept & (sentence == number)).nonzero()[0]
        by_score = rows[np.argsort(-score[rows], kind="stable")]
        kept[by_score[size[by_score].cumsum() > limits[number]]] = False
    return set(crowded)


def _warn(crowded: Collection[int], what: str, limit: str, key: str) -> None:
    if crowded:
        _log.warning(
            "too many %s exceed their threshold in %s sentences, which keep those with the highest scores (%s); train "
            "for longer, or raise decoding.%s",
            what,
            len(crowded),
            limit,
            key,
        )


def _without_conflicts(entities: list[Entity], overlap: Overlap) -> Iterable[Entity]:
    """Return the entities that may stand together, in their order; in a conflict the higher score wins."""
    if overlap == "any":
        return entities
    kept = set(keep_compatible(sorted(entities, key=lambda one: -(one.score or 0)), overlap))
    return (entity for entity in entities if entity in kept)


@dataclass(frozen=True, slots=True)
class _Pair:
    """An ordered pair of entities of a sentence."""

    sentence: int
    head: Entity
    tail: Entity
    shares_words: bool
    """True if the head or the tail shares words with another entity, or with each other."""
    others: tuple[tuple[str, str], ...] = ()
    """The types of head and tail of all pairs of exactly these words, if there are several."""


def _list_pairs(entities: Sequence[Sequence[Entity]], lengths: Sequence[int]) -> Iterable[_Pair]:
    for sentence, (of_sentence, length) in enumerate(zip(entities, lengths, strict=True)):
        known = tuple(dict.fromkeys(of_sentence))
        for entity in known:
            check_fit(entity, length)
        sharing = find_sharing(known)
        same = find_same_words(known) if sharing else {}
        for head in known:
            for tail in known:
                if head is not tail:
                    shares_words = bool(sharing) and not sharing.isdisjoint((head, tail))
                    yield _Pair(sentence, head, tail, shares_words, list_types(head, tail, same) if same else ())


def _batches(pairs: Iterable[_Pair]) -> Iterable[list[_Pair]]:
    batch: list[_Pair] = []
    n_cells = 0
    for pair in pairs:
        batch.append(pair)
        n_cells += pair.head.span.width * pair.tail.span.width
        if n_cells >= _MOST_CELLS:
            yield batch
            batch, n_cells = [], 0
    if batch:
        yield batch


def _find_relations(
    probabilities: Probabilities | Logits,
    pairs: Sequence[_Pair],
    tags: SpanTags,
    choices: SpanChoices,
    crowded: set[int],
) -> Iterable[tuple[int, Relation]]:
    """Yield the relations of pairs, each with the number of its sentence; add sentences with too many to `crowded`."""
    kinds = tags.schema.relation_types
    if not kinds:
        return
    scores = _score_blocks(probabilities, pairs, tags)
    shared = [number for number, pair in enumerate(pairs) if pair.shares_words]
    if shared:
        corners = _score_corners(probabilities, [pairs[number] for number in shared], tags)
        scores[shared] = np.minimum(scores[shared], corners)
    scores *= _possible(pairs, tags, choices.constraints)
    found = scores > choices.relation_threshold
    if not choices.several_relations:
        found &= np.arange(len(kinds)) == scores.argmax(1)[:, None]
    rows, columns = found.nonzero()
    if len(rows) > MOST_RELATIONS:
        sentences = np.array([pair.sentence for pair in pairs])[rows]
        kept = np.ones(len(rows), dtype=bool)
        limits = [MOST_RELATIONS] * len(values_of(probabilities))
        crowded |= _drop_lowest(kept, sentences, np.ones_like(rows), scores[rows, columns], limits)
        rows, columns = rows[kept], columns[kept]
    for number, kind in zip(rows.tolist(), columns.tolist(), strict=True):
        pair = pairs[number]
        yield pair.sentence, Relation(pair.head, pair.tail, kinds[kind].name, min(float(scores[number, kind]), 1.0))


def _score_blocks(probabilities: Probabilities | Logits, pairs: Sequence[_Pair], tags: SpanTags) -> _Array:
    """Return (pairs, relation types): the mean probability over the cells of a pair, and over their mirrored cells."""
    cells: list[tuple[int, int, int]] = []
    starts = []
    for pair in pairs:
        starts.append(len(cells))
        heads, tails = words_of(pair.head), words_of(pair.tail)
        cells += [(pair.sentence, row, column) for row in heads for column in tails]
    sentences, rows, columns = np.array(cells, dtype=np.intp).T[:, :, None]
    there = _probable(probabilities, sentences, rows, columns, np.array(tags.forward))
    back = _probable(probabilities, sentences, columns, rows, np.array(tags.mirrored))
    of_cells = (there + back) / 2
    if len(cells) == len(pairs):
        return of_cells
    counts = np.diff([*starts, len(cells)])
    means: _Array = np.add.reduceat(of_cells, starts, axis=0) / counts[:, None]
    return means


def _score_corners(probabilities: Probabilities | Logits, pairs: Sequence[_Pair], tags: SpanTags) -> _Array:
    """Return (pairs, relation types): the lowest probability in the two corners, of their own tag and of the type's.

    Each is the mean of a cell and its mirrored cell.
    """
    sentences = np.array([[pair.sentence] for pair in pairs])
    corners = np.array([find_corners(pair.head, pair.tail) for pair in pairs])
    lowest = np.ones((len(pairs), len(tags.forward)))
    for number, own in enumerate(tags.corners):
        rows, columns = corners[:, number, 0, None], corners[:, number, 1, None]
        for forward, mirrored in (((own,), (own,)), (tags.forward, tags.mirrored)):
            there = _probable(probabilities, sentences, rows, columns, np.array(forward))
            back = _probable(probabilities, sentences, columns, rows, np.array(mirrored))
            lowest = np.minimum(lowest, (there + back) / 2)
    return lowest


def _possible(pairs: Sequence[_Pair], tags: SpanTags, constraints: Constraints) -> NDArray[np.bool_]:
    """Return (pairs, relation types): True where a relation may be; symmetric ones need the earlier entity first.

    Of pairs of the same words, only those with types that the schema allows may have a relation, if there are any.
    """
    kinds = tags.schema.relation_types
    possible = np.ones((len(pairs), len(kinds)), dtype=bool)
    symmetric = [kind for kind, one in enumerate(kinds) if one.symmetric]
    known: dict[tuple[tuple[str, str], ...], list[bool]] = {}
    for number, pair in enumerate(pairs):
        head, tail = pair.head, pair.tail
        labels = head.label, tail.label
        if constraints == "schema":
            if (labels,) not in known:
                known[labels,] = [kind.allows(*labels) for kind in kinds]
            possible[number] = known[labels,]
        elif pair.others:
            if (labels, *pair.others) not in known:
                known[labels, *pair.others] = [not is_other_allowed(kind, labels, pair.others) for kind in kinds]
            possible[number] = known[labels, *pair.others]
        if symmetric and comes_before(tail, head):
            possible[number, symmetric] = False
    return possible
