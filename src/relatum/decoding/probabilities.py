"""The checks that every decoder makes of the probabilities or logits it is given, and the reading of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relatum.errors import RelatumError

Probabilities = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Logits:
    """Scores that become probabilities by a softmax over the last axis.

    The softmax is computed only for the values that a decoder reads: in a table these are the cells between entities,
    a small part of all.
    """

    values: Probabilities


def check_probabilities(what: str, probabilities: Probabilities | Logits, shape: tuple[int, ...]) -> None:
    """Refuse an array of the wrong shape, or with values that no decision could be made from."""
    check_shape(what, probabilities, shape)
    if not np.isfinite(values_of(probabilities)).all():
        raise RelatumError(
            f"the {what} probabilities contain values that are not finite: the model's weights are damaged or its "
            "training diverged; load an earlier checkpoint, or train again with a lower learning rate"
        )


def check_shape(what: str, probabilities: Probabilities | Logits, shape: tuple[int, ...]) -> None:
    """Refuse an array of the wrong shape."""
    actual = values_of(probabilities).shape
    if actual != shape:
        raise ValueError(f"the {what} probabilities have the shape {actual}, expected {shape}")


def check_sentences(what: str, probabilities: Probabilities | Logits, lengths: Sequence[int], n_tags: int) -> bool:
    """Refuse a batch (sentences, words, …, tags) of the wrong shape, or with values that are not finite at real words.

    Return True if all values are finite, those of the padding too.
    """
    values = values_of(probabilities)
    n_axes = values.ndim - 2
    n_words = values.shape[1]
    check_shape(what, probabilities, (len(lengths), *[n_words] * n_axes, n_tags))
    if max(lengths, default=0) > n_words:
        raise ValueError(f"a sentence has {max(lengths)} words, but the {what} probabilities are of {n_words}")
    if np.logical_and.reduce(np.isfinite(values), axis=None):  # one look at all of them
        return True
    for row, length in zip(values, lengths, strict=True):
        real = row[(slice(length),) * n_axes]
        check_probabilities(what, real, real.shape)
    return False


def values_of(probabilities: Probabilities | Logits) -> Probabilities:
    """Return the array itself, be it of probabilities or of logits."""
    return probabilities.values if isinstance(probabilities, Logits) else probabilities


def pick(probabilities: Probabilities | Logits, *indices: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the probabilities at `places` (indices along all axes but the last), or all if no places are given."""
    picked = values_of(probabilities)[indices] if indices else values_of(probabilities)
    return _softmax(picked) if isinstance(probabilities, Logits) else picked.astype(np.float64)


def _softmax(logits: Probabilities) -> NDArray[np.float64]:
    # Few calls, and those without a layer of Python: of one sentence the calls are what takes time, not the numbers.
    powers: NDArray[np.float64] = np.subtract(logits, np.maximum.reduce(logits, -1, keepdims=True), dtype=np.float64)
    np.exp(powers, out=powers)
    powers /= np.add.reduce(powers, -1, keepdims=True)
    return powers
