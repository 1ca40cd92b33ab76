"""The tagging of a model: annotations as tags of words and of cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from relatum.config import TaggingConfig
from relatum.schema import Schema
from relatum.tagging.sequence import LostEntity, SequenceTags
from relatum.tagging.spans import SpanTags
from relatum.tagging.table import Cell, LostRelation, TableTags
from relatum.types import Annotation, Relation


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """The tags of a sentence, and the annotations that they do not express."""

    word_tags: tuple[int, ...]
    """The index of the tag of each word."""
    cell_tags: dict[Cell, tuple[int, ...]]
    """The indices of the tags of cells: one for each cell of `TableTags`, any number for those of `SpanTags`.

    Cells that are not named have the tag 0, no relation, of `TableTags`, and no tag of `SpanTags`.
    """
    lost_entities: tuple[LostEntity, ...]
    lost_relations: tuple[LostRelation, ...]
    gained_relations: tuple[Relation, ...]
    """Relations that the tags express beside the annotated ones, between entities that share words."""


@dataclass(frozen=True, slots=True)
class Expressible:
    """The part of an annotation that tags express, and the rest."""

    annotation: Annotation
    lost_entities: tuple[LostEntity, ...]
    lost_relations: tuple[LostRelation, ...]
    gained_relations: tuple[Relation, ...]


@dataclass(frozen=True, slots=True)
class Tagging:
    """The tags of words and the tags of cells.

    In the paper's tagging, tags of words express entities and tags of cells express relations. In span tagging, tags of
    cells express both; the tags of words are learned beside them, as far as they can express the entities, and nothing
    is decoded from them.

    Everything outside `tagging` and `decoding` holds this one object.
    """

    schema: Schema
    words: SequenceTags
    cells: TableTags | SpanTags

    @classmethod
    def of(cls, schema: Schema, settings: TaggingConfig) -> Tagging:
        """Return the tagging that the settings describe, for the labels of a schema."""
        words = SequenceTags(schema, settings.scheme)
        if settings.kind == "spans":
            return cls(schema, words, SpanTags(schema))
        cells = TableTags(schema, settings.fill, settings.cells, settings.directed, settings.conflicts)
        return cls(schema, words, cells)

    @property
    def has_tag_sets(self) -> bool:
        """True if a cell has any number of tags, each with a probability of its own."""
        return isinstance(self.cells, SpanTags)

    def encode(self, annotation: Annotation, n_words: int) -> TaggedSentence:
        """Return the tags of a sentence of `n_words` words."""
        words = self.words.encode(annotation.entities, n_words)
        if isinstance(self.cells, SpanTags):
            spans = self.cells.encode(annotation, n_words)
            return TaggedSentence(
                words.tags, dict(spans.cells), spans.lost_entities, spans.lost_relations, spans.gained
            )
        cells = self.cells.encode(annotation, n_words)
        tags: dict[Cell, tuple[int, ...]] = {cell: (tag,) for cell, tag in cells.cells.items()}
        return TaggedSentence(words.tags, tags, words.lost, cells.lost, cells.gained)

    def fill_mask(self, n_words: int) -> NDArray[np.bool_]:
        """Return (words, words): true in the cells that have a tag."""
        if isinstance(self.cells, SpanTags):
            return np.ones((n_words, n_words), dtype=bool)
        return self.cells.fill_mask(n_words)

    def find_expressible(self, annotation: Annotation, n_words: int) -> Annotation:
        """Return the entities and relations of an annotation that the tags express; unknown types are left out."""
        return self.express(self.schema.restrict(annotation), n_words).annotation

    def express(self, annotation: Annotation, n_words: int) -> Expressible:
        """Divide an annotation into the entities and relations that the tags express, and all others."""
        lost_entities = self.encode(Annotation(annotation.entities), n_words).lost_entities
        lost = {one.entity for one in lost_entities}
        entities = tuple(entity for entity in annotation.entities if entity not in lost)
        tagged = self.encode(Annotation(entities, annotation.relations), n_words)
        lost_relations = {one.relation for one in tagged.lost_relations}
        relations = tuple(relation for relation in annotation.relations if relation not in lost_relations)
        found = Annotation(entities, relations)
        return Expressible(found, lost_entities, tagged.lost_relations, tagged.gained_relations)
