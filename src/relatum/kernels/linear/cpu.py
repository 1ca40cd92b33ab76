"""Products with frozen weights on a CPU's matrix unit, with two numbers of bfloat16 for each number of float32.

See `native/linear.cpp`. The numbers that the unit multiplies have 16 bits this way, and errors are a hundredth of the
errors of bfloat16.
"""

from __future__ import annotations

import ctypes
import logging
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from relatum.errors import RelatumError
from relatum.kernels.compile import CompileError, Source, cpu_flags, load
from relatum.kernels.sources import LINEAR
from relatum.kernels.threads import share_threads

_log = logging.getLogger(__name__)

SOURCE = LINEAR

_TILE, _DEPTH = 16, 32
"""The columns of a tile of weights, and the values of each column that it holds."""


class Packed(NamedTuple):
    """Weights of a layer, as `multiply` reads them."""

    tiles: Tensor
    n_inputs: int
    n_outputs: int


@cache
def is_available(source: Source = SOURCE) -> bool:
    """True if this CPU has a matrix unit and the code for it is usable; warns if it has the unit but not the code."""
    if not source.needs <= cpu_flags():
        return False
    try:
        _library(source)
    except CompileError as error:
        _log.warning("the encoder's products are computed in float32, which is slower: %s", error)
        return False
    return True


def pack(weight: Tensor) -> Packed:
    """Put the weights of a layer, (outputs, inputs), in order: both parts, tile by tile.

    A tile is 16 pairs of inputs by 16 outputs, the two inputs of a pair side by side. For every two columns of tiles,
    the high parts of both and the low parts of both follow each other, step by step.
    """
    if weight.dtype != torch.float32 or weight.device.type != "cpu":
        raise RelatumError(
            f"weights in {weight.dtype} on {weight.device} cannot be packed; they must be float32 on the CPU"
        )
    weight = weight.detach()
    n_outputs, n_inputs = weight.shape
    weight = pad(weight, (0, -n_inputs % _DEPTH, 0, -n_outputs % _TILE))
    high = weight.bfloat16()
    parts = torch.stack([high, (weight - high.float()).bfloat16()])
    # (part, column of tiles, step, pair, output, one of the pair)
    tiles = parts.view(2, -1, _TILE, weight.shape[1] // _DEPTH, _DEPTH // 2, 2).permute(0, 1, 3, 4, 2, 5)
    n_paired = tiles.shape[1] // 2 * 2
    paired = tiles[:, :n_paired].unflatten(1, (n_paired // 2, 2)).permute(1, 3, 0, 2, 4, 5, 6)
    last = tiles[:, n_paired:].permute(1, 2, 0, 3, 4, 5)
    return Packed(torch.cat([paired.flatten(), last.flatten()]), n_inputs, n_outputs)


def multiply(
    values: Tensor, packed: Packed, bias: Tensor | None = None, gelu: bool = False, source: Source = SOURCE
) -> Tensor:
    """Multiply values, (…, inputs), with packed weights and add the bias, (outputs); with `gelu`, apply the exact GELU.

    Values must be finite. The number of threads is torch's; results do not depend on it.
    """
    tiles, n_inputs, n_outputs = packed
    if values.shape[-1] != n_inputs or (bias is not None and len(bias) != n_outputs):
        sizes = f"{values.shape[-1]} inputs" + ("" if bias is None else f" and a bias of {len(bias)}")
        raise RelatumError(f"{sizes}: the weights were packed for {n_inputs} inputs and {n_outputs} outputs")
    if not values.is_cpu or values.dtype != torch.float32 or (bias is not None and bias.dtype != torch.float32):
        raise RelatumError(
            "packed weights multiply values of float32 on the CPU, with a bias of float32, and no others"
        )
    values, bias = values.contiguous(), None if bias is None else bias.contiguous()
    results = values.new_empty((*values.shape[:-1], n_outputs))
    failed = _library(source).relatum_linear(
        values.data_ptr(),
        tiles.data_ptr(),
        None if bias is None else bias.data_ptr(),
        results.data_ptr(),
        values.numel() // n_inputs,
        n_inputs,
        n_outputs,
        gelu,
        torch.get_num_threads(),
    )
    if failed:
        raise MemoryError("a product found no memory for its buffers")
    return results


@cache
def _library(source: Source) -> ctypes.CDLL:
    library = load(source)
    if not library.relatum_linear_allowed():
        raise CompileError(f"{source.main} cannot run: the system does not let this process use the CPU's matrix unit")
    library.relatum_linear.argtypes = [*[ctypes.c_void_p] * 4, *[ctypes.c_int] * 5]
    share_threads(library)
    return library
