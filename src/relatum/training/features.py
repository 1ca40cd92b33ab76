"""The encoder's features of all sentences, computed once, before the first update."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from relatum.config import Config
from relatum.data.batching import make_batches
from relatum.data.windows import make_passage_windows
from relatum.encoders.base import TextEncoder
from relatum.encoders.cache import CachedEncoder
from relatum.models.model import Model
from relatum.runtime.native.encoder import with_native_encoder
from relatum.training.batches import make_input
from relatum.types import Example

_FLOAT = 4
"""Bytes of a number."""
_SILENCE = 60.0
"""The most seconds of reading without a message on its progress."""


def with_memory(model: Model, learned: Sequence[Example], scored: Sequence[Example] = ()) -> Model:
    """Return the model with an encoder that caches its features, as the settings say, unless the encoder is tuned.

    On a GPU that has room for the features of all examples, they stay there: copying them for every batch takes longer
    than computing with them.
    """
    model = with_native_encoder(model)
    if model.encoder is None or model.encoder.trained is not None:
        return model
    config, device = model.config.encoder, model.device
    keep_on = torch.device("cpu")
    if config.cache == "memory" and device.type == "cuda":
        room = torch.cuda.mem_get_info(device)[0] // 2
        lengths = [*(len(example.sentence) for example in learned), *_scored_lengths(scored, model.config)]
        if _size(model.encoder, lengths) < room:
            keep_on = device
    return replace(model, encoder=CachedEncoder(model.encoder, config, keep_on=keep_on).to(device))


def _scored_lengths(examples: Sequence[Example], config: Config) -> list[int]:
    """Return the lengths of examples that are scored; long passages count as the windows in which they are read."""
    extraction = config.extraction
    overlap = min(extraction.overlap, extraction.max_words // 2)
    lengths: list[int] = []
    for example in examples:
        n_words, starts = len(example.sentence), example.sentence.starts
        if starts:
            windows = make_passage_windows([1] * n_words, starts, None, extraction.max_words, overlap)
            lengths += [window.width for window in windows]
        else:
            lengths.append(n_words)
    return lengths


def read_ahead(
    model: Model, examples: Sequence[Example], asked_to_stop: Callable[[], bool], say: Callable[[str], None]
) -> bool:
    """Let the encoder read all training examples, unless it caches nothing; return False if asked to stop.

    The last bits of a sentence's features depend on the other sentences of its batch, so that features made during
    training would differ after a stop. Here each sentence is in the same batch every time.
    """
    encoder, settings = model.encoder, model.config.extraction
    if encoder is None or not encoder.is_cached or model.config.encoder.cache == "none":
        return True
    say(f"reading {len(examples):,} training sentences with {' and '.join(model.config.encoder.names)}")
    progress = ReadingProgress(len(examples), say)
    lengths = [len(example.sentence) for example in examples]
    for batch in make_batches(lengths, settings.batch_size, settings.max_cells, bucketing=True, rng=None):
        if asked_to_stop():
            return False
        sentences = [examples[index].sentence for index in batch]
        encoder.encode(make_input(sentences, model))
        progress.add(len(batch))
    encoder.flush()
    return True


class ReadingProgress:
    """Messages on how many sentences have been read, one a minute."""

    def __init__(self, n: int, say: Callable[[str], None]) -> None:
        self._n, self._say = n, say
        self._n_read, self._last = 0, time.monotonic()

    def add(self, n: int) -> None:
        """Count further sentences."""
        self._n_read += n
        if time.monotonic() - self._last >= _SILENCE:
            self._say(f"{self._n_read:,} of {self._n:,} read")
            self._last = time.monotonic()


def _size(encoder: TextEncoder, lengths: Sequence[int]) -> int:
    """Return the number of bytes that the features of sentences of these lengths take."""
    width, n_maps = encoder.width, encoder.n_attention_maps
    return sum(_FLOAT * n * (width + n * n_maps) for n in lengths)
