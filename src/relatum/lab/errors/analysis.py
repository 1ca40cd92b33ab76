"""The whole error analysis of a system, from gold and found documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from relatum.data.fitting import split
from relatum.data.splitting import Splitter, make_splitter
from relatum.lab.errors.breakdowns import Breakdown, break_down, tally_entities, tally_relations
from relatum.lab.errors.kinds import (
    ENTITY_FAMILIES,
    ENTITY_KINDS,
    RELATION_FAMILIES,
    RELATION_KINDS,
    EntityMatch,
    RelationMatch,
    Tally,
)
from relatum.lab.errors.listing import sentence_record
from relatum.lab.errors.seen import Seen
from relatum.lab.errors.sentences import MatchedSentence, match_document
from relatum.schema import Schema
from relatum.types import Document

Confusion: TypeAlias = Mapping[tuple[str | None, str | None], int]
"""The number of matches by gold label and found label; None is the label of the side that has no item."""


@dataclass(frozen=True, slots=True)
class TaskErrors:
    """The errors of one task, and what each kind costs."""

    kinds: Mapping[str, str]
    """Every kind of error of the task, and what it means."""
    families: Mapping[str, tuple[str, ...]]
    """Kinds that one remedy would mend together."""
    total: Tally
    types: Mapping[str, Tally]
    confusion: Confusion

    def to_dict(self) -> dict[str, Any]:
        """Each kind with its counts, and each kind, family and type with the F1 if its errors were mended."""
        total = self.total
        return {
            **total.to_dict(),
            "kinds": {
                kind: {
                    "gold": total.gold[kind],
                    "found": total.found[kind],
                    "f1_if_mended": total.f1_without([kind]),
                }
                for kind in self.kinds
            },
            "families": {
                name: {"kinds": list(kinds), "f1_if_mended": total.f1_without(kinds)}
                for name, kinds in self.families.items()
            },
            "types": {label: tally.to_dict(total) for label, tally in self.types.items()},
            "confusion": [
                {"gold": gold, "found": found, "count": count} for (gold, found), count in self.confusion.items()
            ],
        }


@dataclass(frozen=True, slots=True)
class ErrorAnalysis:
    """The errors of a system; relations are judged strictly (RE+)."""

    sentences: tuple[MatchedSentence, ...]
    entities: TaskErrors
    relations: TaskErrors
    breakdowns: tuple[Breakdown, ...]

    def worst(self, n: int) -> list[MatchedSentence]:
        """Return up to `n` sentences with errors, most errors first; sentences with equally many keep their order."""
        wrong = (sentence for sentence in self.sentences if sentence.n_errors)
        return sorted(wrong, key=lambda sentence: -sentence.n_errors)[:n]

    def to_dict(self, n_worst: int = 0) -> dict[str, Any]:
        worst = {"worst": [sentence_record(sentence) for sentence in self.worst(n_worst)]} if n_worst else {}
        return {
            "sentences": len(self.sentences),
            "entities": self.entities.to_dict(),
            "relations_strict": self.relations.to_dict(),
            "breakdowns": {
                breakdown.name: breakdown.to_dict(self.entities.total, self.relations.total)
                for breakdown in self.breakdowns
            },
            **worst,
        }


def analyse(
    pairs: Iterable[tuple[Document, Document]],
    schema: Schema | None = None,
    seen: Seen | None = None,
    splitter: Splitter | None = None,
) -> ErrorAnalysis:
    """Analyse pairs of gold and found documents; both documents of a pair have the same text.

    The schema says which relation types are symmetric. With `seen`, errors are also broken down by what was seen in
    training. Gold documents without words and sentences are split, by rules if there is no splitter.
    """
    splitter = splitter or make_splitter()
    sentences = [sentence for gold, found in pairs for sentence in match_document(split(gold, splitter), found, schema)]
    return ErrorAnalysis(
        tuple(sentences), _entity_errors(sentences), _relation_errors(sentences), break_down(sentences, seen)
    )


def _entity_errors(sentences: Sequence[MatchedSentence]) -> TaskErrors:
    types = tally_entities(sentences, lambda _, entity: entity.label)
    matches = (match for sentence in sentences for match in sentence.entities)
    return TaskErrors(ENTITY_KINDS, ENTITY_FAMILIES, _sum(types.values()), types, _confusion(matches))


def _relation_errors(sentences: Sequence[MatchedSentence]) -> TaskErrors:
    types = tally_relations(sentences, lambda _, relation: relation.label)
    matches = (match for sentence in sentences for match in sentence.relations)
    return TaskErrors(RELATION_KINDS, RELATION_FAMILIES, _sum(types.values()), types, _confusion(matches))


def _sum(tallies: Iterable[Tally]) -> Tally:
    total = Tally()
    for tally in tallies:
        total.gold.update(tally.gold)
        total.found.update(tally.found)
    return total


def _confusion(matches: Iterable[EntityMatch | RelationMatch]) -> Confusion:
    counts: Counter[tuple[str | None, str | None]] = Counter()
    for match in matches:
        gold = None if match.gold is None else match.gold.label
        found = None if match.found is None else match.found.label
        counts[gold, found] += 1

    def rank(labels: tuple[str | None, str | None]) -> list[tuple[bool, str]]:
        return [(label is None, label or "") for label in labels]

    return {labels: counts[labels] for labels in sorted(counts, key=rank)}
