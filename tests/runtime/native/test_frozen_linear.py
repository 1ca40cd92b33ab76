from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.functional import linear

from relatum.kernels.compile import can_load
from relatum.kernels.linear import cpu
from relatum.runtime.native.frozen_linear import PackedLinear, SplitLinear, can_pack, replace_linear

# The products of a CPU with a matrix unit, in plain loops.
EMULATED = replace(cpu.SOURCE, flags=("-O1", "-DRELATUM_EMULATE_TILES"), needs=frozenset())


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    if not can_load(EMULATED)[0]:
        pytest.skip(can_load(EMULATED)[1])
    monkeypatch.setattr(cpu, "multiply", partial(cpu.multiply, source=EMULATED))


@pytest.fixture
def plain() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(24, 40).requires_grad_(False)


@pytest.fixture
def layer(plain: nn.Linear, emulated: None) -> SplitLinear:
    del emulated
    return SplitLinear(plain)


@pytest.mark.parametrize("n_rows", [1, 7, 300])
def test_split_products_are_nearly_those_of_float32(layer: SplitLinear, n_rows: int) -> None:
    values = torch.randn(n_rows, 24)
    exact = linear(values.double(), layer.weight.double(), layer.bias.double())
    with torch.no_grad():
        found = layer(values)
    assert found.dtype == torch.float32
    assert 1e-7 < (found - exact).abs().max() / exact.abs().max() < 2e-5


def test_weights_that_are_moved_cast_or_loaded_are_packed_anew(plain: nn.Linear, layer: SplitLinear) -> None:
    values = torch.randn(3, 24)
    with torch.no_grad():
        before = layer(values)
        assert not torch.equal(before, plain(values))
        assert torch.equal(layer(values), before)
        copied = deepcopy(layer)
        assert torch.equal(copied(values), before)
        layer.load_state_dict({"weight": 2 * layer.weight, "bias": 2 * layer.bias})
        assert torch.equal(layer(values), 2 * before)
        assert torch.equal(copied(values), before)
        assert layer.double()(values.double()).dtype == torch.float64
        assert torch.equal(layer.float()(values), 2 * before)


def test_layer_has_gradients_as_any_other(plain: nn.Linear, layer: SplitLinear) -> None:
    values = torch.randn(3, 24, requires_grad=True)
    assert torch.equal(layer(values), plain(values))
    layer(values).sum().backward()
    assert values.grad is not None


@pytest.mark.usefixtures("emulated")
def test_all_linear_layers_of_a_network_are_split() -> None:
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(24, 32, bias=False), nn.LayerNorm(32))
    network = nn.Sequential(inner, nn.Linear(32, 24)).requires_grad_(False)
    names, values = list(network.state_dict()), torch.randn(5, 24)
    with torch.no_grad():
        expected = network(values)
        replace_linear(network, SplitLinear)
        found = network(values)
    assert list(network.state_dict()) == names
    assert isinstance(inner[0], SplitLinear)
    assert isinstance(network[1], SplitLinear)
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-5)
    assert not torch.equal(found, expected)


@pytest.mark.skipif(not can_pack(), reason="torch has no such products here")
@pytest.mark.parametrize("n_rows", [1, 7, 300])
def test_packed_layer_is_a_linear_one(plain: nn.Linear, n_rows: int) -> None:
    packed, values = PackedLinear(plain), torch.randn(n_rows, 24)
    with torch.no_grad():
        torch.testing.assert_close(packed(values), plain(values))
        packed.load_state_dict({"weight": 2 * plain.weight, "bias": 2 * plain.bias})
        torch.testing.assert_close(packed(values), linear(values, packed.weight, packed.bias))
        assert packed.double()(values.double()).dtype == torch.float64
