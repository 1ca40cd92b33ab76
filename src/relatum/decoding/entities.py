"""Entities from the probabilities of each word's tags."""

from __future__ import annotations

from relatum.decoding.probabilities import Probabilities, check_probabilities
from relatum.tagging.sequence import SequenceTags
from relatum.types import Entity


def decode_entities(probabilities: Probabilities, tags: SequenceTags) -> tuple[Entity, ...]:
    """The entities of a sentence by the likeliest tag of each word; `probabilities` has the axes (words, tags).

    Of tags that are equally likely the first is chosen. An entity's score is the mean, over its words, of the
    probabilities of the tags that were chosen for them, also where a tag is of another type than the entity.
    """
    check_probabilities("entity", probabilities, (len(probabilities), len(tags.names)))
    chosen = probabilities.argmax(axis=1)
    certainty = probabilities.max(axis=1)
    return tuple(
        Entity(found.span, found.label, score=float(certainty[found.span.start : found.span.end].mean(dtype=float)))
        for found in tags.decode(chosen.tolist())
    )
