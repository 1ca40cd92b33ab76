"""Errors grouped by properties of the sentence, the entity or the relation.

A gold item is counted in the group that it belongs to, and so is a found item; if the found item is right, both groups
are the same. The properties of sentences (length, number of entities) are taken from gold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from relatum.lab.errors.bins import Bins, equal_bins, single_bins
from relatum.lab.errors.kinds import Tally
from relatum.lab.errors.seen import ENTITY_GROUPS, RELATION_GROUPS, Seen
from relatum.lab.errors.sentences import MatchedSentence
from relatum.types import Entity, Relation

EntityGroup: TypeAlias = Callable[[MatchedSentence, Entity], str]
RelationGroup: TypeAlias = Callable[[MatchedSentence, Relation], str]
_Item = TypeVar("_Item")


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The errors of each group by the group's name, in order; empty for a task that is not grouped in this way.

    Empty groups are left out.
    """

    name: str
    title: str
    entities: Mapping[str, Tally]
    relations: Mapping[str, Tally]

    def to_dict(self, entities: Tally, relations: Tally) -> dict[str, Any]:
        """Return the groups of each task that is grouped, as parts of the task's total."""
        tasks = {}
        if self.entities:
            tasks["entities"] = {name: tally.to_dict(entities) for name, tally in self.entities.items()}
        if self.relations:
            tasks["relations_strict"] = {name: tally.to_dict(relations) for name, tally in self.relations.items()}
        return tasks


def break_down(sentences: Sequence[MatchedSentence], seen: Seen | None = None) -> tuple[Breakdown, ...]:
    """Make all breakdowns except the one by type; the breakdowns by what was seen in training need `seen`."""
    length = equal_bins(len(sentence.words) for sentence in sentences)
    distance = equal_bins(
        sentence.distance(match.gold) for sentence in sentences for match in sentence.relations if match.gold
    )
    width = single_bins(1, 4)

    def by_width(sentence: MatchedSentence, entity: Entity) -> str:
        return width.group(len(sentence.words_of(entity)))

    def by_distance(sentence: MatchedSentence, relation: Relation) -> str:
        return distance.group(sentence.distance(relation))

    return (
        _by_sentence(sentences, "length", "Words of the sentence", length, lambda sentence: len(sentence.words)),
        _by_sentence(
            sentences, "n_entities", "Gold entities in the sentence", single_bins(0, 6), lambda s: s.n_gold_entities
        ),
        _by_sentence(
            sentences, "n_relations", "Gold relations in the sentence", single_bins(0, 4), lambda s: s.n_gold_relations
        ),
        Breakdown("width", "Words of the entity", tally_entities(sentences, by_width, width.names), {}),
        Breakdown(
            "distance", "Words between the arguments", {}, tally_relations(sentences, by_distance, distance.names)
        ),
        *([] if seen is None else _by_seen(sentences, seen)),
    )


def tally_entities(
    sentences: Iterable[MatchedSentence], group: EntityGroup, order: Sequence[str] | None = None
) -> dict[str, Tally]:
    """Count the errors of entities by group, in the given order, or sorted by name."""
    matches = ((sentence, match.kind, match.gold, match.found) for sentence in sentences for match in sentence.entities)
    return _tally(matches, group, order)


def tally_relations(
    sentences: Iterable[MatchedSentence], group: RelationGroup, order: Sequence[str] | None = None
) -> dict[str, Tally]:
    """Count the errors of relations by group, in the given order, or sorted by name."""
    matches = (
        (sentence, match.kind, match.gold, match.found) for sentence in sentences for match in sentence.relations
    )
    return _tally(matches, group, order)


def _tally(
    matches: Iterable[tuple[MatchedSentence, str, _Item | None, _Item | None]],
    group: Callable[[MatchedSentence, _Item], str],
    order: Sequence[str] | None,
) -> dict[str, Tally]:
    tallies: defaultdict[str, Tally] = defaultdict(Tally)
    for sentence, kind, gold, found in matches:
        if gold is not None:
            tallies[group(sentence, gold)].gold[kind] += 1
        if found is not None:
            tallies[group(sentence, found)].found[kind] += 1
    return {name: tallies[name] for name in (sorted(tallies) if order is None else order) if name in tallies}


def _by_sentence(
    sentences: Sequence[MatchedSentence], name: str, title: str, bins: Bins, value: Callable[[MatchedSentence], int]
) -> Breakdown:
    def group(sentence: MatchedSentence, _: object) -> str:
        return bins.group(value(sentence))

    entities = tally_entities(sentences, group, bins.names)
    relations = tally_relations(sentences, group, bins.names)
    return Breakdown(name, title, entities, relations)


def _by_seen(sentences: Sequence[MatchedSentence], seen: Seen) -> tuple[Breakdown, Breakdown]:
    def of_entity(sentence: MatchedSentence, entity: Entity) -> str:
        return seen.entity_group(sentence.words_of(entity), entity.label)

    def of_relation(sentence: MatchedSentence, relation: Relation) -> str:
        return seen.relation_group(sentence.words_of(relation.head), sentence.words_of(relation.tail))

    return (
        Breakdown("seen", "Entity seen in training", tally_entities(sentences, of_entity, ENTITY_GROUPS), {}),
        Breakdown(
            "arguments_seen",
            "Arguments seen in training, as entities",
            {},
            tally_relations(sentences, of_relation, RELATION_GROUPS),
        ),
    )
