"""The scan on a CPU: all diagonals of all sentences in one call of compiled code, see `native/scan.cpp`."""

from __future__ import annotations

import ctypes
import logging
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from relatum.errors import RelatumError
from relatum.kernels.compile import CompileError, Source, can_load, load
from relatum.kernels.md_gru.fused import Form
from relatum.kernels.md_gru.spec import PREDECESSORS, Weights
from relatum.kernels.sources import READING, SCAN, scan_of
from relatum.kernels.threads import share_threads

_log = logging.getLogger(__name__)

SOURCE = SCAN

_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_MAX_ROWS = 64
"""The most cells that the diagonals of sentences have together when the sentences are scanned in step."""
_CHUNK_ROWS = 48
"""The least number of cells that are projected at once."""


def explain() -> tuple[bool, str]:
    """Return whether the scan can run here, and why or why not; quick, since nothing is compiled."""
    return can_load(SOURCE)


@cache
def find_failure(dtype: torch.dtype) -> str | None:
    """Return why the code for a dtype cannot be compiled or loaded after all; None if it can. Tries it once."""
    try:
        _library(SOURCE, _DTYPES.index(dtype))
    except CompileError as error:
        _log.warning("the MD-GRU is computed in plain torch, which is slower: %s", error)
        return str(error)
    return None


