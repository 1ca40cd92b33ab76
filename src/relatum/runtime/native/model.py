"""A model that compiled code reads with on a CPU, without torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relatum.config import Config, EncoderConfig
from relatum.encoders.bert_weights import BertShape, BertWeights
from relatum.encoders.cutting import SentenceCutter
from relatum.encoders.pieces import PieceTokenizer
from relatum.encoders.weight_changes import read_changes
from relatum.encoders.weights import read_settings
from relatum.errors import RelatumError
from relatum.kernels.arrays import Array, to_bfloat16, to_float32
from relatum.kernels.compile import can_load
from relatum.kernels.encoder import cpu as encoder_code
from relatum.kernels.encoder.cpu import DenseWeights, EncoderWeights, LayerWeights, NormWeights, PackedEncoder, Products
from relatum.kernels.linear.cpu import is_available as can_split
from relatum.kernels.network import cpu as network_code
from relatum.kernels.network.characters import PackedCharacters
from relatum.kernels.network.whole import PackedNetwork
from relatum.kernels.threads import ForkLock
from relatum.models.record import CURE
from relatum.models.stored import WEIGHTS, StoredModel
from relatum.models.vocabulary import Vocabulary
from relatum.runtime.native.network import (
    RefusedError,
    find_forms,
    make_word_table,
    pack_characters,
    pack_layer,
    pack_layers,
    select_part,
)
from relatum.runtime.native.pooling import pooling_options
from relatum.runtime.precision import Precision
from relatum.schema import Schema
from relatum.tagging.tagging import Tagging
from relatum.types import Calibration

if TYPE_CHECKING:
    from relatum.models.model import Model


class NativeBert(SentenceCutter):
    """A frozen BERT for compiled code."""

    def __init__(
        self,
        weights: BertWeights,
        tokenizer: PieceTokenizer,
        config: EncoderConfig,
        want_maps: bool,
        folder: Path,
        adapters: Path | None,
    ) -> None:
        self.weights, self.tokenizer, self.config, self.want_maps = weights, tokenizer, config, want_maps
        self.folder, self.adapters = folder, adapters
        self.pooling = pooling_options(config, want_maps)

    @classmethod
    def load(cls, folder: Path, config: EncoderConfig, want_maps: bool, adapters: Path | None) -> NativeBert:
        """Load the BERT of a folder; an encoder of another kind is a `RefusedError`."""
        shape = BertShape.from_config(read_settings(folder))
        if shape is None:
            raise RefusedError("the encoder is no BERT")
        if config.n_layers > shape.n_layers:
            raise RefusedError(f"encoder.n_layers is {config.n_layers}, and the encoder has {shape.n_layers} layers")
        changes = {} if adapters is None else read_changes(adapters)
        weights = BertWeights.read(folder, shape, changes)
        return cls(weights, PieceTokenizer.load(folder), config, want_maps, folder, adapters)

    @property
    def n_positions(self) -> int:
        return self.weights.shape.n_positions

    def pack(self, products: Products) -> PackedEncoder:
        """Pack the weights for products of this kind."""
        shape, find = self.weights.shape, self.weights.find

        def dense(name: str) -> DenseWeights:
            return DenseWeights(find(f"{name}.weight"), find(f"{name}.bias"))

        def norm(name: str) -> NormWeights:
            return NormWeights(find(f"{name}.weight"), find(f"{name}.bias"), shape.norm_epsilon)

        layers = [
            LayerWeights(
                dense(f"layers.{number}.attention.projection"),
                dense(f"layers.{number}.attention.output"),
                norm(f"layers.{number}.attention_norm"),
                dense(f"layers.{number}.inner"),
                dense(f"layers.{number}.outer"),
                norm(f"layers.{number}.norm"),
            )
            for number in range(shape.n_layers)
        ]
        positions = find("positions.weight") + find("segments.weight")[0]
        weights = EncoderWeights(find("pieces.weight"), positions, norm("norm"), layers, shape.n_attention_heads)
        return PackedEncoder(weights, products)


@dataclass(frozen=True, slots=True)
class PackedModel:
    """The weights of a model as compiled code takes them."""

    encoder: PackedEncoder
    network: PackedNetwork
    characters: PackedCharacters | None
    word_table: Array | None


@dataclass(frozen=True)
class NativeModel:
    """A model for compiled code: what `models.model.Model` is for torch. Its weights never change."""

    stored: StoredModel
    encoder: NativeBert
    words: Vocabulary | None
    characters: Vocabulary | None
    precision: Precision
    device: str = "cpu"
    _lock: ForkLock = field(default_factory=ForkLock, compare=False, repr=False)

    @classmethod
    def of(cls, stored: StoredModel, precision: Precision = "fp32") -> NativeModel:
        """Make a model of what its directory holds; one that compiled code does not have is a `RefusedError`.

        Compiles the code on first call.
        """
        refusal = find_refusal()
        if refusal is not None:
            raise RefusedError(refusal)
        config = stored.config
        encoder = config.encoder
        if len(stored.encoders) != 1 or not stored.reads_maps:
            raise RefusedError("the table reads no attention maps, or the maps of several encoders")
        if encoder.kind != "huggingface" or encoder.mixing != "mean":
            raise RefusedError("the encoder is no BERT, or the network mixes its layers")
        find_forms(config)
        characters = Vocabulary(stored.characters) if config.characters.kind == "lstm" else None
        words = None if stored.words is None else Vocabulary(stored.words, config.words.lower)
        bert = NativeBert.load(stored.encoders[0], encoder, stored.reads_maps, stored.adapters)
        model = cls(stored, bert, words, characters, precision)
        model._check()
        return model

    @property
    def config(self) -> Config:
        return self.stored.config

    @property
    def schema(self) -> Schema:
        return self.stored.schema

    @property
    def calibration(self) -> Calibration | None:
        return self.stored.calibration

    @cached_property
    def tagging(self) -> Tagging:
        return Tagging.of(self.schema, self.config.tagging)

    @cached_property
    def _packed(self) -> PackedModel:
        weights = {name: to_float32(values) for name, values in self.stored.weights.items() if "words." not in name}
        forms, outer = find_forms(self.config)
        layers = []
        for number, form in enumerate(forms):
            of_layer = select_part(weights, f"layers.{number}.")
            if self.precision == "bf16":  # as `set_precision` casts a model of torch
                cast = ("pairing.", "table_encoder.")
                of_layer |= {name: to_bfloat16(one) for name, one in of_layer.items() if name.startswith(cast)}
            layers.append(pack_layer(of_layer, form))
        reader = select_part(weights, "embedder.characters.")
        products: Products = "int8" if self.precision == "int8" else "float32"
        if self.precision == "bf16" and can_split():
            products = "split"
        return PackedModel(
            self.encoder.pack(products),
            pack_layers(layers, weights, outer),
            pack_characters(reader) if self.characters is not None else None,
            make_word_table(self.stored.weights) if self.words is not None else None,
        )

    def pack(self) -> PackedModel:
        """Return the packed weights; they are packed once."""
        with self._lock:
            return self._packed

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_packed"}

    def _check(self) -> None:
        """Refuse weights that do not fit the settings."""
        expected, found = expected_shapes(self), {name: one.shape for name, one in self.stored.weights.items()}
        for name in expected.keys() | found.keys():
            if expected.get(name) != found.get(name):
                raise RelatumError(
                    f"{self.stored.path / WEIGHTS}: the weights do not fit config.json: {name} has the shape "
                    f"{found.get(name, 'of nothing')}, expected {expected.get(name, 'no such weight')}\n{CURE}"
                )

    def to_torch(self) -> Model:
        """Return the same model as modules of torch."""
        from relatum.encoders.bert import make_bert
        from relatum.encoders.huggingface import HuggingFaceEncoder
        from relatum.models.checkpoint import make_model
        from relatum.runtime.precision import set_precision

        own = self.encoder
        encoder = HuggingFaceEncoder(
            make_bert(own.weights), own.tokenizer, own.config, own.want_maps, own.folder, own.adapters
        )
        model = make_model(self.stored, encoder)
        set_precision(model, self.precision)
        return model


def expected_shapes(model: NativeModel) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights of the network that a model's settings describe."""
    config, shape = model.config, model.encoder.weights.shape
    width, table = config.model.width, config.table.width or config.model.width
    heads, inner = config.sequence.n_attention_heads, config.sequence.feedforward_width
    n_maps = shape.n_layers * shape.n_attention_heads
    shapes: dict[str, tuple[int, ...]] = {}

    def dense(name: str, n_outputs: int, n_inputs: int) -> None:
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = (n_outputs, n_inputs), (n_outputs,)

    joined = shape.width
    if model.characters is not None:
        of_characters = config.characters.width
        own = of_characters // 2
        shapes["embedder.characters.embedding.weight"] = len(model.characters), of_characters
        for end in ("", "_reverse"):
            lstm = "embedder.characters.lstm."
            shapes[f"{lstm}weight_ih_l0{end}"] = 4 * own, of_characters
            shapes[f"{lstm}weight_hh_l0{end}"] = 4 * own, own
            shapes[f"{lstm}bias_ih_l0{end}"] = shapes[f"{lstm}bias_hh_l0{end}"] = (4 * own,)
        joined += of_characters
    if model.words is not None:
        n_numbers = model.stored.weights["embedder.words.vectors"].shape[1]
        shapes["embedder.words.vectors"] = len(model.words), n_numbers
        if config.words.unknown == "learned":
            shapes["embedder.words.unknown"] = (n_numbers,)
        joined += n_numbers
    dense("embedder.projection", width, joined)
    on_diagonal = config.model.entity_source == "diagonal"
    dense("entity_scorer", len(model.tagging.words.names), table if on_diagonal else width)
    dense("relation_scorer", len(model.tagging.cells.names), table)
    for number, form in enumerate(find_forms(config)[0]):
        layer, spec, n = f"layers.{number}.", form.scan.spec, len(form.scan.directions)
        own = table // n
        dense(f"{layer}pairing.first", table, 2 * width)
        dense(f"{layer}pairing.second", table, table + n_maps)
        shapes[f"{layer}table_encoder.input"] = n, table, spec.n_parts * own
        shapes[f"{layer}table_encoder.state"] = n, len(spec.slots) * own, spec.n_parts * own
        for kind in ("input", "state"):
            shapes[f"{layer}table_encoder.{kind}_bias"] = n, spec.n_parts * own
        sequence = f"{layer}sequence_encoder."
        shapes[f"{sequence}attention.scores.guide.weight"] = heads, table
        dense(f"{sequence}attention.value", width, width)
        dense(f"{sequence}attention.output", width, width)
        dense(f"{sequence}feedforward.0", inner, width)
        dense(f"{sequence}feedforward.3", width, inner)
        for norm in ("attention_norm", "feedforward_norm"):
            shapes[f"{sequence}{norm}.weight"] = shapes[f"{sequence}{norm}.bias"] = (width,)
    return shapes


def explain_machine() -> tuple[bool, str]:
    """Return whether compiled code can read here, and why or why not; nothing is compiled."""
    return can_load(network_code.SOURCE)


def find_refusal() -> str | None:
    """Return why compiled code cannot read on this machine; None if it can. Compiles the code on first call."""
    for code in (network_code, encoder_code):
        can, reason = can_load(code.SOURCE)
        if not can:
            return reason
        if not code.is_available():
            return "the code could not be compiled, as a warning says"
    return None
