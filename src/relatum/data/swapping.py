"""More training sentences from those there are: entities change places with others of their type."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from relatum.types import Annotation, Entity, Example, Relation, Sentence, Span

_Mentions = Mapping[str, Sequence[tuple[str, ...]]]
"""The words of all entities of a type; those that are seen often stand there often."""


def swap_entities(examples: Sequence[Example], n_copies: int, share: float, seed: int) -> list[Example]:
    """Copies of the examples in which a share of the entities have the words of others with the same label.

    What is said of the entities stays as it is: a model learns from the copies that it hangs on the words around them
    more than on the names. Sentences without entities, and those whose entities overlap or have gaps, are not copied.
    """
    rng = random.Random(seed)
    mentions: dict[str, list[tuple[str, ...]]] = {}
    for example in examples:
        for entity in example.gold.entities:
            mentions.setdefault(entity.label, []).append(example.sentence.words[slice(*entity.span)])
    fit = [example for example in examples if _has_flat_entities(example.gold)]
    return [_swap(example, mentions, share, rng) for _ in range(n_copies) for example in fit]


def _has_flat_entities(gold: Annotation) -> bool:
    ordered = sorted(gold.entities, key=lambda entity: entity.span)
    apart = all(before.span.end <= after.span.start for before, after in pairwise(ordered))
    return bool(ordered) and apart and not any(entity.fragments for entity in ordered)


def _swap(example: Example, mentions: _Mentions, share: float, rng: random.Random) -> Example:
    old, words, place = example.sentence.words, list[str](), 0
    moved: dict[Entity, Entity] = {}
    for entity in sorted(example.gold.entities, key=lambda entity: entity.span):
        words += old[place : entity.span.start]
        place = entity.span.end
        taken = rng.choice(mentions[entity.label]) if rng.random() < share else old[slice(*entity.span)]
        moved[entity] = replace(entity, span=Span(len(words), len(words) + len(taken)))
        words += taken
    words += old[place:]
    relations = tuple(
        Relation(moved[one.head], moved[one.tail], one.label, one.score, one.id) for one in example.gold.relations
    )
    entities = tuple(moved[entity] for entity in example.gold.entities)
    return replace(example, sentence=Sentence(tuple(words)), gold=Annotation(entities, relations))
