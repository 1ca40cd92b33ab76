"""What is computed in half precision where autocast is on: products over tables, and nothing else.

Tables are where the time and the memory are. The sequence has few rows, and casting its parts back and forth would take
longer than computing with them.
"""

from __future__ import annotations

import torch
from torch import Tensor


def product_dtype(parameter: Tensor) -> torch.dtype:
    """The precision of products over tables: autocast's where it is on, or that of the parameters."""
    device = parameter.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else parameter.dtype


def without_autocast(parameter: Tensor) -> torch.autocast:
    """Within the block, everything in the precision it has."""
    return torch.autocast(parameter.device.type, enabled=False)
