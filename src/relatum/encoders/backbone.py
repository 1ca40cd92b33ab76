"""The interface of the network inside the encoder of Hugging Face models."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor, nn


class LayerOutput(NamedTuple):
    """The output of one layer."""

    hidden: Tensor
    """(batch, pieces, width)"""
    attention: Tensor | None
    """(batch, heads, pieces, pieces): how much the first piece attends to the second; None if not asked for."""


class Backbone(nn.Module):
    """A transformer over pieces."""

    width: int
    n_layers: int
    n_attention_heads: int
    n_positions: int | None
    """The most pieces that the network can read, special tokens counted; None if there is no limit."""
    padding: int = 0
    """The piece that fills up a batch."""

    @abstractmethod
    def outputs(self, pieces: Tensor, mask: Tensor, want_attention: bool) -> Iterator[LayerOutput]:
        """Yield the output of the embeddings, which attend to nothing, then the output of each layer, one at a time.

        Both arguments are (batch, pieces); the mask is true where there is a piece.
        """
