"""Arrays as compiled code takes them: where they lie, how they are aligned, and numbers of 16 bits.

numpy has no bfloat16: numbers of this type are the upper halves of numbers in float32, in arrays of `uint16`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array: TypeAlias = NDArray[Any]

BFLOAT16 = np.dtype(np.uint16)

_ALIGNMENT = 64
"""The bytes of a line of the CPU's caches, and of its widest vectors."""
_NOT_A_NUMBER = 0x7FC0
_ROWS = 16
"""The rows of a matrix that `multiply_in_order` computes together, so that their sums stay in the cache."""


def address_of(values: Array) -> int:
    """Return the address of an array's values; the array's own way to tell it takes several times as long."""
    address: int = values.__array_interface__["data"][0]
    return address


def allocate(shape: Sequence[int], dtype: DTypeLike = np.float32) -> Array:
    """Allocate an array that begins at the start of a cache line; its values may be anything."""
    dtype = np.dtype(dtype)
    room = np.empty(prod(shape) * dtype.itemsize + _ALIGNMENT, np.uint8)
    return np.ndarray(tuple(shape), dtype, room, -address_of(room) % _ALIGNMENT)


def name_of(dtype: DTypeLike) -> str:
    """Return the name of a type of numbers, "bfloat16" for `uint16`."""
    dtype = np.dtype(dtype)
    return "bfloat16" if dtype == BFLOAT16 else dtype.name


def to_float32(values: Array) -> Array:
    """Return values in float32; the array itself if they are."""
    if values.dtype == BFLOAT16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float32, copy=False)


def to_bfloat16(values: Array) -> Array:
    """Round values of float32 to bfloat16: to the nearest number, and to the even one of two that are as near."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))) >> 16).astype(BFLOAT16)
    rounded[np.isnan(values)] = _NOT_A_NUMBER
    return rounded


def multiply_in_order(left: Array, right: Array) -> Array:
    """Return the product of two small matrices in float32, each sum made in the order of its terms.

    Libraries for matrices differ in the order, and so in the last digits; this one is torch's.
    """
    # A product of two numbers of float16 is exact in float32; of others it is made and added in float64, then rounded.
    wide = np.float32 if left.dtype == right.dtype == np.float16 else np.float64
    left, right = to_float32(left).astype(wide), to_float32(right).astype(wide)
    result = np.zeros((len(left), right.shape[1]), np.float32)
    for start in range(0, len(left), _ROWS):  # some rows at a time, which stay in the cache
        rows, sums = left[start : start + _ROWS], result[start : start + _ROWS]
        for number in range(left.shape[1]):
            sums[:] = sums + rows[:, number : number + 1] * right[number]
    return result
