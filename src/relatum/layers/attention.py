"""The sequence encoder's layer: attention guided by the table or by dot products, and a feed-forward network."""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from relatum.layers.dropout import Dropout
from relatum.layers.precision import scoring_dtype


class TableGuidedScores(nn.Module):
    """f(Q_i, K_j) = U · T_ij for every attention head (equation 8); no bias, no scaling."""

    def __init__(self, width: int, n_attention_heads: int) -> None:
        super().__init__()
        self.guide = nn.Linear(width, n_attention_heads, bias=False)

    def forward(self, sequence: Tensor, table: Tensor | None) -> Tensor:
        """(batch, attention heads, words, words)"""
        assert table is not None
        dtype = scoring_dtype(table, self.guide.weight)
        scores = linear(table.to(dtype), self.guide.weight.to(dtype)).to(sequence.dtype)
        return scores.movedim(-1, 1)


class DotProductScores(nn.Module):
    """Scaled dot products of queries and keys, for the settings without a table to read (section 6.5.1)."""

    def __init__(self, width: int, n_attention_heads: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.n_attention_heads = n_attention_heads

    def forward(self, sequence: Tensor, table: Tensor | None) -> Tensor:
        """(batch, attention heads, words, words)"""
        del table
        split = (self.n_attention_heads, -1)
        query = self.query(sequence).unflatten(-1, split).transpose(1, 2)
        key = self.key(sequence).unflatten(-1, split).transpose(1, 2)
        scores: Tensor = query @ key.mT / sqrt(query.shape[-1])
        return scores


class SelfAttention(nn.Module):
    """Multi-head attention over the words of a sentence with the given scores."""

    def __init__(
        self, scores: TableGuidedScores | DotProductScores, width: int, n_attention_heads: int, activate: bool
    ) -> None:
        super().__init__()
        if width % n_attention_heads:
            raise ValueError(f"a width of {width} cannot be divided among {n_attention_heads} attention heads")
        self.scores = scores
        self.value = nn.Linear(width, width)
        self.output = nn.Linear(width, width)
        self.activation = nn.ReLU() if activate else nn.Identity()
        self.n_attention_heads = n_attention_heads

    def forward(self, sequence: Tensor, table: Tensor | None, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The attended sequence (batch, words, width), and the weights (batch, attention heads, words, words)."""
        scores = self.scores(sequence, table)
        lowest = torch.finfo(scores.dtype).min
        padding = ~mask[:, None, None, :]
        weights = torch.softmax(scores.masked_fill(padding, lowest), -1)
        values = self.value(sequence).unflatten(-1, (self.n_attention_heads, -1)).transpose(1, 2)
        attended = (weights @ values).transpose(1, 2).flatten(2)
        return self.activation(self.output(attended)), weights


class SequenceLayer(nn.Module):
    """S_l from S_{l−1} and T_l (equations 9 and 10): attention and a feed-forward network, added and normalised."""

    def __init__(self, attention: SelfAttention, width: int, feedforward_width: int, dropout: float) -> None:
        super().__init__()
        self.attention = attention
        self.attention_norm = nn.LayerNorm(width)
        self.feedforward_norm = nn.LayerNorm(width)
        self.feedforward = nn.Sequential(
            nn.Linear(width, feedforward_width),
            nn.ReLU(),
            Dropout(dropout),
            nn.Linear(feedforward_width, width),
            Dropout(dropout),
        )
        self.dropout = Dropout(dropout)

    def forward(self, sequence: Tensor, table: Tensor | None, mask: Tensor) -> tuple[Tensor, Tensor]:
        attended, weights = self.attention(sequence, table, mask)
        middle = self.attention_norm(sequence + self.dropout(attended))
        return self.feedforward_norm(middle + self.feedforward(middle)), weights
