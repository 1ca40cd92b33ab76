"""Tensors of torch as arrays of numpy, and the other way, without a copy."""

from __future__ import annotations

import torch
from torch import Tensor

from relatum.kernels.arrays import BFLOAT16, Array


def as_array(values: Tensor) -> Array:
    """Return the values of a tensor on the CPU as an array; bfloat16 as `uint16`, see `arrays`."""
    values = values.detach()
    if values.dtype == torch.bfloat16:
        values = values.view(torch.uint16)
    array: Array = values.numpy()
    return array


def as_array_or_none(values: Tensor | None) -> Array | None:
    return None if values is None else as_array(values)


def as_tensor(values: Array) -> Tensor:
    """Return the values of an array as a tensor; `uint16` as bfloat16."""
    tensor = torch.from_numpy(values)
    return tensor.view(torch.bfloat16) if values.dtype == BFLOAT16 else tensor
