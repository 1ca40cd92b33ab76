"""Arrays for compiled code: alignment, and numbers of 16 bits."""

from __future__ import annotations

import numpy as np
import torch

from relatum.kernels.arrays import address_of, allocate, multiply_in_order, to_bfloat16, to_float32
from relatum.kernels.tensors import as_array


def test_numbers_are_rounded_to_bfloat16_as_torch_rounds_them() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 20_000, np.uint32)  # a hundred of them are not a number
    values = np.concatenate(
        [bits.view(np.float32), np.array([0, -0.0, np.inf, -np.inf, np.nan, 1.00390625], np.float32)]
    )
    rounded = to_bfloat16(values)
    expected = torch.from_numpy(values).to(torch.bfloat16)
    np.testing.assert_array_equal(to_float32(rounded), expected.float().numpy())
    real = ~np.isnan(values)
    np.testing.assert_array_equal(rounded[real], as_array(expected)[real])


def test_arrays_begin_at_the_start_of_a_cache_line() -> None:
    for size in range(1, 40):
        assert address_of(allocate((size, 3))) % 64 == 0


def test_products_are_not_rounded_before_they_are_added() -> None:
    near_one = 1 + 2**-12
    left = np.array([[1, near_one]], np.float32)
    right = np.array([[-(1 + 2**-11)], [near_one]], np.float32)
    assert multiply_in_order(left, right).tolist() == [[2**-24]]
