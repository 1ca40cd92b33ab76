"""Linear layers of frozen networks on a CPU, with weights that are packed once."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from relatum.kernels.linear import cpu as split
from relatum.runtime.packing import Packing

_FEW_ROWS = 256
"""The most rows for which packed weights pay in float32. With more rows, reading the weights is little of the work."""


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


def _is_plain(values: Tensor) -> bool:
    """True for float32 on a CPU, without gradients."""
    return values.is_cpu and values.dtype == torch.float32 and not torch.is_grad_enabled()


def replace_linear(module: nn.Module, kind: type[PackedLinear | SplitLinear]) -> None:
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