class _Job(ctypes.Structure):
    """The structure `Job` of `native/job.h`."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("projected", "gates", "below", "recurrent", "states", "grad")),
        *((name, ctypes.c_void_p) for name in ("grad_below", "neighbours", "inputs", "input_weight", "input_bias")),
        *((name, ctypes.c_void_p) for name in ("below_weight", "state_bias", "tables")),
        *((name, ctypes.c_int64) for name in ("recurrent_direction", "recurrent_row", "input_direction", "input_row")),
        *((name, ctypes.c_int32) for name in ("n_sentences", "n_directions", "input_width", "width", "n_slots")),
        ("n_lambdas", ctypes.c_int32),
        ("slots", ctypes.c_int32 * 3),
        *((name, ctypes.c_int32) for name in ("reads_up", "reads_left")),
        ("corners", ctypes.c_int32 * 4),
        *((name, ctypes.c_int32) for name in ("dtype", "keep", "n_threads", "max_rows", "chunk_rows")),
    )


class CpuJob(NamedTuple):
    """A job for the compiled code, and the tensors that must live until the job is done."""

    structure: ctypes.Structure
    held: tuple[Tensor | None, ...]


class CpuScanner:
    """The scan on a CPU, see `fused.Scanner`. The number of threads is torch's; results do not depend on it."""

    def __init__(self, source: Source = SOURCE) -> None:
        self._source = source

    def forward(
        self,
        projected: Tensor,
        below: Tensor | None,
        recurrent: Tensor,
        tables: Tensor,
        n_words: int,  # noqa: ARG002
        form: Form,
        keep: bool,
    ) -> tuple[Tensor, Tensor]:
        width = recurrent.shape[2] // form.spec.n_parts
        states = _made(projected, (*projected.shape[:2], width), tables)
        tensors = {"projected": projected, "below": below, "states": states}
        self._run("forward", _aligned(recurrent), tensors, tables, form, keep=keep)
        return states, projected if keep else projected.new_empty(0, *projected.shape[1:])

    def backward(
        self,
        grad: Tensor,
        gates: Tensor,
        states: Tensor,
        below: Tensor | None,
        recurrent: Tensor,
        tables: Tensor,
        n_words: int,  # noqa: ARG002
        form: Form,
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        projected = _made(gates, gates.shape, tables)
        grad_below = None if below is None else _made(gates, below.shape, tables)
        neighbours = _made(gates, (*states.shape[:2], recurrent.shape[1]), tables)
        tensors = {"grad": grad, "gates": gates, "states": states, "below": below}
        tensors |= {"projected": projected, "grad_below": grad_below, "neighbours": neighbours}
        self._run("backward", _aligned(recurrent), tensors, tables, form)
        return projected, grad_below, neighbours

    def layer(self, inputs: Tensor, below: Tensor | None, weights: Weights, tables: Tensor, form: Form) -> Tensor:
        """Return the states, (C, D, H), from the inputs, (C, X), without gradients; never writes projections out."""
        states = _made(inputs, (inputs.shape[0], len(form.directions), form.spec.width(weights)), tables)
        self._do("layer", self.layer_job(inputs, below, weights, tables, form, states))
        return states

    def layer_job(
        self, inputs: Tensor, below: Tensor | None, weights: Weights, tables: Tensor, form: Form, states: Tensor
    ) -> CpuJob:
        """Return the job of `layer`, with `states` as the room for its results, zero outside the tables."""
        spec, width = form.spec, form.spec.width(weights)
        state_weight, input_weight = _aligned(weights.state), _aligned(weights.input)
        starts = {slot: state_weight[:, place * width :] for place, slot in enumerate(spec.slots)}
        tensors = {"inputs": inputs, "below": below, "states": states}
        tensors |= {"input_bias": weights.input_bias, "state_bias": weights.state_bias}
        job = _make_job(
            starts[spec.recurrent[0]],
            tensors,
            tables,
            form,
            below_weight=starts["below"].data_ptr() if below is not None else None,
            input_weight=input_weight.data_ptr(),
            input_direction=input_weight.stride(0),
            input_row=input_weight.stride(1),
            input_width=inputs.shape[1],
        )
        return CpuJob(job.structure, (*job.held, input_weight))

    def function(self, way: str, dtype: torch.dtype) -> Any:
        """Return the compiled function for a way: "forward", "backward" or "layer"."""
        return getattr(_library(self._source, _DTYPES.index(dtype)), f"relatum_md_gru_{way}")

    def _run(
        self,
        way: str,
        recurrent: Tensor,
        tensors: dict[str, Tensor | None],
        tables: Tensor,
        form: Form,
        **rest: int | None,
    ) -> None:
        self._do(way, _make_job(recurrent, tensors, tables, form, **rest))

    def _do(self, way: str, job: CpuJob) -> None:
        if self.function(way, _DTYPES[job.structure.dtype])(ctypes.byref(job.structure)) != 0:
            raise MemoryError("the CPU scan found no memory for its buffers")


def _make_job(
    recurrent: Tensor, tensors: dict[str, Tensor | None], tables: Tensor, form: Form, **rest: int | None
) -> CpuJob:
    if recurrent.dtype not in _DTYPES:
        raise RelatumError(f"the CPU scan does not compute in {recurrent.dtype}; choose from {_DTYPES}")
    # What is made contiguous here lives as long as the job.
    held = {name: None if one is None else one.contiguous() for name, one in tensors.items()}
    tables = tables.to(torch.int32).contiguous()
    spec = form.spec
    job = _Job(
        **{name: None if one is None else one.data_ptr() for name, one in held.items()},
        **rest,
        recurrent=recurrent.data_ptr(),
        recurrent_direction=recurrent.stride(0),
        recurrent_row=recurrent.stride(1),
        tables=tables.data_ptr(),
        n_sentences=tables.shape[0],
        n_directions=len(form.directions),
        width=recurrent.shape[2] // spec.n_parts,
        n_slots=len(spec.slots),
        n_lambdas=spec.n_lambdas,
        slots=tuple(1 + PREDECESSORS.index(slot) if slot in spec.read else 0 for slot in spec.slots),
        reads_up="up" in spec.read,
        reads_left="left" in spec.read,
        corners=tuple((one[0] == "s") + 2 * (one[1] == "e") for one in form.directions),
        dtype=_DTYPES.index(recurrent.dtype),
        n_threads=torch.get_num_threads(),
        max_rows=_MAX_ROWS,
        chunk_rows=_CHUNK_ROWS,
    )
    return CpuJob(job, (recurrent, tables, *held.values()))


@cache
def _library(source: Source, dtype: int) -> ctypes.CDLL:
    library = load(scan_of(dtype, source), READING if source == SOURCE else ())
    share_threads(library)
    return library


def _aligned(weight: Tensor) -> Tensor:
    """Return weights as the scan reads them: columns side by side."""
    return weight if weight.stride(2) == 1 else weight.contiguous()


def _made(like: Tensor, shape: tuple[int, ...], tables: Tensor) -> Tensor:
    """Allocate a tensor for the scan to fill: zero outside the tables, if any cell is outside."""
    n_real = int((tables[:, 2].long() ** 2).sum())
    return like.new_empty(shape) if n_real == shape[0] else like.new_zeros(shape)
