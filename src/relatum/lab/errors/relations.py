"""Matching of found relations with gold relations, and the kind of error of each match.

Relations are judged strictly (RE+). Every gold and every found relation is in one match, the first of these that it
fits:

1. label, spans and types of both arguments agree: right;
2. label and spans agree: the type of an argument is wrong;
3. they agree with head and tail swapped: the direction is wrong;
4. the spans agree, in this order or the other: the label is wrong;
5. the label agrees, and each argument is the gold one or matched with it: the boundaries of an argument are wrong.

The error of a relation that is left is named after its worse argument. For a gold relation: an argument was not found,
or it was found with wrong boundaries, or with a wrong type; the relation is "missed" if both arguments are right. For a
found relation: an argument is not in gold, or has wrong boundaries, or a wrong type; the relation is "spurious" if both
arguments are right.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TypeAlias

from relatum.lab.errors.entities import (
    Boundaries,
    boundaries,
    match_entities,
    place,
    remove_pairs,
    take_pairs,
)
from relatum.lab.errors.kinds import RelationKind, RelationMatch
from relatum.schema import Schema
from relatum.types import Annotation, Entity, Relation

_Ends: TypeAlias = tuple[Boundaries, Boundaries]

# By the state of the worse argument, from right to not found.
_GOLD_FAULTS: tuple[RelationKind, ...] = ("missed", "argument_type", "argument_boundary", "argument_missed")
_FOUND_FAULTS: tuple[RelationKind, ...] = ("spurious", "argument_type", "argument_boundary", "argument_spurious")


def match_relations(gold: Annotation, found: Annotation, schema: Schema | None = None) -> list[RelationMatch]:
    """Match the relations of one text, in the order of the text; the schema says which labels are symmetric."""
    wanted = _distinct(gold.relations, schema)
    given = _distinct(found.relations, schema)
    if not wanted and not given:
        return []
    matches = [RelationMatch("right", *pair) for pair in take_pairs(wanted, given, _itself, _itself)]
    matches += [RelationMatch("argument_type", *pair) for pair in take_pairs(wanted, given, _labelled, _labelled)]
    matches += [RelationMatch("direction", *pair) for pair in take_pairs(wanted, given, _labelled, _labelled_swapped)]
    for turned in (_ends, _swapped):
        matches += [RelationMatch("label", *pair) for pair in take_pairs(wanted, given, _ends, turned)]
    arguments = _Arguments(gold, found)
    matches += [RelationMatch("argument_boundary", *pair) for pair in _take_shifted(wanted, given, arguments, schema)]
    matches += [RelationMatch(arguments.fault_of_gold(relation), relation, None) for relation in wanted]
    matches += [RelationMatch(arguments.fault_of_found(relation), None, relation) for relation in given]
    return sorted(matches, key=_where)


class _Arguments:
    """The mentions of gold and of found, each right or wrong; the ends of relations need not be among the entities."""

    def __init__(self, gold: Annotation, found: Annotation) -> None:
        gold_mentions, found_mentions = _mentions(gold), _mentions(found)
        self._pairs = {
            (boundaries(match.gold), boundaries(match.found))
            for match in match_entities(gold_mentions, found_mentions)
            if match.gold is not None and match.found is not None
        }
        self._gold = _states(gold_mentions, found_mentions, {gold_span for gold_span, _ in self._pairs})
        self._found = _states(found_mentions, gold_mentions, {found_span for _, found_span in self._pairs})

    def are_matched(self, gold: Entity, found: Entity) -> bool:
        gold_span, found_span = boundaries(gold), boundaries(found)
        return gold_span == found_span or (gold_span, found_span) in self._pairs

    def fault_of_gold(self, relation: Relation) -> RelationKind:
        return _GOLD_FAULTS[max(self._gold[relation.head], self._gold[relation.tail])]

    def fault_of_found(self, relation: Relation) -> RelationKind:
        return _FOUND_FAULTS[max(self._found[relation.head], self._found[relation.tail])]


def _states(mentions: Set[Entity], others: Set[Entity], matched: Set[Boundaries]) -> dict[Entity, int]:
    """Return the state of each mention.

    0 if it is right, 1 if only its span is right, 2 if it is matched with a mention of another span, 3 if unmatched.
    """
    spans = set(map(boundaries, others))
    states = {}
    for mention in mentions:
        span = boundaries(mention)
        conditions = (mention in others, span in spans, span in matched, True)
        states[mention] = conditions.index(True)
    return states


def _take_shifted(
    gold: list[Relation], found: list[Relation], arguments: _Arguments, schema: Schema | None
) -> list[tuple[Relation, Relation]]:
    pairs: list[tuple[Relation, Relation]] = []
    left = list(found)
    for gold_relation in gold:
        for found_relation in left:
            if gold_relation.label == found_relation.label and _are_shifted(
                gold_relation, found_relation, arguments, schema
            ):
                pairs.append((gold_relation, found_relation))
                left.remove(found_relation)
                break
    remove_pairs(gold, found, pairs)
    return pairs


def _are_shifted(gold: Relation, found: Relation, arguments: _Arguments, schema: Schema | None) -> bool:
    orders = [(found.head, found.tail)]
    if schema is not None and schema.is_symmetric(found.label):
        orders.append((found.tail, found.head))
    return any(
        arguments.are_matched(gold.head, head) and arguments.are_matched(gold.tail, tail) for head, tail in orders
    )


def _mentions(annotation: Annotation) -> set[Entity]:
    ends = (end for relation in annotation.relations for end in (relation.head, relation.tail))
    return {*annotation.entities, *ends}


def _distinct(relations: Iterable[Relation], schema: Schema | None) -> list[Relation]:
    """Return the relations in order, each once; the head of a symmetric relation is the end that comes first."""
    turned = {
        Relation(relation.tail, relation.head, relation.label, relation.score, relation.id)
        if schema is not None and schema.is_symmetric(relation.label) and place(relation.tail) < place(relation.head)
        else relation
        for relation in relations
    }
    return sorted(turned, key=_order)


def _itself(relation: Relation) -> Relation:
    return relation


def _ends(relation: Relation) -> _Ends:
    return boundaries(relation.head), boundaries(relation.tail)


def _swapped(relation: Relation) -> _Ends:
    return boundaries(relation.tail), boundaries(relation.head)


def _labelled(relation: Relation) -> tuple[str, _Ends]:
    return relation.label, _ends(relation)


def _labelled_swapped(relation: Relation) -> tuple[str, _Ends]:
    return relation.label, _swapped(relation)


def _order(relation: Relation) -> tuple[object, ...]:
    return place(relation.head), place(relation.tail), relation.label


def _where(match: RelationMatch) -> tuple[object, ...]:
    relation = match.gold or match.found
    assert relation is not None
    return *_order(relation), match.gold is None
