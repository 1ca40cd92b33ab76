"""A frozen BERT in one call of compiled code, from pieces to the features of words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import torch

from relatum.encoders.base import EncoderInput, EncoderOutput, TextEncoder
from relatum.encoders.bert import Bert
from relatum.encoders.huggingface import HuggingFaceEncoder
from relatum.errors import ConfigError
from relatum.kernels.backend import allows_compiled
from relatum.kernels.compile import can_load
from relatum.kernels.encoder.cpu import SOURCE, PackedEncoder, PoolingOptions, PreparedFeatures, Products, is_available
from relatum.models.model import Model
from relatum.runtime.native.frozen_linear import (
    Int8Linear,
    PackedLinear,
    SplitLinear,
    can_pack,
    can_split,
    replace_linear,
)
from relatum.runtime.native.pooling import locate_words, pooling_options
from relatum.runtime.native.weights import pack_bert
from relatum.runtime.packing import Packing
from relatum.runtime.precision import has_half_precision


class NativeEncoder(HuggingFaceEncoder):
    """A frozen BERT that reads in compiled code, and in plain torch if compiled code cannot run."""

    def __init__(self, encoder: HuggingFaceEncoder, bert: Bert, products: Products = "float32") -> None:
        super().__init__(bert, encoder.tokenizer, encoder.config, encoder.want_maps, encoder.folder, encoder.adapters)
        self.device = encoder.device
        self._bert, self._products = bert, products
        self._packing: Packing[PackedEncoder] = Packing()

    @torch.no_grad()
    def encode(self, batch: EncoderInput) -> EncoderOutput:
        prepared = self.prepare(batch)
        if prepared is None:
            return super().encode(batch)
        prepared.run()
        return _output_of(prepared)

    def prepare(self, batch: EncoderInput) -> PreparedFeatures | None:
        """Prepare the features of a batch for one call of compiled code; None if compiled code cannot run."""
        if not any(batch.words) or not self._can_pack():
            return None
        # A frozen encoder changes as a whole or not at all, so one of its norms stands for all weights: to look at a
        # hundred weights before every sentence would take longer than all else here.
        packed = self._packing.find(self._bert.norm, lambda: PackedEncoder(pack_bert(self._bert), self._products))
        return packed.prepare(*locate_words(self.cut(batch)), self._pooling)

    def replace_transformers(self, replace: Callable[[HuggingFaceEncoder], TextEncoder]) -> TextEncoder:
        del replace  # it is fast already
        return self

    def _can_pack(self) -> bool:
        weight = self._bert.norm.weight
        return weight.is_cpu and weight.dtype == torch.float32 and allows_compiled() and is_available()

    @cached_property
    def _pooling(self) -> PoolingOptions:
        return pooling_options(self.config, self.want_maps)


def prepare_features(
    model: Model, batch: EncoderInput, features: EncoderOutput | None
) -> tuple[EncoderOutput, Callable[[], None]]:
    """Return features and a function that computes them; before it is called, their values may be anything.

    Features that are given, or that the network has to mix first, are computed already.
    """
    encoder = model.encoder
    assert encoder is not None
    if features is not None:
        return features, _do_nothing
    if isinstance(encoder, NativeEncoder) and model.network.embedder.mixing is None:
        prepared = encoder.prepare(batch)
        if prepared is not None:
            return _output_of(prepared), prepared.run
    return encoder.encode(batch), _do_nothing


def _output_of(prepared: PreparedFeatures) -> EncoderOutput:
    maps = prepared.maps
    return EncoderOutput(torch.from_numpy(prepared.vectors), None if maps is None else torch.from_numpy(maps))


def _do_nothing() -> None:
    pass


def with_native_encoder(model: Model) -> Model:
    """Return the model with every transformer that compiled code is faster at computed by it; on a CPU only."""
    if model.encoder is None or model.device.type != "cpu":
        return model
    return replace(model, encoder=accelerate(model.encoder, has_half_precision(model.network)))


def round_encoder(model: Model) -> None:
    """Let the encoder of a model multiply in 8-bit integers from now on."""
    n_rounded = 0

    def round_one(transformer: HuggingFaceEncoder) -> TextEncoder:
        nonlocal n_rounded
        if not isinstance(transformer.backbone, Bert):
            raise ConfigError(f"precision 'int8': the encoder {transformer.folder} is no BERT; {_INT8_CURE}")
        replace_linear(transformer.backbone, Int8Linear)
        n_rounded += 1
        return transformer

    if model.device.type != "cpu":
        raise ConfigError(f"precision 'int8': it reads on the CPU, and the device is {str(model.device)!r}; use 'cpu'")
    if not is_available():
        raise ConfigError(f"precision 'int8': it needs compiled code, but {can_load(SOURCE)[1]}; {_INT8_CURE}")
    if model.encoder is not None:
        model.encoder.replace_transformers(round_one)
    if not n_rounded:
        raise ConfigError(f"precision 'int8': the model has no transformer; {_INT8_CURE}")


_INT8_CURE = "use precision 'fp32'"


def products_of(bert: Bert, splits: bool) -> Products:
    """Return how compiled code should compute the products of a BERT; with `splits`, those in float32 are split."""
    if any(isinstance(part, Int8Linear) for part in bert.modules()):
        return "int8"
    return "split" if splits else "float32"


def accelerate(encoder: TextEncoder, half_precision: bool = False) -> TextEncoder:
    """Return an encoder on a CPU that computes in compiled code as far as possible.

    For a model in half precision, products are split where the CPU has a matrix unit.
    """
    splits = half_precision and can_split()

    def replace_one(transformer: HuggingFaceEncoder) -> TextEncoder:
        backbone = transformer.backbone
        if isinstance(backbone, Bert) and is_available():
            return NativeEncoder(transformer, backbone, products_of(backbone, splits))
        if splits:
            replace_linear(backbone, SplitLinear)
        elif isinstance(backbone, Bert) and can_pack():  # no compiler: plain torch, but faster at single sentences
            replace_linear(backbone, PackedLinear)
        return transformer

    return encoder.replace_transformers(replace_one)
