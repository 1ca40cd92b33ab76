"""Sentences gathered into batches, so that little of a batch is padding and none grows too large.

The cost of a batch is that of its tables: as many cells as it has sentences, times the square of the longest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

POOL = 32
"""How many batches' worth of shuffled sentences are sorted by length together.

More leave less padding, fewer more chance in which sentences meet.
"""


def make_batches(
    lengths: Sequence[int], batch_size: int, max_cells: int, *, bucketing: bool, rng: Random | None
) -> list[list[int]]:
    """The indices of the lengths, each in one batch.

    A batch has at most `batch_size` members and `max_cells` cells; a sentence that is over the limit by itself is a
    batch of its own. Without `rng` the order is fixed, longest first, so that memory runs out at once or not at all;
    `bucketing` then changes nothing. With `rng`, the sentences are shuffled and cut into batches; with `bucketing` too,
    those of like length within a pool share a batch, and the batches are shuffled.
    """
    if batch_size < 1 or max_cells < 1:
        raise ValueError(f"batch_size and max_cells must be at least 1, got {batch_size} and {max_cells}")
    order = list(range(len(lengths)))
    if rng is None:
        return _cut(_longest_first(order, lengths), lengths, batch_size, max_cells)
    rng.shuffle(order)
    if not bucketing:
        return _cut(order, lengths, batch_size, max_cells)
    size = POOL * batch_size
    batches = []
    for start in range(0, len(order), size):
        batches += _cut(_longest_first(order[start : start + size], lengths), lengths, batch_size, max_cells)
    rng.shuffle(batches)
    return batches


def padding_share(lengths: Sequence[int], batches: Iterable[Sequence[int]]) -> float:
    """The share of the batches' table cells that are padding."""
    real = total = 0
    for batch in batches:
        widths = [lengths[index] for index in batch]
        real += sum(width**2 for width in widths)
        total += len(widths) * max(widths, default=0) ** 2
    return 1 - real / total if total else 0.0


def _longest_first(indices: Iterable[int], lengths: Sequence[int]) -> list[int]:
    """Sorted by length; those of the same length stay in the order in which they were."""
    return sorted(indices, key=lambda index: -lengths[index])


def _cut(order: Iterable[int], lengths: Sequence[int], batch_size: int, max_cells: int) -> list[list[int]]:
    batches: list[list[int]] = []
    longest = 0
    for index in order:
        longest = max(longest, lengths[index])
        if not batches or len(batches[-1]) == batch_size or (len(batches[-1]) + 1) * longest**2 > max_cells:
            batches.append([])
            longest = lengths[index]
        batches[-1].append(index)
    return batches
