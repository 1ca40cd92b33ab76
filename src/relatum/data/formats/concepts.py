"""Relations between concepts as relations between mentions, by one rule for all formats that relate concepts.

In PubTator, BioC and DocRED a relation connects concepts of a whole document, not places in its text. It is read as
one relation in every sentence in which both concepts have a mention: between the two mentions that are nearest to each
other, by their starts. If the file names sentences as evidence, only these count. If no sentence is left, the relation
is read once, between the two nearest mentions in different sentences.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import cache

from relatum.data.records import Field
from relatum.types import Entity, Relation

Pair = tuple[Entity, Entity]
SentenceOf = Callable[[Entity], int]


def sentence_finder(text: str) -> SentenceOf:
    """Return a function that numbers the sentence in which a mention begins; the text is split by our rules."""
    from relatum.data.splitting import split_sentences

    return by_starts([sentence.start for sentence in split_sentences(text)])


def by_starts(starts: Sequence[int]) -> SentenceOf:
    """Return a function that numbers the sentence of a mention from 0, by the start of each sentence."""
    return lambda entity: bisect_right(starts, entity.span.start) - 1


def mention_pairs(
    heads: Collection[Entity], tails: Collection[Entity], sentence_of: SentenceOf, evidence: Collection[int] = ()
) -> list[Pair]:
    """Return the pairs of mentions that a relation between two concepts stands for; none if there are none to pair."""
    heads_by, tails_by = _by_sentence(heads, sentence_of), _by_sentence(tails, sentence_of)
    common = heads_by.keys() & tails_by.keys()
    pairs: list[Pair] = []
    for number in sorted(common):
        if not evidence or number in evidence:
            pairs += _nearest(heads_by[number], tails_by[number])
    if pairs:
        return pairs
    apart: list[Pair] = []
    for number in heads_by if common else ():
        apart += _nearest(heads_by[number], [tail for tail in tails if sentence_of(tail) != number])
    return [min(apart, key=_distance)] if apart else _nearest(heads, tails)


def _by_sentence(mentions: Collection[Entity], sentence_of: SentenceOf) -> dict[int, list[Entity]]:
    found: defaultdict[int, list[Entity]] = defaultdict(list)
    for mention in mentions:
        found[sentence_of(mention)].append(mention)
    return found


def _distance(pair: Pair) -> int:
    return abs(pair[0].span.start - pair[1].span.start)


def _nearest(heads: Collection[Entity], tails: Collection[Entity]) -> list[Pair]:
    """Return the nearest pair, alone in a list; of equally near ones the first. Empty if no two mentions differ."""
    at: defaultdict[int, list[tuple[int, Entity]]] = defaultdict(list)
    for number, tail in enumerate(tails):
        at[tail.span.start].append((number, tail))
    starts = sorted(at)
    best: tuple[int, int, int] | None = None
    found: list[Pair] = []
    for order, head in enumerate(heads):
        index = bisect_left(starts, head.span.start)
        # The start before, the same or the next, and one more, since the only tail that begins there may be the head.
        for start in starts[max(index - 1, 0) : index + 2]:
            other = next(((number, tail) for number, tail in at[start] if tail != head), None)
            if other is not None:
                rank = abs(start - head.span.start), order, other[0]
                if best is None or rank < best:
                    best, found = rank, [(head, other[1])]
    return found


class Concepts:
    """The mentions of each concept of a document, and the relations between mentions that they stand for."""

    def __init__(self, sentence_of: Callable[[], SentenceOf]) -> None:
        """`sentence_of` is called when the first relation needs sentences, since splitting a text takes time."""
        self._sentence_of = cache(sentence_of)
        self._mentions: defaultdict[str, dict[Entity, None]] = defaultdict(dict)

    def add(self, concept: str, mention: Entity) -> None:
        self._mentions[concept].setdefault(mention)

    def count(self, concept: str) -> int:
        """Return the number of mentions that a concept has."""
        return len(self._mentions.get(concept, ()))

    def relations(self, head: str, tail: str, label: str, evidence: Collection[int] = ()) -> list[Relation]:
        """Return the relations between mentions; a concept with a single mention may be related to itself."""
        if not self.count(head) or not self.count(tail):
            return []
        heads, tails = self._mentions[head], self._mentions[tail]
        if head == tail and len(heads) == 1:
            (mention,) = heads
            return [Relation(mention, mention, label)]
        if len(heads) == len(tails) == 1:
            pairs = _nearest(heads, tails)
        else:
            pairs = mention_pairs(heads, tails, self._sentence_of(), evidence)
        return [Relation(*pair, label) for pair in pairs]

    def read(
        self, field: Field, head: str, tail: str, label: str, evidence: Collection[int] = ()
    ) -> dict[Relation, None]:
        """Return the relations of a record's relation, in order; remark on one that has no mentions to connect."""
        found = self.relations(head, tail, label, evidence)
        if not found:
            missing = not self.count(head) or not self.count(tail)
            reason = "a concept has no mention" if missing else "both concepts have only the same mention"
            field.remark(f"relation between concepts left out, since {reason}")
        elif len(found) > 1:
            field.remark("relation between concepts read as one in each sentence that mentions both")
        return dict.fromkeys(found)
