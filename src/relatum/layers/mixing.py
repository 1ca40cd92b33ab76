"""The vector of a word as a learned weighted sum of an encoder's layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class LayerMixing(nn.Module):
    """A learned scale times the sum of the layers, weighted by a softmax over learned shares; at first their mean.

    It reads all layers side by side, (…, layers × width), and returns (…, width).
    """

    def __init__(self, n_layers: int) -> None:
        super().__init__()
        self.shares = nn.Parameter(torch.zeros(n_layers))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, side_by_side: Tensor) -> Tensor:
        weights = self.scale * self.shares.softmax(0)
        layers = side_by_side.unflatten(-1, (len(self.shares), -1))
        return torch.einsum("...lw,l->...w", layers, weights)
