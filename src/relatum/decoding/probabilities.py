"""What every decoder asks of the probabilities it is given."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from relatum.errors import RelatumError

Probabilities = NDArray[np.floating[Any]]


def check_probabilities(what: str, probabilities: Probabilities, shape: tuple[int, ...]) -> None:
    """Refuse an array of the wrong shape, or with values that no decision could be made from."""
    if probabilities.shape != shape:
        raise ValueError(f"the {what} probabilities have the shape {probabilities.shape}, expected {shape}")
    if not np.isfinite(probabilities).all():
        raise RelatumError(
            f"the {what} probabilities contain values that are not finite: the model's weights are damaged or its "
            "training diverged; load an earlier checkpoint, or train again with a lower learning rate"
        )
