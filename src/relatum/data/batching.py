"""Sentences gathered into batches, so that little of a batch is padding and none grows too large.

The cost of a batch is the number of its table cells: its sentences times the square of the longest one's length.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

POOL = 32
"""The number of batches' worth of shuffled sentences that are sorted by length together.

A larger pool leaves less padding; a smaller one leaves more to chance which sentences share a batch.
"""


def make_batches(
    lengths: Sequence[int], batch_size: int, max_cells: int, *, bucketing: bool, rng: Random | None
) -> list[list[int]]:
    """Group the indices of `lengths` into batches, each index in one batch.

    A batch has at most `batch_size` members and `max_cells` cells; a sentence that is over the limit by itself is a
    batch of its own. Without `rng` the order is fixed, longest first, so that memory runs out at once or not at all;
    `bucketing` then changes nothing. With `rng`, the sentences are shuffled and cut into batches; with `bucketing` too,
    sentences of like length within a pool share a batch, and the batches are shuffled.
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
    """Return the share of the batches' table cells that are padding."""
    real = total = 0
    for batch in batches:
        widths = [lengths[index] for index in batch]
        real += sum(width**2 for width in widths)
        total += len(widths) * max(widths, default=0) ** 2
    return 1 - real / total if total else 0.0


def _longest_first(indices: Iterable[int], lengths: Sequence[int]) -> list[int]:
    """Sort indices by length, the longest first; indices of equal length keep their order."""
    return sorted(indices, key=lambda index: -lengths[index])


def _cut(order: Iterable[int], lengths: Sequence[int], batch_size: int, max_cells: int) -> list[list[int]]:
    batches: list[list[int]] = []
    longest = 0
    for index in order:
        longest = max(longest, lengths[index])
        is_full = not batches or len(batches[-1]) == batch_size
        if is_full or (len(batches[-1]) + 1) * longest**2 > max_cells:
            batches.append([])
            longest = lengths[index]
        batches[-1].append(index)
    return batches
