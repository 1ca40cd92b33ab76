"""Matching of found entities with gold entities, and the kind of error of each match.

Every gold and every found entity is in one match, the first of these that it fits:

1. the same span and type: right;
2. the same span, another type: a wrong type;
3. spans that overlap: wrong boundaries. The pairs that share most are matched first (characters of both over characters
   of either), then pairs of the same type, then pairs that come first in the text;
4. gold entities that are left are missed, found entities that are left are spurious.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from itertools import product
from typing import TypeAlias, TypeVar

from relatum.lab.errors.kinds import EntityKind, EntityMatch
from relatum.types import Entity, Span

Boundaries: TypeAlias = tuple[Span, tuple[Span, ...]]

_Item = TypeVar("_Item")


def match_entities(gold: Iterable[Entity], found: Iterable[Entity]) -> list[EntityMatch]:
    """Match the entities of one text, in the order of the text; duplicates count once."""
    wanted = sorted(set(gold), key=place)
    given = sorted(set(found), key=place)
    matches = [EntityMatch("right", *pair) for pair in take_pairs(wanted, given, _itself, _itself)]
    matches += [EntityMatch("type", *pair) for pair in take_pairs(wanted, given, boundaries, boundaries)]
    for gold_entity, found_entity in _take_overlapping(wanted, given):
        kind: EntityKind = "boundary" if gold_entity.label == found_entity.label else "boundary_and_type"
        matches.append(EntityMatch(kind, gold_entity, found_entity))
    matches += [EntityMatch("missed", entity, None) for entity in wanted]
    matches += [EntityMatch("spurious", None, entity) for entity in given]
    return sorted(matches, key=_where)


def boundaries(entity: Entity) -> Boundaries:
    return entity.span, entity.fragments


def place(entity: Entity) -> tuple[Span, tuple[Span, ...], str]:
    """Return the key by which entities are sorted."""
    return entity.span, entity.fragments, entity.label


def take_pairs(
    gold: list[_Item],
    found: list[_Item],
    gold_key: Callable[[_Item], Hashable],
    found_key: Callable[[_Item], Hashable],
) -> list[tuple[_Item, _Item]]:
    """Remove items of equal keys from both lists and return them as pairs, the first with the first."""
    waiting: defaultdict[Hashable, list[_Item]] = defaultdict(list)
    for item in reversed(found):
        waiting[found_key(item)].append(item)
    pairs = [(item, same.pop()) for item in gold if (same := waiting.get(gold_key(item)))]
    remove_pairs(gold, found, pairs)
    return pairs


def remove_pairs(gold: list[_Item], found: list[_Item], pairs: Iterable[tuple[_Item, _Item]]) -> None:
    """Remove the items of the pairs from both lists."""
    paired_gold = {gold_item for gold_item, _ in pairs}
    paired_found = {found_item for _, found_item in pairs}
    gold[:] = [item for item in gold if item not in paired_gold]
    found[:] = [item for item in found if item not in paired_found]


def _take_overlapping(gold: list[Entity], found: list[Entity]) -> list[tuple[Entity, Entity]]:
    candidates = []
    for gold_entity, found_entity in product(gold, found):
        share = _share(gold_entity, found_entity)
        if share:
            differ = gold_entity.label != found_entity.label
            rank = (-share, differ, place(gold_entity), place(found_entity))
            candidates.append((rank, gold_entity, found_entity))
    pairs: list[tuple[Entity, Entity]] = []
    taken_gold: set[Entity] = set()
    taken_found: set[Entity] = set()
    for _, gold_entity, found_entity in sorted(candidates, key=lambda candidate: candidate[0]):
        if gold_entity not in taken_gold and found_entity not in taken_found:
            taken_gold.add(gold_entity)
            taken_found.add(found_entity)
            pairs.append((gold_entity, found_entity))
    remove_pairs(gold, found, pairs)
    return pairs


def _share(gold: Entity, found: Entity) -> float:
    """Return the number of characters in both entities over the number in either."""
    if not gold.span.overlaps(found.span):
        return 0.0
    n_both = 0
    for gold_piece, found_piece in product(gold.pieces(), found.pieces()):
        start = max(gold_piece.start, found_piece.start)
        end = min(gold_piece.end, found_piece.end)
        n_both += max(0, end - start)
    n_gold = sum(piece.width for piece in gold.pieces())
    n_found = sum(piece.width for piece in found.pieces())
    return n_both / (n_gold + n_found - n_both)


def _itself(entity: Entity) -> Entity:
    return entity


def _where(match: EntityMatch) -> tuple[object, ...]:
    entity = match.gold or match.found
    assert entity is not None
    return place(entity), match.gold is None
