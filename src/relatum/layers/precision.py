"""What is computed in half precision where autocast is on: products over tables, and nothing else.

Tables are where the time and the memory are. The sequence has few rows, and casting its parts back and forth would take
longer than computing with them.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def product_dtype(parameter: Tensor) -> torch.dtype:
    """The precision of products over tables: autocast's where it is on, or that of the parameters."""
    device = parameter.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else parameter.dtype


def scoring_dtype(table: Tensor, parameter: Tensor) -> torch.dtype:
    """The precision in which a table is scored: that of the parameters.

    While training it is that of the table, since a wider one would have to be kept.
    """
    return table.dtype if torch.is_grad_enabled() else parameter.dtype


def without_autocast(parameter: Tensor) -> AbstractContextManager[object]:
    """Within the block, everything in the precision it has."""
    device = parameter.device.type
    # To enter an autocast takes as long as a dozen small operations.
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()
