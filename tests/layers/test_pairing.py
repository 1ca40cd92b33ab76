"""The table of word pairs, against the concatenations of equations 2 and 10 written out."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from relatum.layers.pairing import Pairing

WIDTH, TABLE_WIDTH, N_MAPS = 4, 6, 3
Form = Literal["one-step", "two-step"]


def make(n_maps: int, form: Form, n_words: int = 5) -> tuple[Pairing, Tensor, Tensor]:
    torch.manual_seed(0)
    pairing = Pairing(WIDTH, TABLE_WIDTH, n_maps, form).double()
    sequence = torch.randn(2, n_words, WIDTH, dtype=torch.float64)
    return pairing, sequence, torch.rand(2, n_words, n_words, N_MAPS, dtype=torch.float64)


def assert_cells(found: Tensor, cell: Tensor, place: tuple[int, int, int]) -> None:
    torch.testing.assert_close(found[place], cell, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("form", ["one-step", "two-step"])
def test_pairing_without_maps_is_equation_2(form: Form) -> None:
    pairing, s, _ = make(0, form)
    found = pairing(s, None)
    assert found.shape == (2, 5, 5, TABLE_WIDTH)
    for b in range(2):
        for i in range(5):
            for j in range(5):
                cell = linear(torch.cat((s[b, i], s[b, j])), pairing.first.weight, pairing.first.bias).relu()
                assert_cells(found, cell, (b, i, j))


def test_pairing_in_one_step_is_equation_10() -> None:
    pairing, s, maps = make(N_MAPS, "one-step")
    found = pairing(s, maps)
    for b in range(2):
        for i in range(5):
            for j in range(5):
                joined = torch.cat((s[b, i], s[b, j], maps[b, i, j]))
                assert_cells(found, linear(joined, pairing.first.weight, pairing.first.bias).relu(), (b, i, j))


def test_pairing_in_two_steps_joins_the_maps_to_the_pairs() -> None:
    pairing, s, maps = make(N_MAPS, "two-step")
    second = pairing.second
    assert second is not None
    found = pairing(s, maps)
    for b in range(2):
        for i in range(5):
            for j in range(5):
                pair = linear(torch.cat((s[b, i], s[b, j])), pairing.first.weight, pairing.first.bias).relu()
                joined = torch.cat((pair, maps[b, i, j]))
                assert_cells(found, linear(joined, second.weight, second.bias).relu(), (b, i, j))


@pytest.mark.parametrize("form", ["one-step", "two-step"])
def test_pairing_learns_from_every_part(form: Form) -> None:
    pairing, s, maps = make(N_MAPS, form)
    s, maps = s.requires_grad_(), maps.requires_grad_()
    for grad in torch.autograd.grad(pairing(s, maps).sum(), [s, maps, *pairing.parameters()]):
        assert grad.abs().sum() > 0
    # The two steps have their parameters in two layers, the one step in one.
    assert len(list(pairing.parameters())) == (4 if form == "two-step" else 2)


@pytest.mark.parametrize("n_maps", [0, N_MAPS])
@pytest.mark.parametrize("form", ["one-step", "two-step"])
def test_gradients_are_those_of_the_concatenation(form: Form, n_maps: int) -> None:
    pairing, s, maps = make(n_maps, form)
    s, maps = s.requires_grad_(), maps.requires_grad_()
    n = s.shape[1]
    sides = [s.unsqueeze(2).expand(-1, -1, n, -1), s.unsqueeze(1).expand(-1, n, -1, -1)]
    if n_maps and form == "one-step":
        sides.append(maps)
    plain = pairing.first(torch.cat(sides, -1)).relu()
    if pairing.second is not None:
        plain = pairing.second(torch.cat((plain, maps), -1)).relu()
    found = pairing(s, maps if n_maps else None)
    leaves = [s, *([maps] if n_maps else []), *pairing.parameters()]
    outside = torch.randn(found.shape, dtype=found.dtype)
    for got, wanted in zip(
        torch.autograd.grad(found, leaves, outside), torch.autograd.grad(plain, leaves, outside), strict=True
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-13)


def test_two_steps_keep_neither_the_concatenation_nor_the_pairs() -> None:
    pairing, s, maps = make(N_MAPS, "two-step", n_words=20)
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        table = pairing(s, maps)
    large = [size for size in kept.values() if size >= 10 * s.nbytes]
    assert sorted(large) == sorted([maps.nbytes, table.nbytes])


def test_table_is_in_half_precision_under_autocast_and_gradients_are_not() -> None:
    pairing, s, maps = make(N_MAPS, "two-step")
    pairing, s, maps = pairing.float(), s.float().requires_grad_(), maps.float()
    with torch.autocast("cpu", torch.bfloat16):
        table = pairing(s, maps)
    assert table.dtype == torch.bfloat16
    wanted = pairing(s, maps)
    # The limits are about three times what was seen, as shares of the largest value and of the norm.
    torch.testing.assert_close(table.float(), wanted, rtol=0, atol=0.02 * wanted.abs().max().item())
    learned = [s, *pairing.parameters()]
    gradients = (torch.autograd.grad(one.float().square().sum(), learned) for one in (table, wanted))
    for found, expected in zip(*gradients, strict=True):
        assert found.dtype == torch.float32
        assert (found - expected).norm() <= 0.02 * expected.norm()


def test_pairing_of_a_single_word_pairs_it_with_itself() -> None:
    pairing, s, _ = make(0, "two-step", n_words=1)
    cell = linear(torch.cat((s[0, 0], s[0, 0])), pairing.first.weight, pairing.first.bias).relu()
    assert_cells(pairing(s, None), cell, (0, 0, 0))
