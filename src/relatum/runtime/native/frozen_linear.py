"""Linear layers of frozen networks on a CPU, with weights that are packed once."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from relatum.kernels.linear import cpu as split
from relatum.runtime.packing import Packing

_FEW_ROWS = 256
"""The most rows for which packed weights pay in float32. With more rows, reading the weights is little of the work."""
_BLOCK = 128
"""The values of a row, and the weights of an output, that are rounded in steps of one size in 8-bit integers."""
_LEAST = 1e-36
"""Smaller ranges of values are none: the steps in them could not be counted in float32."""


class PackedLinear(nn.Linear):
    """A linear layer that reads its weights in the order of torch's library for CPUs, if there are few rows."""

    def __init__(self, layer: nn.Linear) -> None:
        """Take over the weights of another layer, without a copy."""
        super().__init__(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
        self.weight, self.bias = layer.weight, layer.bias
        self._packing: Packing[Tensor] = Packing()

    def forward(self, values: Tensor) -> Tensor:
        if not _is_plain(values) or values.shape[:-1].numel() > _FEW_ROWS:
            return super().forward(values)
        packed = self._packing.find(self, lambda: torch.ops.mkldnn._reorder_linear_weight(self.weight, None))
        product: Tensor = torch.ops.mkldnn._linear_pointwise(values, packed, self.bias, "none", [], "none")
        return product


class SplitLinear(nn.Linear):
    """A linear layer that makes each product of several in bfloat16, for CPUs with a matrix unit.

    Split products have 16 bits, where bfloat16 has 8, and sums have all 24.
    """

    def __init__(self, layer: nn.Linear) -> None:
        """Take over the weights of another layer, without a copy."""
        super().__init__(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
        self.weight, self.bias = layer.weight, layer.bias
        self._packing: Packing[split.Packed] = Packing()

    def forward(self, values: Tensor) -> Tensor:
        if not _is_plain(values):
            return super().forward(values)
        return split.multiply(values, self._packing.find(self, lambda: split.pack(self.weight)), self.bias)


class Int8Linear(nn.Linear):
    """A linear layer in 8-bit integers: in blocks, each row of values and the weights of each output are rounded.

    This is the plain form of `kernels/linear/native/bytes.h`. It is slow: sums of integers are exact in float64.
    """

    def __init__(self, layer: nn.Linear) -> None:
        """Take over the weights of another layer, without a copy."""
        super().__init__(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
        self.weight, self.bias = layer.weight, layer.bias

    def forward(self, values: Tensor) -> Tensor:
        blocks = zip(values.split(_BLOCK, -1), self.weight.split(_BLOCK, -1), strict=True)
        product = sum(_multiply_block(rows, weights) for rows, weights in blocks)
        assert isinstance(product, Tensor)
        return product.to(values.dtype) + self.bias


def _multiply_block(values: Tensor, weight: Tensor) -> Tensor:
    """Round values and weights to integers in steps of their own, and multiply."""
    low, high = values.aminmax(dim=-1, keepdim=True)
    rows = ((values - low) * _steps(high - low, 255) + 0.5).floor().double()
    most = weight.abs().amax(1, keepdim=True)
    weights = (weight * _steps(most, 127)).round().double()
    return (rows @ weights.T * ((high - low) / 255) + low * weights.sum(1)) * (most / 127).T


def _steps(ranges: Tensor, n: int) -> Tensor:
    """Return the number of steps for each unit of ranges of n steps; 0 for a range that is none."""
    return torch.where(ranges <= _LEAST, 0.0, n / ranges)


def _is_plain(values: Tensor) -> bool:
    """True for float32 on a CPU, without gradients."""
    return values.is_cpu and values.dtype == torch.float32 and not torch.is_grad_enabled()


def replace_linear(module: nn.Module, kind: type[PackedLinear | SplitLinear | Int8Linear]) -> None:
    """Replace all plain linear layers in a frozen network."""
    for part in list(module.modules()):
        for name, child in list(part.named_children()):
            if type(child) is nn.Linear:
                setattr(part, name, kind(child))


def can_pack() -> bool:
    """True if torch's library for CPUs takes packed weights."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def can_split() -> bool:
    """True if this machine has a CPU with a matrix unit, and the compiled code for it."""
    return split.is_available()
