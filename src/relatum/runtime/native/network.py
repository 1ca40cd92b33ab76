"""A network packed for compiled code, from its weights by their names; without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from relatum.config import Config
from relatum.errors import RelatumError
from relatum.kernels.arrays import Array, name_of, to_float32
from relatum.kernels.backend import select
from relatum.kernels.md_gru.cpu import ScanWeights
from relatum.kernels.md_gru.spec import Form
from relatum.kernels.network.characters import PackedCharacters
from relatum.kernels.network.pairing import PackedPairing
from relatum.kernels.network.sequence import MOST_HEADS, PackedSequenceLayer, SequenceWeights
from relatum.kernels.network.whole import OuterLayers, PackedLayer, PackedNetwork
from relatum.models.form import cell_specs, count_rounds

Weights = Mapping[str, Array]
"""The weights of a module by the names that torch gives them."""
NORM_EPSILON = 1e-5
"""The number that torch's layer norm adds to a variance."""


class RefusedError(RelatumError):
    """A network that compiled code does not have."""


@dataclass(frozen=True, slots=True)
class LayerForm:
    """The form of a table-sequence layer, as far as its weights do not tell it."""

    scan: Form
    activates: bool
    """True if the output of attention goes through a ReLU."""
    epsilons: tuple[float, float] = (NORM_EPSILON, NORM_EPSILON)
    """The numbers that the norms add to variances: after attention, and after the feed-forward network."""


@dataclass(frozen=True, slots=True)
class OuterForm:
    """The way through the layers of a network, which its weights do not tell."""

    n_rounds: int
    reads_sequence: bool
    on_diagonal: bool


def find_forms(config: Config) -> tuple[list[LayerForm], OuterForm]:
    """Return the forms that settings describe; a form that compiled code does not have is a `RefusedError`."""
    if config.table.kind != "md-gru" or config.sequence.kind == "none":
        raise RefusedError("a layer has no MD-RNN, or no sequence encoder")
    if config.table.pairing != "two-step":
        raise RefusedError("words are paired in one step")
    if config.model.interaction not in ("both", "table-to-sequence"):
        raise RefusedError("the sequence encoder reads no table")
    activates = config.sequence.output_activation == "relu"
    layers = [LayerForm(Form(spec, tuple(config.table.directions)), activates) for spec in cell_specs(config)]
    outer = OuterForm(
        count_rounds(config),
        config.model.interaction in ("both", "sequence-to-table"),
        config.model.entity_source == "diagonal",
    )
    return layers, outer


def select_part(weights: Weights, prefix: str) -> dict[str, Array]:
    """Return the weights of a part, by their names within it."""
    return {name.removeprefix(prefix): values for name, values in weights.items() if name.startswith(prefix)}


def pack_layers(layers: Sequence[PackedLayer], weights: Weights, form: OuterForm) -> PackedNetwork:
    """Return a network of packed layers, and of the layers around them, which have these weights."""
    if len({name_of(layer.pairing.dtype) for layer in layers}) != 1:
        raise RefusedError("the layers are in different precisions")
    outer = OuterLayers(
        _dense(weights, "embedder.projection"),
        _dense(weights, "entity_scorer"),
        _dense(weights, "relation_scorer") if "relation_scorer.weight" in weights else None,
        form.on_diagonal,
    )
    return PackedNetwork(layers, outer, form.n_rounds, form.reads_sequence)


def pack_layer(weights: Weights, form: LayerForm) -> PackedLayer:
    """Return a packed table-sequence layer."""
    pairing = pack_pairing(select_part(weights, "pairing."))
    sequence = pack_sequence(select_part(weights, "sequence_encoder."), form.epsilons, form.activates)
    scan = ScanWeights(*(weights[f"table_encoder.{name}"] for name in ScanWeights._fields))
    if {name_of(part.dtype) for part in scan} != {name_of(pairing.dtype)}:
        raise RefusedError("the parts of a layer are in different precisions")
    spec = form.scan.spec
    width = scan.input.shape[2] // spec.n_parts
    if select("cpu", spec, name_of(pairing.dtype), width) != "cpu":
        raise RefusedError("compiled code has no such cell of the MD-RNN")
    return PackedLayer(pairing, scan, form.scan, sequence)


def pack_pairing(weights: Weights) -> PackedPairing:
    return PackedPairing(*_dense(weights, "first"), *_dense(weights, "second"))


def pack_sequence(weights: Weights, epsilons: tuple[float, float], activates: bool) -> PackedSequenceLayer:
    guide = weights["attention.scores.guide.weight"]
    if len(guide) > MOST_HEADS:
        raise RefusedError(f"the sequence encoder has more than {MOST_HEADS} attention heads")
    names = ("attention.value", "attention.output", "feedforward.0", "feedforward.3")
    parts = (*names, "attention_norm", "feedforward_norm")
    return PackedSequenceLayer(SequenceWeights(guide, *(_dense(weights, name) for name in parts)), epsilons, activates)


def pack_characters(weights: Weights) -> PackedCharacters:
    """Return the LSTM over characters packed for compiled code, which takes words unsorted and unpadded."""
    directions = [_direction(weights, end) for end in ("", "_reverse")]
    return PackedCharacters(weights["embedding.weight"], directions)


def _direction(weights: Weights, end: str) -> list[Array]:
    """Return the weights of one direction of an LSTM, in the order of `nn.LSTM.all_weights`."""
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    return [weights[f"lstm.{name}{end}"] for name in names]


def _dense(weights: Weights, name: str) -> tuple[Array, Array]:
    return weights[f"{name}.weight"], weights[f"{name}.bias"]


def make_word_table(weights: Weights) -> Array:
    """Return the word vectors, (words, width), with the vector that was learned for unknown words in its row."""
    table = np.array(to_float32(weights["embedder.words.vectors"]))
    if "embedder.words.unknown" in weights:
        table[1] = to_float32(weights["embedder.words.unknown"])
    return table
