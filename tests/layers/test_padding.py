"""Padding in a few operations, against sentence after sentence."""

from __future__ import annotations

import pytest
import torch

from relatum.layers.padding import Padding, measure


def test_measure_counts_words_and_cells_from_one() -> None:
    assert measure([2, 3, 1]) == [[2, 3, 1], [1, 3, 6], [1, 5, 14]]


@pytest.mark.parametrize(("lengths", "n_words"), [([2, 3, 1], 3), ([2, 3, 1], 5), ([4], 4), ([1, 1], 1)])
def test_every_word_and_cell_finds_its_place(lengths: list[int], n_words: int) -> None:
    padding = Padding.of(lengths, n_words, torch.device("cpu"))
    words = [torch.randn(n, 2) for n in lengths]
    cells = [torch.randint(9, (n, n)) for n in lengths]
    expected_words = torch.zeros(len(lengths), n_words, 2)
    expected_cells = torch.full((len(lengths), n_words, n_words), -100)
    mask = torch.zeros(len(lengths), n_words, dtype=torch.bool)
    for row, n in enumerate(lengths):
        expected_words[row, :n], expected_cells[row, :n, :n], mask[row, :n] = words[row], cells[row], True
    assert torch.equal(padding.mask, mask)
    assert torch.equal(padding.pad_words(words), expected_words)
    assert torch.equal(padding.pad_cells(cells, -100), expected_cells)
