"""Linear layers whose float32 products are made of several products in bfloat16, for CPUs with a matrix unit."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from relatum.kernels.linear import cpu as split
from relatum.runtime.packing import Packing


class SplitLinear(nn.Linear):
    """A linear layer of split products on a CPU without gradients, and a plain one everywhere else.

    Split products have 16 bits, where bfloat16 has 8, and sums have all 24.
    """

    def __init__(self, layer: nn.Linear) -> None:
        """Take over the weights of another layer, without a copy."""
        super().__init__(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
        self.weight, self.bias = layer.weight, layer.bias
        self._packing: Packing[split.Packed] = Packing()

    def forward(self, values: Tensor) -> Tensor:
        if not values.is_cpu or values.dtype != torch.float32 or torch.is_grad_enabled():
            return super().forward(values)
        return split.multiply(values, self._packing.find(self, lambda: split.pack(self.weight)), self.bias)


def split_products(module: nn.Module) -> None:
    """Replace all linear layers in a frozen network by layers of split products."""
    for part in list(module.modules()):
        for name, child in list(part.named_children()):
            if type(child) is nn.Linear:
                setattr(part, name, SplitLinear(child))


def can_split() -> bool:
    """True if this machine has a CPU for which `split_products` is made, and the compiled code for it."""
    return split.is_available()
