"""Numbers of sentences as padded rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


def pad_rows(rows: Sequence[Numbers | None], n_words: int) -> Numbers:
    """Return (batch, words): a number for each word, 0 where there is none."""
    padded = np.zeros((len(rows), n_words), np.int64)
    for target, row in zip(padded, rows, strict=True):
        if row is not None:
            target[: len(row)] = row
    return padded
