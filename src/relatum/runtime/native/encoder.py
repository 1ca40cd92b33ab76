"""A frozen BERT in one call of compiled code, from pieces to the features of words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import torch

from relatum.encoders.base import EncoderInput, EncoderOutput, TextEncoder
from relatum.encoders.bert import Bert
from relatum.encoders.huggingface import HuggingFaceEncoder
from relatum.kernels.backend import allows_compiled
from relatum.kernels.encoder.cpu import PackedEncoder, PoolingOptions, PreparedFeatures, is_available
from relatum.models.model import Model
from relatum.runtime.native.frozen_linear import PackedLinear, SplitLinear, can_pack, can_split, replace_linear
from relatum.runtime.native.pooling import locate_words, pooling_options
from relatum.runtime.native.weights import pack_bert
from relatum.runtime.packing import Packing
from relatum.runtime.precision import has_half_precision


class NativeEncoder(HuggingFaceEncoder):
    """A frozen BERT that reads in compiled code, and in plain torch if compiled code cannot run.

    With `splits`, each product is made of several products in bfloat16, see `kernels/linear`.
    """

    def __init__(self, encoder: HuggingFaceEncoder, bert: Bert, splits: bool = False) -> None:
        super().__init__(bert, encoder.tokenizer, encoder.config, encoder.want_maps, encoder.folder, encoder.adapters)
        self.device = encoder.device
        self._bert, self._splits = bert, splits
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
        packed = self._packing.find(self._bert.norm, lambda: PackedEncoder(pack_bert(self._bert), self._splits))
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


def accelerate(encoder: TextEncoder, half_precision: bool = False) -> TextEncoder:
    """Return an encoder on a CPU that computes in compiled code as far as possible.

    For a model in half precision, products are split where the CPU has a matrix unit.
    """
    splits = half_precision and can_split()

    def replace_one(transformer: HuggingFaceEncoder) -> TextEncoder:
        backbone = transformer.backbone
        if isinstance(backbone, Bert) and is_available():
            return NativeEncoder(transformer, backbone, splits)
        if splits:
            replace_linear(backbone, SplitLinear)
        elif isinstance(backbone, Bert) and can_pack():  # no compiler: plain torch, but faster at single sentences
            replace_linear(backbone, PackedLinear)
        return transformer

    return encoder.replace_transformers(replace_one)
