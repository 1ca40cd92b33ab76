"""The precision of computations under autocast: only products over tables are computed in half precision.

Tables take most of the time and the memory. The sequence has few rows, and casting its parts back and forth would take
longer than computing with them.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def product_dtype(parameter: Tensor) -> torch.dtype:
    """Return the precision of products over tables: autocast's if it is on, else the precision of the parameters."""
    device = parameter.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else parameter.dtype


def scoring_dtype(table: Tensor, parameter: Tensor) -> torch.dtype:
    """Return the precision in which a table is scored: the precision of the parameters.

    In training it is the precision of the table, since a table in a wider type would have to be kept.
    """
    return table.dtype if torch.is_grad_enabled() else parameter.dtype


def without_autocast(parameter: Tensor) -> AbstractContextManager[object]:
    """Return a context in which autocast is off, so that every tensor keeps its own precision."""
    device = parameter.device.type
    # To enter an autocast takes as long as a dozen small operations.
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()
