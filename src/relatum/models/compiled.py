"""The choice of networks that run as one call of compiled code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from relatum.kernels.backend import select
from relatum.kernels.md_gru import Weights
from relatum.kernels.md_gru.fused import Form
from relatum.kernels.network.cpu import is_wanted
from relatum.kernels.network.whole import Ends, PackedLayer, PackedNetwork
from relatum.layers.attention import SequenceLayer
from relatum.layers.md_rnn import MDRNN
from relatum.layers.pairing import Pairing
from relatum.models.inputs import ModelInputs
from relatum.models.layer import TableSequenceLayer

if TYPE_CHECKING:
    from relatum.models.network import TableSequenceNetwork


def find_compiled(network: TableSequenceNetwork, inputs: ModelInputs) -> PackedNetwork | None:
    """Return the network packed for compiled code; None if that is not possible or not wanted. It is packed once."""
    maps = inputs.attention_maps
    if maps is None or network.training or not is_wanted(maps) or torch.is_autocast_enabled("cpu"):
        return None
    return network.packing.find(network, lambda: _pack(network))


def _pack(network: TableSequenceNetwork) -> PackedNetwork | None:
    packed = [_pack_layer(layer) for layer in network.layers if isinstance(layer, TableSequenceLayer)]
    layers = [layer for layer in packed if layer is not None]
    if not layers or len(layers) < len(network.layers) or len({layer.pairing.dtype for layer in layers}) > 1:
        return None
    relations = network.relation_scorer
    ends = [one for one in (network.embedder.projection, network.entity_scorer, relations) if one is not None]
    if any(weight.dtype != torch.float32 or not weight.is_cpu for one in ends for weight in one.parameters()):
        return None
    projection, entity_scorer, *relation_scorer = ((one.weight, one.bias) for one in ends)
    around = Ends(projection, entity_scorer, next(iter(relation_scorer), None), network.entities_on_diagonal)
    return PackedNetwork(layers, around, network.n_rounds, network.table_reads_sequence)


def _pack_layer(layer: TableSequenceLayer) -> PackedLayer | None:
    pairing, scan, sequence = layer.pairing, layer.table_encoder, layer.sequence_encoder
    if not isinstance(pairing, Pairing) or not isinstance(scan, MDRNN) or not isinstance(sequence, SequenceLayer):
        return None
    weights = Weights(scan.input, scan.input_bias, scan.state, scan.state_bias)
    of_pairs, of_words = pairing.packed(), sequence.packed()
    if of_pairs is None or of_words is None or {weight.dtype for weight in weights} != {of_pairs.dtype}:
        return None
    if select("cpu", scan.spec, of_pairs.dtype, scan.spec.width(weights)) != "cpu":
        return None
    return PackedLayer(of_pairs, weights, Form(scan.spec, scan.directions), of_words)
