"""Sentences in pieces, and the pooling of their features, as the compiled encoder takes them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from relatum.config import EncoderConfig
from relatum.encoders.cutting import CutSentence
from relatum.kernels.encoder.cpu import PoolingOptions


def locate_words(sentences: Iterable[CutSentence]) -> tuple[list[list[int]], list[list[int]]]:
    """Return the pieces of each sentence, and where its words begin in them, with the end of the last one."""
    pieces, starts = [], []
    for sentence in sentences:
        pieces.append(sentence.pieces)
        starts.append(list(accumulate(map(len, sentence.words), initial=len(sentence.prefix))))
    return pieces, starts


def pooling_options(config: EncoderConfig, want_maps: bool) -> PoolingOptions:
    """Return the pooling that the settings of an encoder describe."""
    return PoolingOptions(
        n_kept=0 if config.mixing == "learned" else config.n_layers,
        first_piece=config.pooling == "first",
        mean_attention=config.attention_pooling == "mean",
        want_maps=want_maps,
    )
