"""The table of word pairs that a table encoder starts from."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn


class Pairing(nn.Module):
    """X_l: every two words' vectors side by side, with the encoder's attention between them where it is given.

    In one step this is equation 11, ReLU(Linear[S_i; S_j; T^ℓ_ij]). In two steps, as behind the published numbers, the
    attention joins in a second layer: ReLU(Linear[ReLU(Linear[S_i; S_j]); T^ℓ_ij]).
    """

    def __init__(self, width: int, n_attention_maps: int, form: Literal["one-step", "two-step"]) -> None:
        super().__init__()
        one_step = form == "one-step"
        self.first = nn.Linear(2 * width + (n_attention_maps if one_step else 0), width)
        self.second = nn.Linear(width + n_attention_maps, width) if n_attention_maps and not one_step else None
        self.width = width

    def forward(self, sequence: Tensor, attention_maps: Tensor | None) -> Tensor:
        """(batch, words, width) to (batch, words, words, width)."""
        # A product with [S_i; S_j] is the sum of two products, so the concatenation need never be made.
        row, column, rest = self.first.weight.tensor_split((self.width, 2 * self.width), 1)
        pairs = (sequence @ row.mT + self.first.bias).unsqueeze(2) + (sequence @ column.mT).unsqueeze(1)
        if self.second is None:
            if attention_maps is not None and rest.shape[1]:
                pairs = pairs + attention_maps @ rest.mT
            return torch.relu(pairs)
        assert attention_maps is not None
        return torch.relu(self.second(torch.cat((torch.relu(pairs), attention_maps), -1)))
