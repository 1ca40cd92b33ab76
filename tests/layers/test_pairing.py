"""The table of word pairs, against the concatenations of equations 2 and 10 written out."""

from __future__ import annotations

from typing import Literal

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear

from relatum.layers.pairing import Pairing

WIDTH, N_MAPS = 4, 3
Form = Literal["one-step", "two-step"]


def make(n_maps: int, form: Form, n_words: int = 5) -> tuple[Pairing, Tensor, Tensor]:
    torch.manual_seed(0)
    pairing = Pairing(WIDTH, n_maps, form).double()
    sequence = torch.randn(2, n_words, WIDTH, dtype=torch.float64)
    return pairing, sequence, torch.rand(2, n_words, n_words, N_MAPS, dtype=torch.float64)


def assert_cells(found: Tensor, cell: Tensor, place: tuple[int, int, int]) -> None:
    torch.testing.assert_close(found[place], cell, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("form", ["one-step", "two-step"])
def test_pairing_without_maps_is_equation_2(form: Form) -> None:
    pairing, s, _ = make(0, form)
    found = pairing(s, None)
    assert found.shape == (2, 5, 5, WIDTH)
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


def test_pairing_of_a_single_word_pairs_it_with_itself() -> None:
    pairing, s, _ = make(0, "two-step", n_words=1)
    cell = linear(torch.cat((s[0, 0], s[0, 0])), pairing.first.weight, pairing.first.bias).relu()
    assert_cells(pairing(s, None), cell, (0, 0, 0))
