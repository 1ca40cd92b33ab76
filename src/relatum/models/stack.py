"""Which networks have all their layers in one call of compiled code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from relatum.kernels.backend import select
from relatum.kernels.md_gru import Weights
from relatum.kernels.md_gru.fused import Form
from relatum.kernels.network.cpu import is_wanted
from relatum.kernels.network.stack import PackedStack, StackLayer
from relatum.layers.attention import SequenceLayer
from relatum.layers.md_rnn import MDRNN
from relatum.layers.pairing import Pairing
from relatum.models.layer import TableSequenceLayer

if TYPE_CHECKING:
    from relatum.models.network import TableSequenceNetwork


def find_stack(network: TableSequenceNetwork, sequence: Tensor, maps: Tensor | None) -> PackedStack | None:
    """The layers of a network for compiled code, where this can be, and is wanted; they are packed once."""
    if maps is None or network.training or sequence.dtype != torch.float32 or not is_wanted(sequence):
        return None
    if torch.is_autocast_enabled("cpu"):
        return None
    return network.packing.find(network.layers, lambda: _pack(network))


def _pack(network: TableSequenceNetwork) -> PackedStack | None:
    packed = [_pack_layer(layer) for layer in network.layers if isinstance(layer, TableSequenceLayer)]
    whole = [layer for layer in packed if layer is not None]
    if not whole or len(whole) < len(network.layers) or len({layer.pairing.dtype for layer in whole}) > 1:
        return None
    return PackedStack(whole)


def _pack_layer(layer: TableSequenceLayer) -> StackLayer | None:
    pairing, scan, sequence = layer.pairing, layer.table_encoder, layer.sequence_encoder
    if not isinstance(pairing, Pairing) or not isinstance(scan, MDRNN) or not isinstance(sequence, SequenceLayer):
        return None
    weights = Weights(scan.input, scan.input_bias, scan.state, scan.state_bias)
    of_pairs, of_words = pairing.packed(), sequence.packed()
    if of_pairs is None or of_words is None or {weight.dtype for weight in weights} != {of_pairs.dtype}:
        return None
    if select("cpu", scan.spec, of_pairs.dtype, scan.spec.width(weights)) != "cpu":
        return None
    return StackLayer(of_pairs, weights, Form(scan.spec, scan.directions), of_words)
