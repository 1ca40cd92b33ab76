"""Losses that say that a run has gone wrong: not a number, or far beyond all that was seen before."""

from __future__ import annotations

import math
from dataclasses import dataclass

BLOCK = 50
"""Updates whose losses are averaged: one batch may be much harder than the next."""


@dataclass(slots=True)
class LossWatch:
    """Means of the losses over blocks of updates, as JSON can hold them.

    The loss has exploded if the mean of a block is more than `factor` times the lowest mean of all blocks, and above
    the mean of the first block, when the network was untrained. The second condition is for networks that have learned
    all there is: their losses are so small that a single sentence, or a few restless updates, make many times as much.
    """

    first: float | None = None
    lowest: float | None = None
    total: float = 0.0
    n: int = 0

    def check(self, loss: float, norm: float, factor: float) -> str | None:
        """Note an update's loss and the norm of its gradients; return what is wrong with them, None if nothing is."""
        if not (math.isfinite(loss) and math.isfinite(norm)):
            return f"the loss is {loss} and the norm of its gradients {norm}"
        self.total, self.n = self.total + loss, self.n + 1
        if self.n < BLOCK:
            return None
        mean, self.total, self.n = self.total / self.n, 0.0, 0
        if self.first is None or self.lowest is None:
            self.first = self.lowest = mean
        self.lowest = min(self.lowest, mean)
        if mean <= self.first or mean <= factor * self.lowest:
            return None
        return (
            f"the loss has exploded: {mean:.3g} in the mean of the last {BLOCK} updates, after {self.lowest:.3g} in "
            f"the best (over training.divergence_factor, {factor:g} times as much)"
        )
