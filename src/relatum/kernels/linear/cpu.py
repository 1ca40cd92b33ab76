"""Products with frozen weights on a CPU's matrix unit, with two numbers of bfloat16 for each number of float32.

See `native/linear.cpp`. The numbers that the unit multiplies have 16 bits this way, and errors are a hundredth of the
errors of bfloat16.
"""

from __future__ import annotations

import ctypes
import logging
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from relatum.errors import RelatumError
from relatum.kernels.compile import CompileError, Source, cpu_flags, load
from relatum.kernels.linear.tiles import pack_tiles
from relatum.kernels.sources import LINEAR
from relatum.kernels.threads import count_threads, share_threads

if TYPE_CHECKING:  # who only asks whether the code can run need not wait for torch
    from torch import Tensor

_log = logging.getLogger(__name__)

SOURCE = LINEAR


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
    """Put the weights of a layer, (outputs, inputs), in order, see `pack_tiles`."""
    import torch

    if weight.dtype != torch.float32 or weight.device.type != "cpu":
        raise RelatumError(
            f"weights in {weight.dtype} on {weight.device} cannot be packed; they must be float32 on the CPU"
        )
    tiles = torch.from_numpy(pack_tiles(weight.detach().numpy())).view(torch.bfloat16)
    return Packed(tiles, weight.shape[1], weight.shape[0])


def multiply(
    values: Tensor, packed: Packed, bias: Tensor | None = None, gelu: bool = False, source: Source = SOURCE
) -> Tensor:
    """Multiply values, (…, inputs), with packed weights and add the bias, (outputs); with `gelu`, apply the exact GELU.

    Values must be finite. The number of threads is `count_threads()`; results do not depend on it.
    """
    import torch

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
        count_threads(),
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
