"""Linear layers whose weights never change, so that they can be put in order for the device once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

from relatum.kernels.linear import cpu as split

_FEW_ROWS = 256
"""The most rows for which weights in the order in which a CPU reads them pay in float32; with more rows, reading the
weights is little of the work, and the plain product is as fast."""


class Packed(nn.Module):
    """A module that also has its weights in the order in which a CPU reads them, until they change."""

    _packed: Any = None

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()  # type: ignore[no-untyped-call]
        return {**state, "_packed": None}  # pointers mean nothing in another process, and cannot be copied

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        self._packed = None
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        return self

    def _load_from_state_dict(self, *arguments: Any) -> None:
        self._packed = None
        super()._load_from_state_dict(*arguments)


class FrozenLinear(Packed, nn.Linear):
    """A linear layer for inference alone, which computes and answers in the precision of its weights.

    Its inputs may be of higher precision: so a network keeps float32 between products of lower precision.
    """

    _splits = False
    _packed: Tensor | split.Packed | None = None

    @classmethod
    def of(cls, layer: nn.Linear) -> FrozenLinear:
        """A frozen layer with the weights of another, which are not copied."""
        frozen = cls(layer.in_features, layer.out_features, layer.bias is not None, device="meta")
        frozen.weight, frozen.bias = layer.weight, layer.bias
        return frozen

    @property
    def splits(self) -> bool:
        """True if the layer's products are made of several in bfloat16."""
        return self._splits

    def split(self) -> None:
        """From now on, make each float32 product on a CPU of several in bfloat16; see `split_products`."""
        self._splits, self._packed = True, None

    def forward(self, values: Tensor) -> Tensor:
        return self._multiply(values, activates=False)

    def activate(self, values: Tensor) -> Tensor:
        """Return GELU of the product; if product and GELU are one step, nothing is rounded between them."""
        return self._multiply(values, activates=True)

    def _multiply(self, values: Tensor, activates: bool) -> Tensor:
        values = values.to(self.weight.dtype)
        splits = self._splits and values.dtype == torch.float32
        if values.device.type != "cpu" or torch.is_grad_enabled() or not (splits or _can_pack(values)):
            product = linear(values, self.weight, self.bias)
            return gelu(product) if activates else product
        if self._packed is None:
            self._packed = (split.pack if splits else _reorder)(self.weight)
        if isinstance(self._packed, split.Packed):
            return split.multiply(values, self._packed, self.bias, activates)
        then = "gelu" if activates else "none"
        fused: Tensor = torch.ops.mkldnn._linear_pointwise(values, self._packed, self.bias, then, [], "none")
        return fused


def _reorder(weight: Tensor) -> Tensor:
    """Return the weights in the order in which torch's library for CPUs reads them."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight, None)
    return packed


def _can_pack(values: Tensor) -> bool:
    """True if torch's library for CPUs can multiply these values with weights in its own order, and is faster so."""
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    return values.dtype == torch.float32 and values.shape[:-1].numel() <= _FEW_ROWS


def split_products(module: nn.Module) -> None:
    """Let all linear layers in a frozen float32 network make each product of several in bfloat16, on a CPU.

    Split products have 16 bits, where bfloat16 has 8, and sums have all 24; a CPU that `can_split` is faster at them.
    """
    for part in list(module.modules()):
        for name, child in list(part.named_children()):
            if type(child) is nn.Linear:
                setattr(part, name, FrozenLinear.of(child))
    for part in module.modules():
        if isinstance(part, FrozenLinear):
            part.split()


def can_split() -> bool:
    """True if this machine has a CPU for which `split_products` is made, and the compiled code for it."""
    return split.is_available()
