"""Whole sentences decoded: their entities, and the relations between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from relatum.decoding.entities import Search, decode_words
from relatum.decoding.probabilities import Logits, Probabilities
from relatum.decoding.relations import Constraints, Opposite, decode_tables
from relatum.decoding.spans import SpanChoices, decode_spans
from relatum.tagging.spans import SpanTags
from relatum.tagging.tagging import Tagging
from relatum.types import Annotation, Entity


@dataclass(frozen=True, slots=True)
class DecodingOptions:
    """The choices in decoding; the defaults are those behind the published numbers."""

    opposite: Opposite = "no-relation"
    """The outcome that tags of the opposite direction vote for, as `decode_relations` explains."""
    search: Search = "rules"
    """The search for the tags of words, as `decode_entities` explains."""
    constraints: Constraints = "none"
    """The relations that are possible between two entities, as `decode_relations` explains."""
    spans: SpanChoices = field(default_factory=SpanChoices)
    """The choices in span tagging, which uses none of the others."""


def decode_sentences(
    entity_probabilities: Probabilities | Logits,
    relation_probabilities: Probabilities | Logits | None,
    lengths: Sequence[int],
    tagging: Tagging,
    options: DecodingOptions,
    entities: Sequence[tuple[Entity, ...]] | None = None,
) -> list[Annotation]:
    """Decode the entities and relations of each sentence of a batch.

    The probabilities have the axes (sentences, words, tags) and (sentences, row words, column words, tags); values
    beyond the `lengths` of the sentences are not looked at. If `entities` are given, they are returned as they are and
    only relations between them are looked for; they may be nested, overlapping or discontinuous. Without relation
    probabilities there are no relations.
    """
    cells = tagging.cells
    if isinstance(cells, SpanTags):
        assert relation_probabilities is not None  # such a model has a table
        return decode_spans(relation_probabilities, lengths, cells, options.spans, entities)
    if entities is None:
        entities = decode_words(entity_probabilities, lengths, tagging.words, options.search)
    if relation_probabilities is None:
        return [Annotation(of_sentence) for of_sentence in entities]
    relations = decode_tables(relation_probabilities, lengths, entities, cells, options.opposite, options.constraints)
    return [Annotation(*of_sentence) for of_sentence in zip(entities, relations, strict=True)]
