"""Entities from the probabilities of each word's tags."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from relatum.decoding.probabilities import Logits, Probabilities, check_sentences, check_shape, pick, values_of
from relatum.tagging.sequence import SequenceTags
from relatum.types import Entity


def decode_entities(probabilities: Probabilities | Logits, tags: SequenceTags) -> tuple[Entity, ...]:
    """The entities of a sentence by the likeliest tag of each word; `probabilities` has the axes (words, tags).

    Of tags that are equally likely the first is chosen. An entity's score is the mean, over its words, of the
    probabilities of the tags that were chosen for them, also where a tag is of another type than the entity.
    """
    values = values_of(probabilities)
    check_shape("entity", probabilities, (len(values), len(tags.names)))
    batch = values[None]
    return decode_words(Logits(batch) if isinstance(probabilities, Logits) else batch, [len(values)], tags)[0]


def decode_words(
    probabilities: Probabilities | Logits, lengths: Sequence[int], tags: SequenceTags
) -> list[tuple[Entity, ...]]:
    """The same for a batch: (sentences, words, tags), of which each sentence has so many words."""
    check_sentences("entity", probabilities, lengths, len(tags.names))
    with np.errstate(invalid="ignore"):  # of padding, which may be infinite
        found = pick(probabilities)
    # As lists: a look at one number of an array takes as long as the decoding of a word.
    chosen, certainty = found.argmax(-1).tolist(), found.max(-1).tolist()
    return [
        tuple(
            Entity(span, label, score=sum(certain[span.start : span.end]) / span.width)
            for span, label in tags.read(row[:length])
        )
        for row, certain, length in zip(chosen, certainty, lengths, strict=True)
    ]
