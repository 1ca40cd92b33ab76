"""The outputs for the windows of a sentence, merged: each place takes the window that saw most around it.

`data.windows.merge_windows` chooses between entities by the same rule. Edges of the sentence do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relatum.types import Span

_Array = NDArray[np.floating[Any]]


def lay_words(windows: Sequence[Span], parts: Sequence[_Array], n_words: int) -> NDArray[np.float64]:
    """Merge arrays (words, …) of the windows into one for the sentence."""
    whole = np.zeros((n_words, *parts[0].shape[1:]))
    home = _margins(windows, n_words).argmax(0)
    for number, (window, part) in enumerate(zip(windows, parts, strict=True)):
        own = np.flatnonzero(home == number)
        whole[own] = part[own - window.start]
    return whole


def lay_rows(windows: Sequence[Span], parts: Sequence[_Array], n_words: int) -> NDArray[np.float64]:
    """Merge arrays (…, words, words) of the windows; each row comes from one window, and is 0 outside of it."""
    whole = np.zeros((*parts[0].shape[:-2], n_words, n_words))
    home = _margins(windows, n_words).argmax(0)
    for number, (window, part) in enumerate(zip(windows, parts, strict=True)):
        own = np.flatnonzero(home == number)
        whole[..., own, window.start : window.end] = part[..., own - window.start, :]
    return whole


def lay_cells(
    windows: Sequence[Span], parts: Sequence[_Array], n_words: int, no_relation: int | None = 0
) -> NDArray[np.float64]:
    """Merge arrays (words, words, tags) of the windows.

    If no window holds both words, the tag `no_relation` is certain; if there is no such tag, all tags have the
    probability 0.
    """
    whole = np.zeros((n_words, n_words, parts[0].shape[-1]))
    if no_relation is not None:
        whole[..., no_relation] = 1
    best = np.full((n_words, n_words), -1.0)
    for margin, window, part in zip(_margins(windows, n_words), windows, parts, strict=True):
        words = slice(window.start, window.end)
        both = np.minimum(margin[words, None], margin[None, words])
        better = both > best[words, words]
        whole[words, words][better] = part[better]
        best[words, words][better] = both[better]
    return whole


def _margins(windows: Sequence[Span], n_words: int) -> NDArray[np.float64]:
    """Return (windows, words): the number of words from a word to the nearest edge of the window; −1 outside of it."""
    margins = np.full((len(windows), n_words), -1.0)
    for row, (start, end) in zip(margins, windows, strict=True):
        words = np.arange(start, end)
        left = words - start if start > 0 else np.full(end - start, inf)
        right = end - 1 - words if end < n_words else np.full(end - start, inf)
        row[start:end] = np.minimum(left, right)
    return margins
