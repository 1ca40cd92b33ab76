"""The table of word pairs that a table encoder starts from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from relatum.layers.precision import product_dtype


class Pairing(nn.Module):
    """X_l: the vectors of every two words side by side, with the encoder's attention between them if it is given.

    In one step this is equation 11, ReLU(Linear[S_i; S_j; T^ℓ_ij]). In two steps, as behind the published numbers, the
    attention joins in a second layer: ReLU(Linear[ReLU(Linear[S_i; S_j]); T^ℓ_ij]).
    """

    def __init__(
        self, width: int, table_width: int, n_attention_maps: int, form: Literal["one-step", "two-step"]
    ) -> None:
        super().__init__()
        one_step = form == "one-step"
        n_first, n_second = (n_attention_maps, 0) if one_step else (0, n_attention_maps)
        self.first = nn.Linear(2 * width + n_first, table_width)
        self.second = nn.Linear(table_width + n_second, table_width) if n_second else None
        self._first_parts = (width, width, n_first)
        self._second_parts = (table_width, n_second)

    def forward(self, sequence: Tensor, attention_maps: Tensor | None) -> Tensor:
        """Map a sequence (batch, words, width) to a table (batch, words, words, table width).

        Cells of padding may have any finite value.
        """
        # A product with a concatenation is the sum of its parts' products, so none need ever be made.
        dtype = product_dtype(self.first.weight)
        row, column, rest = self.first.weight.to(dtype).split(self._first_parts, 1)
        sequence = sequence.to(dtype)
        rows = linear(sequence, row, self.first.bias.to(dtype))
        columns = linear(sequence, column)
        maps = None if attention_maps is None else attention_maps.to(dtype)
        if self.second is not None:
            assert maps is not None
            of_pairs, of_maps = self.second.weight.to(dtype).split(self._second_parts, 1)
            return _join(rows, columns, maps, of_pairs, of_maps, self.second.bias.to(dtype))
        if maps is not None and self._first_parts[2]:
            return linear(maps, rest).add_(rows.unsqueeze(2)).add_(columns.unsqueeze(1)).relu_()
        return _pair(rows, columns)


def _pair(rows: Tensor, columns: Tensor) -> Tensor:
    """(batch, words, words, width): ReLU(rows_i + columns_j)."""
    return (rows.unsqueeze(2) + columns.unsqueeze(1)).relu_()


class _Join(torch.autograd.Function):
    """The second step; the backward pass computes the pairs again from the words, so that they need not be kept."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, columns: Tensor, maps: Tensor, of_pairs: Tensor, of_maps: Tensor, bias: Tensor
    ) -> Tensor:
        joined = torch.addmm(bias, maps.flatten(0, 2), of_maps.mT)
        joined.addmm_(_pair(rows, columns).flatten(0, 2), of_pairs.mT)
        joined.relu_()
        ctx.save_for_backward(rows, columns, maps, of_pairs, of_maps, joined)
        return joined.view(*maps.shape[:3], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, columns, maps, of_pairs, of_maps, joined = ctx.saved_tensors
        pairs = _pair(rows, columns)
        grad = _threshold_backward(grad.reshape(joined.shape), joined, 0)
        grad_of_pairs = grad.mT @ pairs.flatten(0, 2)
        grad_of_maps = grad.mT @ maps.flatten(0, 2)
        grad_maps = (grad @ of_maps).view(maps.shape) if ctx.needs_input_grad[2] else None
        grad_pairs = _threshold_backward((grad @ of_pairs).view(pairs.shape), pairs, 0)
        return grad_pairs.sum(2), grad_pairs.sum(1), grad_maps, grad_of_pairs, grad_of_maps, grad.sum(0)


_join = cast("Callable[..., Tensor]", _Join.apply)
# The gradient of a ReLU from its result, in one kernel.
_threshold_backward = cast("Callable[[Tensor, Tensor, float], Tensor]", torch.ops.aten.threshold_backward)
