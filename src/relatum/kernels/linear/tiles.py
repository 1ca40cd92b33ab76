"""Weights in the order in which a CPU's matrix unit reads them, as two numbers of bfloat16 each."""

from __future__ import annotations

import numpy as np

from relatum.kernels.arrays import BFLOAT16, Array, to_bfloat16, to_float32

_TILE, _DEPTH = 16, 32
"""The columns of a tile of weights, and the values of each column that it holds."""


def pack_tiles(weight: Array) -> Array:
    """Put the weights of a layer, (outputs, inputs) in float32, in order: both parts, tile by tile.

    A tile is 16 pairs of inputs by 16 outputs, the two inputs of a pair side by side. For every two columns of tiles,
    the high parts of both and the low parts of both follow each other, step by step.
    """
    n_outputs, n_inputs = weight.shape
    weight = np.pad(weight, ((0, -n_outputs % _TILE), (0, -n_inputs % _DEPTH)))
    high = to_bfloat16(weight)
    parts = np.stack([high, to_bfloat16(weight - to_float32(high))])
    # (part, column of tiles, step, pair, output, one of the pair)
    n_columns, n_steps = weight.shape[0] // _TILE, weight.shape[1] // _DEPTH
    tiles = parts.reshape(2, n_columns, _TILE, n_steps, _DEPTH // 2, 2).transpose(0, 1, 3, 4, 2, 5)
    n_paired = n_columns // 2 * 2
    paired = tiles[:, :n_paired].reshape(2, n_paired // 2, 2, *tiles.shape[2:]).transpose(1, 3, 0, 2, 4, 5, 6)
    last = tiles[:, n_paired:].transpose(1, 2, 0, 3, 4, 5)
    packed: Array = np.concatenate([paired.ravel(), last.ravel()]).astype(BFLOAT16, copy=False)
    return packed
