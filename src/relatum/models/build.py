"""From a config to a model: the one place where settings become parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from relatum.config import Config
from relatum.encoders.base import TextEncoder
from relatum.encoders.words import WordVectors
from relatum.errors import ConfigError
from relatum.kernels.md_gru.spec import CellSpec
from relatum.layers.attention import DotProductScores, SelfAttention, SequenceLayer, TableGuidedScores
from relatum.layers.characters import CharacterLSTM
from relatum.layers.md_rnn import MDRNN
from relatum.layers.mixing import LayerMixing
from relatum.layers.pairing import Pairing
from relatum.layers.table_cnn import TableCNN
from relatum.models.embedder import TextEmbedder, WordTable
from relatum.models.form import cell_specs, count_rounds, first_layers
from relatum.models.initialisation import initialise_as_authors, initialise_independent_tags
from relatum.models.layer import TableSequenceLayer
from relatum.models.model import Model
from relatum.models.network import TableSequenceNetwork
from relatum.models.vocabulary import FIRST, Vocabulary
from relatum.schema import Schema
from relatum.tagging.tagging import Tagging


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of a network that follow from the data and the encoder."""

    n_entity_tags: int
    n_relation_tags: int
    context_width: int = 0
    n_attention_maps: int = 0
    n_characters: int = 0
    word_vectors: Tensor | None = None
    """(words, width), the rows of padding and unknown included."""
    n_mixed: int = 1
    """The number of the encoder's layers that stand side by side in its vectors, all of the same width."""


def build_model(
    config: Config,
    schema: Schema,
    encoder: TextEncoder | None = None,
    word_vectors: WordVectors | None = None,
    characters: Sequence[str] = (),
) -> Model:
    """Build a model with fresh weights; setting the seed is left to the caller."""
    words = None if word_vectors is None else Vocabulary(word_vectors.words, config.words.lower)
    known = Vocabulary(tuple(characters)) if config.characters.kind == "lstm" else None
    tagging = Tagging.of(schema, config.tagging)
    sizes = Sizes(
        n_entity_tags=len(tagging.words.names),
        n_relation_tags=len(tagging.cells.names),
        context_width=0 if encoder is None else encoder.width,
        n_mixed=1 if encoder is None else encoder.n_mixed,
        n_attention_maps=0 if encoder is None else encoder.n_attention_maps,
        n_characters=0 if known is None else len(known),
        word_vectors=None if word_vectors is None else nn.functional.pad(word_vectors.vectors, (0, 0, FIRST, 0)),
    )
    return Model(config, schema, build_network(config, sizes), encoder, words, known)


def build_network(config: Config, sizes: Sizes) -> TableSequenceNetwork:
    """The network that a config describes, for data and an encoder of the given sizes."""
    width = config.model.width
    dropout = config.model.dropout
    characters = None
    words = None
    if config.characters.kind == "lstm":
        characters = CharacterLSTM(sizes.n_characters, config.characters.width, dropout)
    if sizes.word_vectors is not None:
        words = WordTable(sizes.word_vectors, config.words.unknown == "learned")
    if characters is None and words is None and not sizes.context_width:
        raise ConfigError(
            "the model has nothing to read: encoder.kind and characters.kind are 'none' and words.path is unset; "
            "set one of them"
        )
    mixing = LayerMixing(sizes.n_mixed) if sizes.n_mixed > 1 else None
    embedder = TextEmbedder(characters, words, sizes.context_width // sizes.n_mixed, width, dropout, mixing)
    pairs = zip(first_layers(config), cell_specs(config), strict=True)
    layers = [_build_layer(config, sizes, first, spec) for first, spec in pairs]
    on_diagonal = config.model.entity_source == "diagonal"
    entities = nn.Linear(_table_width(config) if on_diagonal else width, sizes.n_entity_tags)
    relations = None
    if config.table.kind != "none":
        relations = nn.Linear(_table_width(config), sizes.n_relation_tags)
    network = TableSequenceNetwork(
        embedder,
        layers,
        entities,
        relations,
        dropout,
        n_rounds=count_rounds(config),
        table_reads_sequence=config.model.interaction in ("both", "sequence-to-table"),
        entities_on_diagonal=on_diagonal,
    )
    if config.model.initialisation == "authors":
        initialise_as_authors(network)
    if config.tagging.kind == "spans":
        assert relations is not None  # the settings are refused otherwise
        initialise_independent_tags(relations)
    return network


def _build_layer(config: Config, sizes: Sizes, first: bool, spec: CellSpec) -> TableSequenceLayer:
    width = config.model.width
    pairing = table = sequence = None
    if config.table.kind != "none":
        n_maps = sizes.n_attention_maps if config.table.attention_maps else 0
        pairing = Pairing(width, _table_width(config), n_maps, config.table.pairing)
        table = _build_table_encoder(config, first, spec)
    if config.sequence.kind != "none":
        heads = config.sequence.n_attention_heads
        guided = table is not None and config.model.interaction in ("both", "table-to-sequence")
        scores = TableGuidedScores(_table_width(config), heads) if guided else DotProductScores(width, heads)
        attention = SelfAttention(scores, width, heads, config.sequence.output_activation == "relu")
        sequence = SequenceLayer(attention, width, config.sequence.feedforward_width, config.model.dropout)
    return TableSequenceLayer(pairing, table, sequence)


def _build_table_encoder(config: Config, first: bool, spec: CellSpec) -> MDRNN | TableCNN:
    width = _table_width(config)
    table = config.table
    if table.kind == "cnn":
        return TableCNN(width, width, table.kernel_size, reads_below=not first)
    return MDRNN(width, width, table.directions, spec)


def _table_width(config: Config) -> int:
    return config.table.width or config.model.width


def count_parameters(network: TableSequenceNetwork) -> int:
    """Count the learned parameters like the paper: without the vector of unknown words, as part of the word vectors."""
    total = sum(parameter.numel() for parameter in network.parameters())
    words = network.embedder.words
    return total - (0 if words is None else sum(parameter.numel() for parameter in words.parameters()))
