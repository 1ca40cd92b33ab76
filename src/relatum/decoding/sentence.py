"""A whole sentence decoded: its entities, and the relations between them."""

from __future__ import annotations

from relatum.decoding.entities import decode_entities
from relatum.decoding.probabilities import Logits, Probabilities
from relatum.decoding.relations import Opposite, decode_relations
from relatum.tagging.sequence import SequenceTags
from relatum.tagging.table import TableTags
from relatum.types import Annotation, Entity


def decode_sentence(
    entity_probabilities: Probabilities | Logits,
    relation_probabilities: Probabilities | Logits | None,
    sequence_tags: SequenceTags,
    table_tags: TableTags,
    opposite: Opposite,
    entities: tuple[Entity, ...] | None = None,
) -> Annotation:
    """What a sentence says, from the probabilities (words, tags) and (words, words, tags) of its real words.

    Where `entities` are given, they are returned as they are and only relations are looked for, between them; they may
    be nested, overlapping or discontinuous. Without relation probabilities there are no relations.
    """
    found = entities
    if found is None:
        if isinstance(entity_probabilities, Logits):
            entity_probabilities = entity_probabilities.probabilities()
        found = decode_entities(entity_probabilities, sequence_tags)
    if relation_probabilities is None:
        return Annotation(found)
    return Annotation(found, decode_relations(relation_probabilities, found, table_tags, opposite))
