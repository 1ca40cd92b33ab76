from __future__ import annotations

import torch

from relatum.layers.mixing import LayerMixing


def test_mixed_layers_are_a_scaled_sum_by_a_softmax() -> None:
    torch.manual_seed(0)
    mixing = LayerMixing(3).double()
    layers = [torch.randn(2, 4, 5, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    torch.nn.init.normal_(mixing.shares)
    torch.nn.init.constant_(mixing.scale, 1.7)
    weights = mixing.shares.exp() / mixing.shares.exp().sum()
    expected = 1.7 * sum(weight * layer for weight, layer in zip(weights, layers, strict=True))
    found = mixing(torch.cat(layers, -1))
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    inputs = (torch.cat(layers, -1).detach().requires_grad_(True),)
    assert torch.autograd.gradcheck(mixing, inputs)
    learned = [mixing.shares, *layers]
    plain = torch.autograd.grad(expected.square().sum(), learned)
    for one, other in zip(torch.autograd.grad(found.square().sum(), learned), plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    (slope,) = torch.autograd.grad(mixing(torch.cat(layers, -1)).sum(), [mixing.scale])
    torch.testing.assert_close(slope, expected.sum() / 1.7, rtol=1e-10, atol=1e-12)


def test_new_mixing_is_the_mean() -> None:
    layers = torch.randn(2, 7, 3 * 6)
    found = LayerMixing(3)(layers)
    torch.testing.assert_close(found, layers.unflatten(-1, (3, 6)).mean(-2), rtol=1e-6, atol=1e-6)
