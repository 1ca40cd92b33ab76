"""A layer of multi-dimensional recurrent networks over a table, one for each direction."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import torch
from torch import Tensor, nn

from relatum.kernels.md_gru import CellSpec, Direction, Weights, md_gru


class MDRNN(nn.Module):
    """Contextualises a table (equations 3 to 6, appendix A); the width is divided among the directions."""

    def __init__(self, input_width: int, width: int, directions: Sequence[Direction], spec: CellSpec) -> None:
        super().__init__()
        if width % len(directions):
            raise ValueError(f"a width of {width} cannot be divided among {len(directions)} directions")
        self.directions = tuple(directions)
        self.spec = spec
        n = len(directions)
        own = width // len(directions)
        columns = spec.n_parts * own
        rows = len(spec.slots) * own
        self.input = nn.Parameter(torch.empty(n, input_width, columns))
        self.input_bias = nn.Parameter(torch.empty(n, columns))
        self.state = nn.Parameter(torch.empty(n, rows, columns))
        self.state_bias = nn.Parameter(torch.empty(n, columns))
        # As torch initialises a linear layer, from the number of its inputs.
        for fan_in, weight, bias in (
            (input_width, self.input, self.input_bias),
            (rows or own, self.state, self.state_bias),
        ):
            for parameter in (weight, bias):
                nn.init.uniform_(parameter, -1 / sqrt(fan_in), 1 / sqrt(fan_in))

    def forward(self, inputs: Tensor, below: Tensor | None, mask: Tensor) -> Tensor:
        """X_l (batch, words, words, input width) and T_{l−1} to T_l (batch, words, words, width)."""
        if below is not None:
            below = below.unflatten(-1, (len(self.directions), -1))
        weights = Weights(self.input, self.input_bias, self.state, self.state_bias)
        return md_gru(inputs, below, mask, weights, self.directions, self.spec).flatten(3)
