"""A BERT in compiled code: the features of plain torch, computed when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from relatum.config import EncoderConfig
from relatum.encoders.base import EncoderInput, EncoderOutput
from relatum.encoders.bert import Bert, BertLayer
from relatum.encoders.cache import CachedEncoder, MemoryStore
from relatum.encoders.huggingface import HuggingFaceEncoder
from relatum.encoders.stacked import StackedEncoder
from relatum.errors import ConfigError
from relatum.kernels.backend import use_backend
from relatum.kernels.compile import can_load
from relatum.kernels.encoder.cpu import is_available
from relatum.kernels.linear import cpu as linear
from relatum.runtime.native import encoder as module
from relatum.runtime.native.encoder import NativeEncoder, accelerate, round_encoder, with_native_encoder
from relatum.runtime.native.frozen_linear import Int8Linear, PackedLinear, can_pack
from relatum.types import Context

from ...small_models import make_small_model

MakeModel = Callable[..., Path]

SENTENCES = [["ab", "a", "abca", "q", "bc"], ["a"], ["cab", "\u00ad", "b"]]
CONTEXT = [Context(("b", "a"), ("ca", "a")), Context(("c",), ()), Context((), ("ab", "b"))]
SETTINGS: list[dict[str, Any]] = [
    {"n_layers": 2},
    {"n_layers": 3, "pooling": "first", "attention_pooling": "mean"},
    {"n_layers": 1, "mixing": "learned"},
]
# The products of a CPU with a matrix unit, in plain loops.
EMULATED = replace(linear.SOURCE, flags=("-O1", "-DRELATUM_EMULATE_TILES"), needs=frozenset())

needs_compiled_code = pytest.mark.skipif(not is_available(), reason="there is no compiled code here")


def load(folder: Path, want_maps: bool = True, **settings: Any) -> HuggingFaceEncoder:
    return HuggingFaceEncoder.load(folder, EncoderConfig(**settings), want_maps)


def load_native(folder: Path, want_maps: bool = True, **settings: Any) -> NativeEncoder:
    if not is_available():
        pytest.skip("there is no compiled code here")
    encoder = accelerate(load(folder, want_maps, **settings))
    assert isinstance(encoder, NativeEncoder)
    return encoder


def assert_close(found: EncoderOutput, wanted: EncoderOutput) -> None:
    torch.testing.assert_close(found.vectors, wanted.vectors, rtol=1e-5, atol=2e-6)
    torch.testing.assert_close(found.attention_maps, wanted.attention_maps, rtol=1e-5, atol=1e-6)


@needs_compiled_code
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("want_maps", [True, False])
@pytest.mark.parametrize("context", [0, 3])
def test_compiled_encoder_says_what_torch_does(
    make_model: MakeModel, settings: dict[str, Any], want_maps: bool, context: int
) -> None:
    folder = make_model("bert")
    batch = EncoderInput([*SENTENCES, []], [*CONTEXT, Context(("a",), ("b",))])
    native = load_native(folder, want_maps, context=context, **settings)
    assert native.prepare(batch) is not None
    assert_close(native.encode(batch), load(folder, want_maps, context=context, **settings).encode(batch))


def test_native_encoder_describes_itself_like_the_plain_one(make_model: MakeModel) -> None:
    plain, native = load(make_model("bert"), n_layers=2), load_native(make_model("bert"), n_layers=2)
    for name in ("width", "n_mixed", "n_attention_maps", "heads_per_layer", "max_pieces", "folder", "fingerprint"):
        assert getattr(native, name) == getattr(plain, name)
    assert native.count_pieces(SENTENCES[0]) == plain.count_pieces(SENTENCES[0])


@needs_compiled_code
def test_prepared_features_are_computed_when_they_are_asked_for(make_model: MakeModel) -> None:
    encoder, batch = load_native(make_model("bert"), n_layers=2), EncoderInput(SENTENCES)
    wanted = encoder.encode(batch)
    prepared = encoder.prepare(batch)
    assert prepared is not None
    prepared.vectors.fill(np.nan)
    prepared.run()
    assert np.array_equal(prepared.vectors, wanted.vectors)
    assert prepared.maps is not None
    assert wanted.attention_maps is not None
    assert np.array_equal(prepared.maps, wanted.attention_maps)


def test_plain_torch_reads_what_compiled_code_cannot(make_model: MakeModel) -> None:
    folder, batch = make_model("bert"), EncoderInput(SENTENCES)
    encoder, wanted = load_native(folder, n_layers=2), load(folder, n_layers=2).encode(batch)
    assert encoder.prepare(EncoderInput([[], []])) is None
    assert encoder.encode(EncoderInput([[], []])).vectors.shape == (2, 0, 16)
    with use_backend("wavefront"):
        assert encoder.prepare(batch) is None
        assert torch.equal(encoder.encode(batch).vectors, wanted.vectors)
    encoder.backbone.double()
    assert encoder.prepare(batch) is None
    torch.testing.assert_close(encoder.encode(batch).vectors.float(), wanted.vectors, rtol=1e-4, atol=1e-5)


@needs_compiled_code
def test_encoder_with_other_weights_is_packed_anew(make_model: MakeModel) -> None:
    encoder, batch = load_native(make_model("bert"), n_layers=2), EncoderInput(SENTENCES)
    before = encoder.encode(batch).vectors
    backbone = encoder.backbone
    backbone.load_state_dict({name: 1.5 * value for name, value in backbone.state_dict().items()})
    found = encoder.encode(batch).vectors
    with use_backend("wavefront"):
        plain = encoder.encode(batch).vectors
    torch.testing.assert_close(found, plain, rtol=1e-5, atol=1e-5)
    assert not torch.allclose(found, before, atol=1e-2)


@needs_compiled_code
def test_every_bert_is_replaced_and_nothing_else(make_model: MakeModel) -> None:
    bert, mpnet = load(make_model("bert"), n_layers=2), load(make_model("mpnet"), n_layers=2)
    assert accelerate(mpnet) is mpnet
    stacked = accelerate(StackedEncoder([bert, mpnet]))
    assert [type(member) for member in stacked.members] == [NativeEncoder, HuggingFaceEncoder]
    cached = CachedEncoder(bert, EncoderConfig(n_layers=2), store=MemoryStore(10**6))
    assert accelerate(cached) is cached
    assert isinstance(cached.inner, NativeEncoder)
    inner = cached.inner
    assert accelerate(cached) is cached
    assert cached.inner is inner, "its packed weights are kept"


def test_bert_without_compiled_code_has_packed_weights(make_model: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = EncoderInput(SENTENCES)
    wanted = load(make_model("bert"), n_layers=2).encode(batch)
    monkeypatch.setattr(module, "is_available", lambda: False)
    encoder = accelerate(load(make_model("bert"), n_layers=2))
    assert isinstance(encoder, HuggingFaceEncoder)
    assert not isinstance(encoder, NativeEncoder)
    assert any(isinstance(part, PackedLinear) for part in encoder.backbone.modules()) == can_pack()
    assert_close(encoder.encode(batch), wanted)


@needs_compiled_code
def test_stored_model_keeps_its_encoder() -> None:
    model = make_small_model("encoder.kind=huggingface")
    fast = with_native_encoder(model)
    assert isinstance(fast.encoder, NativeEncoder)
    assert not isinstance(model.encoder, NativeEncoder)
    assert fast.network is model.network


@needs_compiled_code
def test_products_in_8_bits_are_those_of_plain_torch(make_model: MakeModel) -> None:
    """In one layer; in more, values between two steps are rounded either way, and change all that follows."""
    batch = EncoderInput(SENTENCES)
    model = make_small_model("encoder.kind=huggingface")
    encoder = load(make_model("bert", num_hidden_layers=1), n_layers=1)
    full = encoder.encode(batch)
    round_encoder(replace(model, encoder=encoder))
    plain, fast = encoder.encode(batch), accelerate(encoder)
    assert isinstance(fast, NativeEncoder)
    assert_close(fast.encode(batch), plain)
    assert not torch.allclose(plain.vectors, full.vectors, atol=1e-4)
    torch.testing.assert_close(plain.vectors, full.vectors, rtol=0, atol=0.1)


@needs_compiled_code
def test_weights_and_values_that_are_all_equal_are_exact_in_8_bits() -> None:
    values = torch.cat([torch.full((3, 130), 0.7), torch.full((3, 130), -2.0), torch.zeros(3, 20)], -1)
    layer = torch.nn.Linear(280, 5)
    layer.weight.data[:, :] = torch.tensor([0.0, 0.5, -0.25, 1e-41, 3.0])[:, None]
    layer.weight.data[4, :128] = 0
    found = Int8Linear(layer)(values)
    torch.testing.assert_close(found, layer(values), rtol=1e-5, atol=1e-5)


@needs_compiled_code
def test_outputs_without_weights_are_their_biases_in_8_bits(make_model: MakeModel) -> None:
    encoder = load(make_model("bert", num_hidden_layers=1), n_layers=1)
    assert isinstance(encoder.backbone, Bert)
    layer = encoder.backbone.layers[0]
    assert isinstance(layer, BertLayer)
    for part in (layer.attention.projection, layer.inner, layer.outer):
        part.weight.data[::2] = 0
    layer.outer.weight.data[1] = 1e-41
    batch = EncoderInput(SENTENCES)
    round_encoder(replace(make_small_model("encoder.kind=huggingface"), encoder=encoder))
    plain, fast = encoder.encode(batch), accelerate(encoder)
    assert plain.vectors.isfinite().all()
    assert_close(fast.encode(batch), plain)


def test_int8_is_refused_where_it_has_no_effect(make_model: MakeModel, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_small_model("encoder.kind=huggingface")
    mpnet = replace(model, encoder=load(make_model("mpnet"), n_layers=1))
    with pytest.raises(ConfigError, match=r"precision 'int8': the encoder .* is no BERT; use precision 'fp32'"):
        round_encoder(mpnet)
    with pytest.raises(ConfigError, match=r"precision 'int8': the model has no transformer; use precision 'fp32'"):
        round_encoder(replace(model, encoder=None))
    with pytest.raises(ConfigError, match=r"precision 'int8': it reads on the CPU, and the device is 'meta'; use"):
        round_encoder(replace(model, network=deepcopy(model.network).to("meta")))
    monkeypatch.setattr(module, "is_available", lambda: False)
    with pytest.raises(ConfigError, match=r"precision 'int8': it needs compiled code, but .*; use precision 'fp32'"):
        round_encoder(model)


@needs_compiled_code
@pytest.mark.parametrize(("unit", "half"), [(True, True), (False, True), (True, False)])
def test_products_are_split_for_half_precision_on_a_cpu_with_a_matrix_unit(
    make_model: MakeModel, unit: bool, half: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "can_split", lambda: unit)
    encoder = accelerate(load(make_model("bert"), n_layers=2), half)
    assert isinstance(encoder, NativeEncoder)
    assert encoder._products == ("split" if unit and half else "float32")


@pytest.mark.skipif(not can_load(EMULATED)[0], reason=can_load(EMULATED)[1])
def test_encoder_of_split_products_is_nearly_the_plain_one(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linear, "multiply", partial(linear.multiply, source=EMULATED))
    monkeypatch.setattr(module, "can_split", lambda: True)
    encoder, batch = load(make_model("mpnet"), n_layers=1), EncoderInput([["ab", "c"], ["a"]])
    full = encoder.encode(batch)
    split = accelerate(encoder, half_precision=True).encode(batch)
    assert {weight.dtype for weight in encoder.backbone.parameters()} == {torch.float32}
    torch.testing.assert_close(split.vectors, full.vectors, rtol=0, atol=1e-4)
    torch.testing.assert_close(split.attention_maps, full.attention_maps, rtol=0, atol=1e-4)
    assert not torch.equal(split.vectors, full.vectors)
