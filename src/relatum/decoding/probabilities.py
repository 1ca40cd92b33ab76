"""What every decoder asks of the probabilities it is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from relatum.errors import RelatumError

Probabilities = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Logits:
    """Scores that a softmax over the last axis makes probabilities of.

    It is computed where a decoder asks for it: of a table that is the cells between entities, a small part of all.
    """

    values: Probabilities

    def probabilities(self) -> NDArray[np.float64]:
        """All of them."""
        return _softmax(self.values)


def check_probabilities(what: str, probabilities: Probabilities | Logits, shape: tuple[int, ...]) -> None:
    """Refuse an array of the wrong shape, or with values that no decision could be made from."""
    values = probabilities.values if isinstance(probabilities, Logits) else probabilities
    if values.shape != shape:
        raise ValueError(f"the {what} probabilities have the shape {values.shape}, expected {shape}")
    if not np.isfinite(values).all():
        raise RelatumError(
            f"the {what} probabilities contain values that are not finite: the model's weights are damaged or its "
            "training diverged; load an earlier checkpoint, or train again with a lower learning rate"
        )


def pick_cells(table: Probabilities | Logits, words: NDArray[np.intp]) -> NDArray[np.float64]:
    """The probabilities of a table (words, words, tags) in the rows and columns of some words."""
    values = table.values if isinstance(table, Logits) else table
    picked = values[words[:, None], words]
    return _softmax(picked) if isinstance(table, Logits) else picked.astype(np.float64)


def _softmax(logits: Probabilities) -> NDArray[np.float64]:
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(-1, keepdims=True)
    np.exp(shifted, out=shifted)
    shifted /= shifted.sum(-1, keepdims=True)
    return shifted
