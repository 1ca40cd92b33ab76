"""All table-sequence layers of a network in one call of compiled code."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from relatum.kernels.md_gru.cpu import CpuJob, CpuScanner
from relatum.kernels.md_gru.fused import Form
from relatum.kernels.md_gru.spec import Weights
from relatum.kernels.network.cpu import Words, library
from relatum.kernels.network.pairing import PackedPairing, PairingJob
from relatum.kernels.network.sequence import PackedSequenceLayer, SequenceJob


class State(NamedTuple):
    """What comes out of a layer; zero where there is no word."""

    sequence: Tensor
    table: Tensor
    attention: Tensor


@dataclass(frozen=True)
class StackLayer:
    """The parts of a layer."""

    pairing: PackedPairing
    scan: Weights
    form: Form
    sequence: PackedSequenceLayer

    @cached_property
    def scan_job(self) -> CpuJob:
        """What its MD-GRU asks for, but for the tables."""
        weights = Weights(*(part.detach() for part in self.scan))
        below = weights.input.new_empty(1, len(self.form.directions), self.form.spec.width(weights))
        inputs, tables = below.new_empty(1, weights.input.shape[1]), torch.zeros(1, 3, dtype=torch.int32)
        reads_below = "below" in self.form.spec.read
        return _SCANNER.layer_job(inputs, below if reads_below else None, weights, tables, self.form, below)


_SCANNER = CpuScanner()


class PackedStack:
    """Layers whose weights were put in order; of the MD-GRU they are read as they lie."""

    def __init__(self, layers: Sequence[StackLayer]) -> None:
        self._layers = layers
        self._scan = _SCANNER.function("layer", layers[0].pairing.dtype)

    def read(
        self, sequence: Tensor, maps: Tensor, mask: Tensor, n_rounds: int = 1, reads_sequence: bool = True
    ) -> list[State]:
        """What comes out of each layer, of every round; without `reads_sequence`, all tables are made of the first."""
        dtype, words = self._layers[0].pairing.dtype, Words.of(mask)
        sequence, maps = sequence.detach().contiguous(), maps.detach().to(dtype).contiguous()
        pairs, tables = self._layers[0].pairing.make_table(words), _tables(words)
        states: list[State] = []
        jobs: list[tuple[PairingJob, ctypes.Structure, SequenceJob]] = []
        before, below = sequence, None
        for layer in [*self._layers] * n_rounds:
            table, attention = layer.pairing.make_table(words), layer.sequence.make_attention(words)
            after = words.make(sequence.shape[2])
            scan = _fill(layer.scan_job.structure, pairs, below, tables, table)
            pairing = layer.pairing.job(before if reads_sequence else sequence, maps, words, pairs)
            jobs.append((pairing, scan, layer.sequence.job(before, table, words, after, attention)))
            states.append(State(after, table, attention))
            before, below = after, table
        stack = (_Layer * len(jobs))(*(_Layer(*map(ctypes.addressof, one)) for one in jobs))
        if library().relatum_stack(stack, len(jobs), self._scan):
            raise MemoryError("the layers found no memory for their buffers")
        return states


def _tables(words: Words) -> Tensor:
    """See `md_gru.fused.Scanner`."""
    n = words.n_words
    return torch.tensor([[i * n * n, n, length] for i, length in enumerate(words.lengths.tolist())], dtype=torch.int32)


def _fill(
    template: ctypes.Structure, inputs: Tensor, below: Tensor | None, tables: Tensor, states: Tensor
) -> ctypes.Structure:
    job = type(template).from_buffer_copy(template)
    job.inputs, job.states, job.tables = inputs.data_ptr(), states.data_ptr(), tables.data_ptr()
    job.n_sentences, job.n_threads = len(tables), torch.get_num_threads()
    if below is None or job.below is None:
        job.below = job.below_weight = None
    else:
        job.below = below.data_ptr()
    return job


class _Layer(ctypes.Structure):
    """As `StackLayer` in `native/network.cpp`."""

    _fields_ = (("pairing", ctypes.c_void_p), ("scan", ctypes.c_void_p), ("sequence", ctypes.c_void_p))
