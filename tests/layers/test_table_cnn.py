"""The convolutional table encoder against appendix D written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv2d, layer_norm, linear

from relatum.layers.table_cnn import TableCNN

X, H = 4, 6


def make(kernel_size: int, reads_below: bool = True) -> TableCNN:
    torch.manual_seed(0)
    cnn = TableCNN(X, H, kernel_size, reads_below).double()
    for name, parameter in cnn.named_parameters():
        if "norm" in name:
            torch.nn.init.normal_(parameter)
    return cnn


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def appendix_d(cnn: TableCNN, x: Tensor, below: Tensor | None) -> Tensor:
    """T_l of one sentence; the first layer has no T_{l−1}, in neither place."""
    joined = x if below is None else torch.cat((x, below), -1)
    t0 = linear(joined, cnn.enter.weight, cnn.enter.bias).relu()
    parts = []
    for convolution in cnn.convolutions:
        assert isinstance(convolution, torch.nn.Conv2d)
        parts.append(convolution)

    def normed(number: int, table: Tensor) -> Tensor:
        margin = parts[number].kernel_size[0] // 2
        convolved = conv2d(table.permute(2, 0, 1)[None], parts[number].weight, parts[number].bias, padding=margin)
        norm = cnn.norms[number]
        assert isinstance(norm, torch.nn.LayerNorm)
        return layer_norm(convolved[0].permute(1, 2, 0), (H,), norm.weight, norm.bias, eps=1e-5)

    t1 = normed(0, t0).relu()
    last = normed(1, t1)
    return (last if below is None else below + last).relu()


@pytest.mark.parametrize("kernel_size", [1, 3, 5])
@pytest.mark.parametrize("n_words", [1, 4])
def test_cnn_is_appendix_d(kernel_size: int, n_words: int) -> None:
    cnn, mask = make(kernel_size), torch.ones(1, n_words, dtype=torch.bool)
    x, below = random(1, n_words, n_words, X), random(1, n_words, n_words, H)
    expected = appendix_d(cnn, x[0], below[0])
    torch.testing.assert_close(cnn(x, below, mask)[0], expected, rtol=1e-10, atol=1e-12)


def test_first_layer_has_nothing_below() -> None:
    cnn, mask = make(3, reads_below=False), torch.ones(1, 4, dtype=torch.bool)
    x = random(1, 4, 4, X)
    assert cnn.enter.in_features == X
    torch.testing.assert_close(cnn(x, None, mask)[0], appendix_d(cnn, x[0], None), rtol=1e-10, atol=1e-12)


def test_layer_that_could_read_below_sees_zeros_where_there_is_none() -> None:
    cnn, mask, x = make(3), torch.ones(1, 3, dtype=torch.bool), random(1, 3, 3, X)
    torch.testing.assert_close(cnn(x, None, mask), cnn(x, torch.zeros_like(random(1, 3, 3, H)), mask), rtol=0, atol=0)


@pytest.mark.parametrize("kernel_size", [1, 3, 5])
@pytest.mark.parametrize("reads_below", [True, False])
def test_padding_changes_nothing_and_stays_zero(kernel_size: int, reads_below: bool) -> None:
    cnn = make(kernel_size, reads_below)
    mask = torch.tensor([[True] * 3 + [False] * 3, [True] * 6])
    x, below = random(2, 6, 6, X), random(2, 6, 6, H) if reads_below else None
    batch = cnn(x, below, mask)
    alone = cnn(x[:1, :3, :3], None if below is None else below[:1, :3, :3], mask[:1, :3])
    torch.testing.assert_close(batch[:1, :3, :3], alone, rtol=1e-11, atol=1e-13)
    assert batch[0, 3:].abs().max() == 0
    assert batch[0, :, 3:].abs().max() == 0
