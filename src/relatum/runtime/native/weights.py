"""The weights of modules of torch in the order in which compiled code reads them."""

from __future__ import annotations

import torch
from torch import nn

from relatum.encoders.bert import Bert, BertLayer
from relatum.kernels.arrays import Array
from relatum.kernels.encoder.cpu import DenseWeights, EncoderWeights, LayerWeights, NormWeights
from relatum.kernels.md_gru.spec import Form
from relatum.kernels.network.characters import PackedCharacters
from relatum.kernels.network.pairing import PackedPairing
from relatum.kernels.network.sequence import PackedSequenceLayer
from relatum.kernels.network.whole import PackedLayer, PackedNetwork
from relatum.kernels.tensors import as_array
from relatum.layers.attention import SequenceLayer, TableGuidedScores
from relatum.layers.characters import CharacterLSTM
from relatum.layers.md_rnn import MDRNN
from relatum.layers.pairing import Pairing
from relatum.models.layer import TableSequenceLayer
from relatum.models.network import TableSequenceNetwork
from relatum.runtime.native import network as packing
from relatum.runtime.native.network import LayerForm, OuterForm, RefusedError

_TABLE_DTYPES = (torch.float32, torch.bfloat16)


def pack_network(network: TableSequenceNetwork) -> tuple[PackedNetwork | None, str | None]:
    """Return a network packed for compiled code; or None, and why it cannot be packed."""
    try:
        return _pack_network(network), None
    except RefusedError as refusal:
        return None, str(refusal)


def _pack_network(network: TableSequenceNetwork) -> PackedNetwork:
    layers = [_pack_layer(layer) for layer in network.layers if isinstance(layer, TableSequenceLayer)]
    relations = network.relation_scorer
    ends = {"embedder.projection": network.embedder.projection, "entity_scorer": network.entity_scorer}
    if relations is not None:
        ends["relation_scorer"] = relations
    weights: dict[str, Array] = {}
    for name, end in ends.items():
        _check_float32(end)
        weights |= {f"{name}.{key}": values for key, values in _arrays_of(end).items()}
    form = OuterForm(network.n_rounds, network.table_reads_sequence, network.entities_on_diagonal)
    return packing.pack_layers(layers, weights, form)


def _pack_layer(layer: TableSequenceLayer) -> PackedLayer:
    pairing, table_encoder, sequence_encoder = layer.pairing, layer.table_encoder, layer.sequence_encoder
    if not isinstance(table_encoder, MDRNN) or pairing is None or sequence_encoder is None:
        raise RefusedError("a layer has no MD-RNN, or no sequence encoder")
    _check_pairing(pairing)
    _check_sequence(sequence_encoder)
    scan = Form(table_encoder.spec, table_encoder.directions)
    return packing.pack_layer(
        _arrays_of(layer), LayerForm(scan, _activates(sequence_encoder), _epsilons(sequence_encoder))
    )


def _pack_pairing(pairing: Pairing) -> PackedPairing:
    _check_pairing(pairing)
    return packing.pack_pairing(_arrays_of(pairing))


def _pack_sequence(layer: SequenceLayer) -> PackedSequenceLayer:
    _check_sequence(layer)
    return packing.pack_sequence(_arrays_of(layer), _epsilons(layer), _activates(layer))


def _check_pairing(pairing: Pairing) -> None:
    if pairing.second is None:
        raise RefusedError("words are paired in one step")
    weight = pairing.first.weight
    if weight.dtype not in _TABLE_DTYPES or not weight.is_cpu:
        raise RefusedError(f"tables are in {weight.dtype} on {weight.device}")


def _check_sequence(layer: SequenceLayer) -> None:
    if not isinstance(layer.attention.scores, TableGuidedScores):
        raise RefusedError("the sequence encoder reads no table")
    _check_float32(layer)


def _epsilons(layer: SequenceLayer) -> tuple[float, float]:
    return layer.attention_norm.eps, layer.feedforward_norm.eps


def _activates(layer: SequenceLayer) -> bool:
    return isinstance(layer.attention.activation, nn.ReLU)


def _check_float32(module: nn.Module) -> None:
    for weight in module.parameters():
        if weight.dtype != torch.float32 or not weight.is_cpu:
            raise RefusedError(f"weights are in {weight.dtype} on {weight.device}")


def _arrays_of(module: nn.Module) -> dict[str, Array]:
    return {name: as_array(weight) for name, weight in module.named_parameters()}


def pack_characters(reader: CharacterLSTM) -> PackedCharacters:
    """Return the LSTM over characters packed for compiled code."""
    return packing.pack_characters(_arrays_of(reader))


def pack_bert(bert: Bert) -> EncoderWeights:
    """Return the weights of a BERT as compiled code takes them."""
    layers = [_pack_bert_layer(layer) for layer in bert.layers if isinstance(layer, BertLayer)]
    positions = as_array(bert.positions.weight) + as_array(bert.segments.weight[0])
    return EncoderWeights(as_array(bert.pieces.weight), positions, _norm(bert.norm), layers, bert.n_attention_heads)


def _pack_bert_layer(layer: BertLayer) -> LayerWeights:
    return LayerWeights(
        projection=_dense(layer.attention.projection),
        output=_dense(layer.attention.output),
        attention_norm=_norm(layer.attention_norm),
        inner=_dense(layer.inner),
        outer=_dense(layer.outer),
        norm=_norm(layer.norm),
    )


def _dense(layer: nn.Linear) -> DenseWeights:
    return DenseWeights(as_array(layer.weight), as_array(layer.bias))


def _norm(norm: nn.LayerNorm) -> NormWeights:
    return NormWeights(as_array(norm.weight), as_array(norm.bias), norm.eps)
