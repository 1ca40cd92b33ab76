"""The scan on a CPU: all diagonals of all sentences in one call of compiled code, see `native/scan.cpp`.

Its jobs are of numpy's arrays; `cpu_scanner` scans tensors of torch.
"""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from relatum.errors import RelatumError
from relatum.kernels.arrays import Array, address_of, allocate, name_of
from relatum.kernels.compile import CompileError, Source, can_load, load
from relatum.kernels.md_gru.spec import PREDECESSORS, Form
from relatum.kernels.sources import READING, SCAN, scan_of
from relatum.kernels.threads import count_threads, share_threads

_log = logging.getLogger(__name__)

SOURCE = SCAN

_DTYPES = ("float32", "float64", "bfloat16", "float16")
_MAX_ROWS = 64
"""The most cells that the diagonals of sentences have together when the sentences are scanned in step."""
_CHUNK_ROWS = 48
"""The least number of cells that are projected at once."""


def explain() -> tuple[bool, str]:
    """Return whether the scan can run here, and why or why not; quick, since nothing is compiled."""
    return can_load(SOURCE)


@cache
def find_failure(dtype: str) -> str | None:
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


class ScanWeights(NamedTuple):
    """The projections of the input and of the slots' states, as `spec.Weights` has them."""

    input: Array
    input_bias: Array
    state: Array
    state_bias: Array


class CpuJob(NamedTuple):
    """A job for the compiled code, and the arrays that must live until the job is done."""

    structure: ctypes.Structure
    held: tuple[Array | None, ...]


def find_function(way: str, dtype: str, source: Source = SOURCE) -> Any:
    """Return the compiled function for a way: "forward", "backward" or "layer"."""
    return getattr(_library(source, _DTYPES.index(dtype)), f"relatum_md_gru_{way}")


def run_job(way: str, job: CpuJob, source: Source = SOURCE) -> None:
    """Run a job; the number of threads is `count_threads()`, and results do not depend on it."""
    if find_function(way, _DTYPES[job.structure.dtype], source)(ctypes.byref(job.structure)) != 0:
        raise MemoryError("the CPU scan found no memory for its buffers")


def make_weights_job(weights: ScanWeights, form: Form) -> CpuJob:
    """Return the job of a layer without tables, inputs and room for results, which whoever runs it puts in."""
    n_directions, width = len(form.directions), weights.input.shape[2] // form.spec.n_parts
    dtype = weights.input.dtype
    states = allocate((1, n_directions, width), dtype)
    inputs, tables = allocate((1, weights.input.shape[1]), dtype), np.zeros((1, 3), np.int32)
    below = states if "below" in form.spec.read else None
    return make_layer_job(inputs, below, weights, tables, form, states)


def make_layer_job(
    inputs: Array, below: Array | None, weights: ScanWeights, tables: Array, form: Form, states: Array
) -> CpuJob:
    """Return the job of `Scanner.layer`, with `states` as the room for its results, zero outside the tables."""
    spec, width = form.spec, weights.input.shape[2] // form.spec.n_parts
    state_weight, input_weight = align_columns(weights.state), align_columns(weights.input)
    starts = {slot: state_weight[:, place * width :] for place, slot in enumerate(spec.slots)}
    arrays = {"inputs": inputs, "below": below, "states": states}
    arrays |= {"input_bias": weights.input_bias, "state_bias": weights.state_bias}
    job = make_job(
        starts[spec.recurrent[0]],
        arrays,
        tables,
        form,
        below_weight=address_of(starts["below"]) if below is not None else None,
        input_weight=address_of(input_weight),
        input_direction=input_weight.strides[0] // input_weight.itemsize,
        input_row=input_weight.strides[1] // input_weight.itemsize,
        input_width=inputs.shape[1],
    )
    return CpuJob(job.structure, (*job.held, input_weight))


def make_job(
    recurrent: Array, arrays: Mapping[str, Array | None], tables: Array, form: Form, **rest: int | None
) -> CpuJob:
    """Return a job with the values of these fields."""
    if name_of(recurrent.dtype) not in _DTYPES:
        raise RelatumError(f"the CPU scan does not compute in {recurrent.dtype}; choose from {', '.join(_DTYPES)}")
    # What is made contiguous here lives as long as the job.
    held = {name: None if one is None else np.ascontiguousarray(one) for name, one in arrays.items()}
    tables = np.ascontiguousarray(tables, np.int32)
    spec = form.spec
    job = _Job(
        **{name: None if one is None else address_of(one) for name, one in held.items()},
        **rest,
        recurrent=address_of(recurrent),
        recurrent_direction=recurrent.strides[0] // recurrent.itemsize,
        recurrent_row=recurrent.strides[1] // recurrent.itemsize,
        tables=address_of(tables),
        n_sentences=tables.shape[0],
        n_directions=len(form.directions),
        width=recurrent.shape[2] // spec.n_parts,
        n_slots=len(spec.slots),
        n_lambdas=spec.n_lambdas,
        slots=tuple(1 + PREDECESSORS.index(slot) if slot in spec.read else 0 for slot in spec.slots),
        reads_up="up" in spec.read,
        reads_left="left" in spec.read,
        corners=tuple((one[0] == "s") + 2 * (one[1] == "e") for one in form.directions),
        dtype=_DTYPES.index(name_of(recurrent.dtype)),
        n_threads=count_threads(),
        max_rows=_MAX_ROWS,
        chunk_rows=_CHUNK_ROWS,
    )
    return CpuJob(job, (recurrent, tables, *held.values()))


@cache
def _library(source: Source, dtype: int) -> ctypes.CDLL:
    library = load(scan_of(dtype, source), READING if source == SOURCE else ())
    share_threads(library)
    return library


def align_columns(weight: Array) -> Array:
    """Return weights as the scan reads them: columns side by side."""
    return weight if weight.strides[2] == weight.itemsize else np.ascontiguousarray(weight)
