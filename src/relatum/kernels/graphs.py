"""CUDA graphs: long chains of small kernels, recorded once for each shape and then launched as one."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Work = Callable[[Sequence[Tensor | None]], None]
"""A function that reads and writes the tensors it is given, and nothing else."""

_USES = 3
"""How often a shape must have come before it is worth recording."""


@dataclass(frozen=True, slots=True)
class _Recording:
    graph: torch.cuda.CUDAGraph
    tensors: tuple[Tensor | None, ...]


class Recorder:
    """Runs work on CUDA tensors, by replaying a recording where the same shapes have come often enough.

    A recording works on tensors of its own, so what goes in and what comes out is copied: cheap against hundreds of
    launches. Recordings are kept; together their tensors take at most `max_bytes`, an eighth of the device's memory
    where that is None, and what does not fit is run as it stands. Threads take turns.
    """

    def __init__(self, max_bytes: int | None = None) -> None:
        self._max_bytes, self._n_bytes = max_bytes, 0
        self._uses: Counter[Hashable] = Counter()
        self._recordings: dict[Hashable, _Recording] = {}
        self._turn = threading.Lock()

    def run(self, name: Hashable, work: Work, tensors: Sequence[Tensor | None], written: Sequence[int]) -> None:
        """Do the work; `name` and the shapes must say all about it, `written` are the places of what it changes."""
        with self._turn:
            recording = self._find(name, work, tensors)
            if recording is not None:
                for own, given in zip(recording.tensors, tensors, strict=True):
                    if own is not None and given is not None:
                        own.copy_(given)
                recording.graph.replay()
                for place in written:
                    own, given = recording.tensors[place], tensors[place]
                    if own is not None and given is not None:
                        given.copy_(own)
                return
        work(tensors)

    def _find(self, name: Hashable, work: Work, tensors: Sequence[Tensor | None]) -> _Recording | None:
        """The recording of the work on tensors of these shapes; None where there is none, or not yet."""
        present = [one for one in tensors if one is not None]
        key = name, tuple(None if one is None else (one.shape, one.dtype, one.device) for one in tensors)
        recording = self._recordings.get(key)
        if recording is not None:
            return recording
        if self._max_bytes is None:
            self._max_bytes = torch.cuda.mem_get_info(present[0].device)[1] // 8
        self._uses[key] += 1
        size = sum(one.nbytes for one in present)
        if self._uses[key] < _USES or self._n_bytes + size > self._max_bytes:
            return None
        try:
            recording = self._recordings[key] = _record(work, tensors)
        except torch.OutOfMemoryError:
            self._max_bytes = self._n_bytes  # others need the memory more
            return None
        self._n_bytes += size
        return recording


def _record(work: Work, tensors: Sequence[Tensor | None]) -> _Recording:
    graph = torch.cuda.CUDAGraph()
    # A recording made while extracting may serve training later, which may not write to tensors of inference mode.
    with torch.inference_mode(False), torch.no_grad():
        own = tuple(None if one is None else one.clone(memory_format=torch.contiguous_format) for one in tensors)
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            work(own)
    return _Recording(graph, own)
