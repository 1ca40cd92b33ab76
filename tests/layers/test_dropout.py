"""Dropout on a CPU, against what dropout must do."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import gradcheck
from torch.nn import functional

from relatum.layers.dropout import Dropout, dropout


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_dropout_drops_the_share_and_keeps_the_mean(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    dropped = dropout(torch.ones(500, 401, dtype=dtype), p)  # not a multiple of four numbers
    values = dropped.unique()
    assert len(values) == 2
    assert values[0] == 0
    n_kept = 2**16 - round(p * 2**16)
    assert values[1] == torch.tensor(2**16 / n_kept, dtype=torch.float32).to(dtype)
    shares = (dropped == 0).double()
    assert abs(shares.mean().item() - p) < 4 * (p * (1 - p) / dropped.numel()) ** 0.5
    # Neither rows, columns nor neighbours are dropped together: a word of random numbers serves four values.
    for axis, n in ((0, 500), (1, 401)):
        assert (shares.mean(axis) - p).abs().max() < 5 * (p * (1 - p) / n) ** 0.5
    for lag in (1, 2, 3, 4):
        both = (shares.flatten()[lag:] * shares.flatten()[:-lag]).mean().item()
        assert abs(both - p * p) < 5 * (p * p / dropped.numel()) ** 0.5


@pytest.mark.parametrize("p", [1 / 65536, 65535 / 65536])
def test_dropout_can_drop_nearly_nothing_and_nearly_everything(p: float) -> None:
    torch.manual_seed(0)
    n_dropped = (dropout(torch.ones(2**21), p) == 0).sum().item()
    expected = p * 2**21
    assert abs(n_dropped - expected) < 6 * (expected * (1 - p)) ** 0.5


def test_dropout_of_nothing_and_of_everything_is_that_of_torch() -> None:
    values = torch.randn(3, 5)
    assert torch.equal(dropout(values, 0.0), values)
    assert torch.equal(dropout(values, 1.0), torch.zeros(3, 5))
    assert dropout(torch.empty(0, 4), 0.5).shape == (0, 4)


def test_dropout_of_a_module_stops_in_evaluation() -> None:
    module = Dropout(0.5)
    values = torch.randn(20, 20)
    assert not torch.equal(module(values), values)
    assert torch.equal(module.eval()(values), values)
    assert torch.equal(dropout(values, 0.5, training=False), functional.dropout(values, 0.5, training=False))


def test_dropout_depends_on_the_seed_alone() -> None:
    values = torch.randn(7, 9)
    torch.manual_seed(3)
    first, second = dropout(values, 0.3), dropout(values, 0.3)
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(dropout(values, 0.3), first)


def test_gradients_of_dropout_pass_where_values_pass() -> None:
    values = torch.randn(4, 6, dtype=torch.double, requires_grad=True)

    def with_seed(values: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(1)
        return dropout(values, 0.4)

    assert gradcheck(with_seed, (values,))
