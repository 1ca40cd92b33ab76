"""The weights of modules in the order in which compiled code reads them."""

from __future__ import annotations

import torch
from torch import nn

from relatum.encoders.bert import Bert, BertLayer
from relatum.kernels.backend import select
from relatum.kernels.encoder.cpu import DenseWeights, EncoderWeights, LayerWeights, NormWeights
from relatum.kernels.md_gru import Weights
from relatum.kernels.md_gru.fused import Form
from relatum.kernels.network.characters import PackedCharacters
from relatum.kernels.network.cpu import TABLE_DTYPES
from relatum.kernels.network.pairing import PackedPairing
from relatum.kernels.network.sequence import MOST_HEADS, PackedSequenceLayer, SequenceWeights
from relatum.kernels.network.whole import OuterLayers, PackedLayer, PackedNetwork
from relatum.layers.attention import SequenceLayer, TableGuidedScores
from relatum.layers.characters import CharacterLSTM
from relatum.layers.md_rnn import MDRNN
from relatum.layers.pairing import Pairing
from relatum.models.layer import TableSequenceLayer
from relatum.models.network import TableSequenceNetwork


class _RefusedError(Exception):
    """A network that compiled code does not have."""


def pack_network(network: TableSequenceNetwork) -> tuple[PackedNetwork | None, str | None]:
    """Return a network packed for compiled code; or None, and why it cannot be packed."""
    try:
        return _pack_network(network), None
    except _RefusedError as refusal:
        return None, str(refusal)


def _pack_network(network: TableSequenceNetwork) -> PackedNetwork:
    layers = [_pack_layer(layer) for layer in network.layers if isinstance(layer, TableSequenceLayer)]
    if len({layer.pairing.dtype for layer in layers}) != 1:
        raise _RefusedError("the layers are in different precisions")
    relations = network.relation_scorer
    ends = [network.embedder.projection, network.entity_scorer, *([] if relations is None else [relations])]
    for end in ends:
        _check_float32(end)
    projection, entity_scorer, *relation_scorer = [(end.weight, end.bias) for end in ends]
    outer = OuterLayers(
        projection, entity_scorer, relation_scorer[0] if relation_scorer else None, network.entities_on_diagonal
    )
    return PackedNetwork(layers, outer, network.n_rounds, network.table_reads_sequence)


def _pack_layer(layer: TableSequenceLayer) -> PackedLayer:
    pairing, table_encoder, sequence_encoder = layer.pairing, layer.table_encoder, layer.sequence_encoder
    if not isinstance(table_encoder, MDRNN) or pairing is None or sequence_encoder is None:
        raise _RefusedError("a layer has no MD-RNN, or no sequence encoder")
    packed_pairing, packed_sequence = _pack_pairing(pairing), _pack_sequence(sequence_encoder)
    weights = Weights(table_encoder.input, table_encoder.input_bias, table_encoder.state, table_encoder.state_bias)
    if {weight.dtype for weight in weights} != {packed_pairing.dtype}:
        raise _RefusedError("the parts of a layer are in different precisions")
    spec = table_encoder.spec
    if select("cpu", spec, packed_pairing.dtype, spec.width(weights)) != "cpu":
        raise _RefusedError("compiled code has no such cell of the MD-RNN")
    return PackedLayer(packed_pairing, weights, Form(spec, table_encoder.directions), packed_sequence)


def _pack_pairing(pairing: Pairing) -> PackedPairing:
    first, second = pairing.first, pairing.second
    if second is None:
        raise _RefusedError("words are paired in one step")
    if first.weight.dtype not in TABLE_DTYPES or not first.weight.is_cpu:
        raise _RefusedError(f"tables are in {first.weight.dtype} on {first.weight.device}")
    return PackedPairing(first.weight, first.bias, second.weight, second.bias)


def _pack_sequence(layer: SequenceLayer) -> PackedSequenceLayer:
    attention, inner, outer = layer.attention, layer.feedforward[0], layer.feedforward[3]
    scores = attention.scores
    if not isinstance(scores, TableGuidedScores):
        raise _RefusedError("the sequence encoder reads no table")
    if attention.n_attention_heads > MOST_HEADS:
        raise _RefusedError(f"the sequence encoder has more than {MOST_HEADS} attention heads")
    _check_float32(layer)
    assert isinstance(inner, nn.Linear)
    assert isinstance(outer, nn.Linear)
    parts = (attention.value, attention.output, inner, outer, layer.attention_norm, layer.feedforward_norm)
    weights = SequenceWeights(scores.guide.weight, *((part.weight, part.bias) for part in parts))
    epsilons = layer.attention_norm.eps, layer.feedforward_norm.eps
    return PackedSequenceLayer(weights, epsilons, isinstance(attention.activation, nn.ReLU))


def _check_float32(module: nn.Module) -> None:
    for weight in module.parameters():
        if weight.dtype != torch.float32 or not weight.is_cpu:
            raise _RefusedError(f"weights are in {weight.dtype} on {weight.device}")


def pack_characters(reader: CharacterLSTM) -> PackedCharacters:
    """Return the LSTM over characters packed for compiled code, which takes words unsorted and unpadded."""
    return PackedCharacters(reader.embedding.weight, reader.lstm.all_weights)


def pack_bert(bert: Bert) -> EncoderWeights:
    """Return the weights of a BERT as compiled code takes them."""
    layers = [_pack_bert_layer(layer) for layer in bert.layers if isinstance(layer, BertLayer)]
    positions = bert.positions.weight + bert.segments.weight[0]
    return EncoderWeights(bert.pieces.weight, positions, _norm(bert.norm), layers, bert.n_attention_heads)


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
    return DenseWeights(layer.weight, layer.bias)


def _norm(norm: nn.LayerNorm) -> NormWeights:
    return NormWeights(norm.weight, norm.bias, norm.eps)
