"""Entities from the probabilities of each word's tags."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import lru_cache
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from relatum.decoding.probabilities import Logits, Probabilities, check_sentences, check_shape, pick, values_of
from relatum.tagging.sequence import SequenceTags
from relatum.types import Entity

Search = Literal["rules", "viterbi"]


def decode_entities(
    probabilities: Probabilities | Logits, tags: SequenceTags, search: Search = "rules"
) -> tuple[Entity, ...]:
    """Decode the entities of a sentence by the likeliest tag of each word; `probabilities` has the axes (words, tags).

    If tags are equally likely, the first is chosen. An entity's score is the mean, over its words, of the
    probabilities of the tags that were chosen for them, also where a tag is of another type than the entity.

    With `search="viterbi"` the tags form the likeliest sequence that `SequenceTags.may_follow` allows, so that a word
    may get another tag than its likeliest; if the likeliest tags form an allowed sequence, they are chosen.
    """
    values = values_of(probabilities)
    check_shape("entity", probabilities, (len(values), len(tags.names)))
    batch = values[None]
    return decode_words(Logits(batch) if isinstance(probabilities, Logits) else batch, [len(values)], tags, search)[0]


def decode_words(
    probabilities: Probabilities | Logits, lengths: Sequence[int], tags: SequenceTags, search: Search = "rules"
) -> list[tuple[Entity, ...]]:
    """Decode the entities of a batch as `decode_entities` does.

    `probabilities` has the axes (sentences, words, tags); `lengths` has the number of words of each sentence.
    """
    is_finite = check_sentences("entity", probabilities, lengths, len(tags.names))
    with nullcontext() if is_finite else np.errstate(invalid="ignore"):  # of padding, which may be infinite
        probable = pick(probabilities)
    best = probable.argmax(-1)
    if search == "viterbi":
        best = _mend(best, probable, np.array(lengths, dtype=np.intp), _transitions(tags))
        certain_of = np.take_along_axis(probable, best[..., None], -1)[..., 0]
    else:
        certain_of = np.maximum.reduce(probable, -1)
    # As lists: a look at one number of an array takes as long as the decoding of a word.
    chosen, certainty = best.tolist(), certain_of.tolist()
    sentences = []
    for row, certain, length in zip(chosen, certainty, lengths, strict=True):
        entities = [
            Entity(span, label, score=sum(certain[span.start : span.end]) / span.width)
            for span, label in tags.read(row[:length])
        ]
        sentences.append(tuple(entities))
    return sentences


@lru_cache(maxsize=64)
def _transitions(tags: SequenceTags) -> NDArray[np.bool_]:
    """Return (tags, tags): True if the second tag may follow the first."""
    n_tags = len(tags.names)
    may_follow = np.empty((n_tags, n_tags), dtype=np.bool_)
    for before, after in product(range(n_tags), repeat=2):
        may_follow[before, after] = tags.may_follow(before, after)
    return may_follow


def _mend(
    best: NDArray[np.intp], probable: NDArray[np.float64], lengths: NDArray[np.intp], may_follow: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """Replace the likeliest tags by the likeliest allowed sequence in sentences where they are not allowed together."""
    beyond = np.arange(best.shape[1] + 1) >= lengths[:, None]
    padded = np.where(beyond, 0, np.pad(best, ((0, 0), (0, 1))))
    before = np.pad(padded, ((0, 0), (1, 0)))[:, :-1]
    rows = (~may_follow[before, padded]).any(1).nonzero()[0]
    if not len(rows):
        return best
    mended = best.copy()
    mended[rows] = _best_paths(probable[rows], beyond[rows], may_follow)
    return mended


def _best_paths(
    probable: NDArray[np.float64], beyond: NDArray[np.bool_], may_follow: NDArray[np.bool_]
) -> NDArray[np.intp]:
    """Return (sentences, words): the likeliest allowed sequence of tags; all sentences advance word by word together.

    Beyond its end a sentence stays outside of all entities, which ends the last entity and costs nothing.
    """
    n_sentences, n_words, n_tags = probable.shape
    steps = np.log(np.maximum(probable, np.finfo(np.float64).tiny))
    steps = np.pad(steps, ((0, 0), (0, 1), (0, 0)))
    steps[beyond] = -np.inf
    steps[beyond, 0] = 0
    passage = np.where(may_follow, 0, -np.inf)
    came_from = np.empty((n_words + 1, n_sentences, n_tags), dtype=np.intp)
    reached = np.full((n_sentences, n_tags), -np.inf)
    reached[:, 0] = 0
    for word in range(n_words + 1):
        ways = reached[:, :, None] + passage
        came_from[word] = ways.argmax(1)
        reached = ways.max(1) + steps[:, word]
    tags = np.zeros((n_sentences, n_words + 1), dtype=np.intp)
    for word in range(n_words, 0, -1):
        tags[:, word - 1] = came_from[word, np.arange(n_sentences), tags[:, word]]
    return tags[:, :-1]
