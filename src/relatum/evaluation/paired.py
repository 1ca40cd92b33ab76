"""The sign-flip test of paired differences, which tests if two systems differ over several pairs of runs.

If the two systems were equal, each difference could as well have had the other sign. The p-value is the share of all
ways to give signs to the differences whose mean is at least as far from 0 as the observed mean. With n pairs there are
2ⁿ ways, so that no p-value is below 2 / 2ⁿ: with fewer than six pairs no p-value reaches 0.05.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_EXACT = 16
"""The most pairs for which all signs are tried; for more pairs, signs are drawn `N_DRAWN` times."""
N_DRAWN = 2**16
LEVEL = 0.05
"""The level of significance."""

_TIE = 1e-12
"""Means this close count as equal, so that rounding does not decide a tie."""


@dataclass(frozen=True, slots=True)
class PairedTest:
    """The test of n differences: their mean, sample standard deviation (None if n is 1), and two-sided p-value."""

    n: int
    mean: float
    std: float | None
    p: float
    smallest_p: float
    """The lowest p-value that is possible with n pairs."""

    @property
    def can_be_significant(self) -> bool:
        return self.smallest_p <= LEVEL

    def to_dict(self) -> dict[str, Any]:
        return {"difference": self.mean, "std": self.std, "n": self.n, "p": self.p, "smallest_p": self.smallest_p}


def sign_flip_test(differences: Sequence[float], seed: int = 0) -> PairedTest:
    """Test if differences are centred on 0; signs are drawn by the seed if there are too many to try all."""
    values = np.asarray(differences, dtype=np.float64)
    n = len(values)
    if not n:
        raise ValueError("there are no differences to test")
    exact = n <= MAX_EXACT
    if exact:
        bits = np.arange(2**n)[:, None] >> np.arange(n) & 1
    else:
        bits = np.random.default_rng(seed).integers(2, size=(N_DRAWN, n), dtype=np.int8)
    mean = float(values.mean())
    means = np.abs((1.0 - 2.0 * bits) @ values) / n
    as_large = int(np.count_nonzero(means >= abs(mean) - _TIE))
    if exact:
        p = as_large / 2**n
        smallest_p = 2 / 2**n
    else:
        p = (as_large + 1) / (N_DRAWN + 1)
        smallest_p = 1 / (N_DRAWN + 1)
    std = float(values.std(ddof=1)) if n > 1 else None
    return PairedTest(n, mean, std, p, smallest_p)
