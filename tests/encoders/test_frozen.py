from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear

from relatum.config import EncoderConfig
from relatum.encoders import frozen
from relatum.encoders.frozen import FrozenLinear, split_products
from relatum.encoders.huggingface import HuggingFaceEncoder
from relatum.kernels.compile import can_load
from relatum.kernels.linear import cpu

MakeModel = Callable[[str], Path]

# The products of a CPU with a matrix unit, in plain loops.
EMULATED = replace(cpu.SOURCE, flags=("-O1", "-DRELATUM_EMULATE_TILES"), needs=frozenset())


@pytest.fixture
def layer() -> FrozenLinear:
    torch.manual_seed(0)
    return FrozenLinear(24, 40).requires_grad_(False)


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    if not can_load(EMULATED)[0]:
        pytest.skip(can_load(EMULATED)[1])
    monkeypatch.setattr(cpu, "multiply", partial(cpu.multiply, source=EMULATED))


def few_and_many() -> list[Tensor]:
    return [torch.randn(n_rows, 24) for n_rows in (1, 7, frozen._FEW_ROWS + 1)]


@pytest.mark.parametrize("packs", [True, False])
def test_frozen_layer_is_a_linear_one(layer: FrozenLinear, packs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not packs:
        monkeypatch.setattr(frozen, "_can_pack", lambda _: False)
    for values in few_and_many():
        expected = linear(values, layer.weight, layer.bias)
        with torch.no_grad():
            torch.testing.assert_close(layer(values), expected)
            torch.testing.assert_close(layer.activate(values), gelu(expected))
    assert (layer._packed is not None) == (packs and frozen._can_pack(values[:1]))


def test_weights_that_are_moved_cast_or_loaded_are_packed_anew(layer: FrozenLinear) -> None:
    values = torch.randn(3, 24)
    with torch.no_grad():
        before = layer(values)
        layer.load_state_dict({"weight": 2 * layer.weight, "bias": 2 * layer.bias})
        torch.testing.assert_close(layer(values), 2 * before)
        rounded = layer.bfloat16()(values)
        assert rounded.dtype == torch.bfloat16
        # Values, weights and answers are rounded to 8 bits each: about three times what was seen.
        torch.testing.assert_close(rounded.float(), 2 * before, rtol=0, atol=0.009 * (2 * before).abs().max().item())
        widened = layer.float()(values)
        expected = linear(values, layer.weight, layer.bias)
        torch.testing.assert_close(widened, expected)


def test_packed_weights_are_made_once(layer: FrozenLinear) -> None:
    if not frozen._can_pack(torch.ones(1, 24)):
        pytest.skip("torch has no such products here")
    with torch.no_grad():
        first = layer(torch.ones(1, 24))
        packed = layer._packed
        assert torch.equal(layer(torch.ones(1, 24)), first)
        assert torch.equal(deepcopy(layer)(torch.ones(1, 24)), first)
    assert layer._packed is packed is not None


@pytest.mark.usefixtures("emulated")
def test_split_products_are_nearly_those_of_float32(layer: FrozenLinear) -> None:
    layer.split()
    for values in few_and_many():
        exact = linear(values.double(), layer.weight.double(), layer.bias.double())
        with torch.no_grad():
            for found, expected in ((layer(values), exact), (layer.activate(values), gelu(exact))):
                assert found.dtype == torch.float32
                assert 1e-7 < (found - expected).abs().max() / expected.abs().max() < 2e-5
    assert isinstance(layer._packed, cpu.Packed)


@pytest.mark.usefixtures("emulated")
def test_layer_that_splits_packs_anew_what_is_moved_cast_or_loaded(layer: FrozenLinear) -> None:
    values = torch.randn(3, 24)
    with torch.no_grad():
        plain = layer(values)
        layer.split()
        before = layer(values)
        assert not torch.equal(before, plain)
        packed = layer._packed
        assert torch.equal(layer(values), before)
        assert layer._packed is packed
        copied = deepcopy(layer)
        assert copied._packed is None
        assert torch.equal(copied(values), before)
        layer.load_state_dict({"weight": 2 * layer.weight, "bias": 2 * layer.bias})
        assert torch.equal(layer(values), 2 * before)
        assert layer.double()(values).dtype == torch.float64
        torch.testing.assert_close(layer(values).float(), 2 * plain)
        assert layer.bfloat16()(values).dtype == torch.bfloat16
        assert torch.equal(copied.to("cpu")(values), before)


@pytest.mark.usefixtures("emulated")
def test_layer_that_splits_has_gradients_as_any_other(layer: FrozenLinear) -> None:
    layer.split()
    values = torch.randn(3, 24, requires_grad=True)
    assert torch.equal(layer(values), linear(values, layer.weight, layer.bias))
    layer(values).sum().backward()
    assert values.grad is not None


@pytest.mark.usefixtures("emulated")
def test_all_linear_layers_of_a_network_are_split() -> None:
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(24, 32, bias=False), nn.LayerNorm(32))
    network = nn.Sequential(inner, FrozenLinear(32, 24)).requires_grad_(False)
    names, values = list(network.state_dict()), torch.randn(5, 24)
    with torch.no_grad():
        expected = network(values)
        split_products(network)
        found = network(values)
    assert list(network.state_dict()) == names
    assert {weight.dtype for weight in network.parameters()} == {torch.float32}
    for layer in (inner[0], network[1]):
        assert isinstance(layer, FrozenLinear)
        assert isinstance(layer._packed, cpu.Packed)
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)
    assert not torch.equal(found, expected)


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("kind", ["bert", "mpnet"])
def test_encoder_on_a_cpu_with_a_matrix_unit_keeps_its_weights(make_model: MakeModel, kind: str) -> None:
    encoder = HuggingFaceEncoder.load(make_model(kind), EncoderConfig(n_layers=1))
    sentences = [["Mara", "left"], ["Mara"]]
    full = encoder.encode(sentences)
    encoder.split_products()
    split = encoder.encode(sentences)
    assert {weight.dtype for weight in encoder._backbone.parameters()} == {torch.float32}
    assert full.attention_maps is not None
    assert split.attention_maps is not None
    torch.testing.assert_close(split.vectors, full.vectors, rtol=0, atol=1e-4)
    torch.testing.assert_close(split.attention_maps, full.attention_maps, rtol=0, atol=1e-4)
    assert not torch.equal(split.vectors, full.vectors)
