"""Training sentences with words hidden from the encoder, so that the network learns not to lean on any one word."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from relatum.config import Config
from relatum.encoders.base import Word


def hide_words(words: Sequence[str], reading: int, config: Config) -> Sequence[Word]:
    """A sentence as the encoder is given it in one of its readings; in the first, which is 0, all words are there.

    Which words are hidden in the others is drawn by the seed, the number of the reading and the sentence, and by
    nothing else: a run that goes on finds the readings of before.
    """
    if not reading:
        return words
    draw = Random(f"{config.training.seed} {reading} {' '.join(words)}")
    return [None if draw.random() < config.encoder.masking else word for word in words]
