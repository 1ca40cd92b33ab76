"""A convolutional layer over a table, the variant of the paper's appendix D."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TableCNN(nn.Module):
    """Two convolutions with a short-cut around them (appendix D); cells outside the sentence stay zero."""

    def __init__(self, input_width: int, width: int, kernel_size: int, reads_below: bool) -> None:
        super().__init__()
        self.enter = nn.Linear(input_width + (width if reads_below else 0), width)
        self.convolutions = nn.ModuleList(
            nn.Conv2d(width, width, kernel_size, padding=kernel_size // 2) for _ in range(2)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.reads_below = reads_below
        self.width = width

    def forward(self, inputs: Tensor, below: Tensor | None, mask: Tensor) -> Tensor:
        """X_l (batch, words, words, input width) and T_{l−1} to T_l (batch, words, words, width)."""
        cells = (mask.unsqueeze(2) & mask.unsqueeze(1)).unsqueeze(-1)
        if below is None:
            below = inputs.new_zeros(*inputs.shape[:-1], self.width)
        joined = torch.cat((inputs, below), -1) if self.reads_below else inputs
        first = torch.relu(self.enter(joined))
        second = torch.relu(self._convolve(0, first, cells))
        third = torch.relu(below + self._convolve(1, second, cells))
        return torch.where(cells, third, 0)

    def _convolve(self, number: int, table: Tensor, cells: Tensor) -> Tensor:
        """Apply a convolution, which sees zeros outside the sentence, and the layer norm that belongs to it."""
        channels = torch.where(cells, table, 0).movedim(-1, 1)
        convolved = self.convolutions[number](channels).movedim(1, -1)
        normed: Tensor = self.norms[number](convolved)
        return normed
