"""Sentences with their gold and found annotations matched.

Gold and found items are matched over a whole document, as they are scored. A match belongs to the sentence in which its
gold item begins, or its found item if it has no gold item; a relation begins with its head.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from relatum.data.documents import WordIndex, join_examples, sentence_ids_of, split_parts
from relatum.lab.errors.entities import match_entities
from relatum.lab.errors.kinds import EntityMatch, RelationMatch
from relatum.lab.errors.relations import match_relations
from relatum.schema import Schema
from relatum.types import Document, Entity, Example, Prediction, Relation, Span


@dataclass(frozen=True, slots=True)
class MatchedSentence:
    """One sentence of a document, with the matches that belong to it; all spans count characters of the document."""

    id: str
    document: Document
    index: WordIndex
    words: tuple[Span, ...]
    entities: tuple[EntityMatch, ...]
    relations: tuple[RelationMatch, ...]

    @property
    def text(self) -> str:
        return self.document.text[self.words[0].start : self.words[-1].end] if self.words else ""

    @property
    def n_gold_entities(self) -> int:
        return sum(match.gold is not None for match in self.entities)

    @property
    def n_gold_relations(self) -> int:
        return sum(match.gold is not None for match in self.relations)

    @property
    def n_errors(self) -> int:
        """The number of wrong matches of both tasks: a found item and the gold item matched with it are one error."""
        wrong_entities = sum(match.kind != "right" for match in self.entities)
        return wrong_entities + sum(match.kind != "right" for match in self.relations)

    def words_of(self, entity: Entity) -> tuple[str, ...]:
        """Return the casefolded words that the entity has a character of."""
        return words_under(self.document, self.index, entity)

    def distance(self, relation: Relation) -> int:
        """Return the number of words between the arguments; 0 if they touch or overlap."""
        head, tail = (self.index.touching(end.span) for end in (relation.head, relation.tail))
        if head is None or tail is None:
            return 0
        return max(0, tail.start - head.end, head.start - tail.end)


def words_under(document: Document, index: WordIndex, entity: Entity) -> tuple[str, ...]:
    """Return the casefolded words of a document that an entity has a character of."""
    words, _ = split_parts(document)
    ranges = (index.touching(piece) for piece in entity.pieces())
    return tuple(
        word.of(document.text).casefold() for under in ranges if under for word in words[under.start : under.end]
    )


def pair_examples(examples: Sequence[Example], predictions: Sequence[Prediction]) -> list[tuple[Document, Document]]:
    """Return sentences and predictions as pairs of gold and found documents."""
    return join_examples(examples, [prediction.found for prediction in predictions])


def match_document(gold: Document, found: Document, schema: Schema | None = None) -> list[MatchedSentence]:
    """Match the items of a document and return them by sentence.

    Gold must have been split into sentences; found must have the text of gold and count its characters.
    """
    words, sentences = split_parts(gold)
    index = WordIndex(words)
    borders = [words[sentence.start].start for sentence in sentences[1:]]
    entities: list[list[EntityMatch]] = [[] for _ in range(len(borders) + 1)]
    relations: list[list[RelationMatch]] = [[] for _ in range(len(borders) + 1)]
    for of_entity in match_entities(gold.annotation.entities, found.annotation.entities):
        entities[bisect_right(borders, _entity_start(of_entity))].append(of_entity)
    for of_relation in match_relations(gold.annotation, found.annotation, schema):
        relations[bisect_right(borders, _relation_start(of_relation))].append(of_relation)
    if sentences:
        names = sentence_ids_of(gold)
        ranges = [words[sentence.start : sentence.end] for sentence in sentences]
    else:  # a document without words has no sentence; what was annotated in it counts all the same
        names = [gold.id]
        ranges = [()]
    return [
        MatchedSentence(name, gold, index, inside, tuple(entities[number]), tuple(relations[number]))
        for number, (name, inside) in enumerate(zip(names, ranges, strict=True))
    ]


def _entity_start(match: EntityMatch) -> int:
    entity = match.gold or match.found
    assert entity is not None
    return entity.span.start


def _relation_start(match: RelationMatch) -> int:
    relation = match.gold or match.found
    assert relation is not None
    return relation.head.span.start
