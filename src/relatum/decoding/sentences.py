"""Whole sentences decoded: their entities, and the relations between them."""

from __future__ import annotations

from collections.abc import Sequence

from relatum.decoding.entities import Search, decode_words
from relatum.decoding.probabilities import Logits, Probabilities
from relatum.decoding.relations import Constraints, Opposite, decode_tables
from relatum.tagging.sequence import SequenceTags
from relatum.tagging.table import TableTags
from relatum.types import Annotation, Entity


def decode_sentences(
    entity_probabilities: Probabilities | Logits,
    relation_probabilities: Probabilities | Logits | None,
    lengths: Sequence[int],
    sequence_tags: SequenceTags,
    table_tags: TableTags,
    opposite: Opposite,
    entities: Sequence[tuple[Entity, ...]] | None = None,
    *,
    search: Search = "rules",
    constraints: Constraints = "none",
) -> list[Annotation]:
    """Decode the entities and relations of each sentence of a batch.

    The probabilities have the axes (sentences, words, tags) and (sentences, row words, column words, tags); values
    beyond the `lengths` of the sentences are not looked at. If `entities` are given, they are returned as they are and
    only relations between them are looked for; they may be nested, overlapping or discontinuous. Without relation
    probabilities there are no relations. `search` is passed to `decode_words`; `opposite` and `constraints` mean the
    same as in `decode_relations`.
    """
    found = decode_words(entity_probabilities, lengths, sequence_tags, search) if entities is None else entities
    if relation_probabilities is None:
        return [Annotation(one) for one in found]
    relations = decode_tables(relation_probabilities, lengths, found, table_tags, opposite, constraints)
    return [Annotation(one, related) for one, related in zip(found, relations, strict=True)]
