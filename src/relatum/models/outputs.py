"""The outputs of the network for a batch of sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class LayerState:
    """The representations after one layer, for those who want to look inside."""

    sequence: Tensor
    """S_l: (batch, words, width)"""
    table: Tensor | None
    """T_l: (batch, words, words, width)"""
    attention: Tensor | None
    """(batch, attention heads, words, words): the weights of the sequence encoder's attention."""


@dataclass(frozen=True, slots=True)
class Outputs:
    """Scores before the softmax of section 5; there are no relation scores without a table encoder."""

    entity_logits: Tensor
    """(batch, words, entity tags)"""
    relation_logits: Tensor | None
    """(batch, words, words, relation tags)"""
    layers: tuple[LayerState, ...] = ()
    """The outputs of each layer; may be empty if they were not to be kept."""
    attention_maps: Tensor | None = None
    """(batch, words, words, maps): the encoder's attention, if the table reads it."""
