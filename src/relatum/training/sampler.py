"""The sampling of sentences for updates: batches without end, epoch after epoch."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from relatum.config import TrainingConfig
from relatum.data.batching import make_batches
from relatum.errors import RelatumError


class Sampler:
    """An endless series of batches of indices; `epoch` and `position` are all that must be kept to resume it.

    Every epoch is shuffled anew, by the seed and the number of the epoch, so that no earlier state is needed.
    """

    def __init__(self, lengths: Sequence[int], config: TrainingConfig) -> None:
        if not lengths:
            raise RelatumError("there are no sentences to train on")
        self._lengths = lengths
        self._config = config
        self.go_to(0, 0)

    def go_to(self, epoch: int, position: int) -> None:
        """Go on from another position."""
        self.epoch, self.position = epoch, position
        self._batches = self._make()
        if not 0 <= position <= len(self._batches):
            raise RelatumError(
                f"the state is at batch {position} of epoch {epoch}, which has {len(self._batches)}; the data or the "
                "settings have changed since it was saved"
            )

    def next(self) -> list[int]:
        """Return the next batch."""
        if self.position == len(self._batches):
            self.epoch, self.position = self.epoch + 1, 0
            self._batches = self._make()
        batch = self._batches[self.position]
        self.position += 1
        return batch

    def _make(self) -> list[list[int]]:
        config = self._config
        random = Random(f"{config.seed}/{self.epoch}")
        return make_batches(self._lengths, config.batch_size, config.max_cells, bucketing=config.bucketing, rng=random)
