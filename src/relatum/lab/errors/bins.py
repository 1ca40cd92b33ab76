"""Whole numbers in ranges with names."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

N_BINS = 4
"""The number of ranges that values are divided into, each with about equally many values."""


@dataclass(frozen=True, slots=True)
class Bins:
    """Ranges by their last number and their name; the first reaches down to anything, the last up to anything."""

    ends: tuple[int, ...]
    names: tuple[str, ...]

    def group(self, value: int) -> str:
        return self.names[min(bisect_left(self.ends, value), len(self.names) - 1)]


def equal_bins(values: Iterable[int]) -> Bins:
    """Make ranges that hold about equally many of the values; fewer ranges if one value is frequent."""
    ordered = sorted(values) or [0]
    sizes = [ceil(len(ordered) * part / N_BINS) for part in range(1, N_BINS + 1)]
    ends = sorted({ordered[size - 1] for size in sizes})
    starts = [ordered[0], *(end + 1 for end in ends[:-1])]
    names = [str(end) if start == end else f"{start}–{end}" for start, end in zip(starts, ends, strict=True)]
    return Bins(tuple(ends), tuple(names))


def single_bins(least: int, most: int) -> Bins:
    """Make a range of each single number from `least` on; the last range is `most` and above."""
    return Bins(tuple(range(least, most + 1)), (*map(str, range(least, most)), f"{most}+"))
