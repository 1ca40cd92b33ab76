"""Steps that a GPU records once as CUDA graphs and then replays.

To start the many small kernels of a step takes a program several times as long as a GPU takes to run them. A recorded
step is started at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import accumulate
from typing import Protocol

import torch
from torch import Tensor

_ALIGNED = 256
"""The alignment, in bytes, of tensors in memory that several tensors share."""


class Recorder(Protocol):
    """A recorder of steps that are made on a device."""

    def ready(self) -> AbstractContextManager[None]:
        """Return a context within which steps are made, recorded and replayed."""

    def record(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        """Record a step without making it; return a function that makes the step and returns a copy of its result."""

    def release(self) -> None:
        """Give back the memory of recordings that are no longer referenced."""


class GraphRecorder:
    """A recorder of CUDA graphs.

    The graphs share their memory: no two are ever replayed at once, and nothing that a graph leaves there is read after
    another graph has run.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Order the work within the block after all work that was started before, and before all that is started later.

        Steps that are not recorded use the same stream: what autograd keeps of such a step must not tie a recording to
        another stream.
        """
        outside = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(outside)
        with torch.cuda.stream(self._stream):
            yield
        outside.wait_stream(self._stream)

    def record(self, step: Callable[[], Tensor]) -> Callable[[], Tensor]:
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
                result = step()
        except Exception:
            self._recover()
            raise

        def replay() -> Tensor:
            graph.replay()
            return result.clone()

        return replay

    def release(self) -> None:
        torch.cuda.empty_cache()

    def _recover(self) -> None:
        """Begin and end another recording.

        After a recording that broke off, torch may still wait for the end of that recording before it draws random
        numbers.
        """
        graph = torch.cuda.CUDAGraph()
        with suppress(Exception), torch.cuda.stream(self._stream):
            graph.capture_begin()
            try:
                torch.zeros(1, device=self._device)
            finally:
                graph.capture_end()


def make_recorder(device: torch.device) -> Recorder | None:
    """Return a recorder of updates on a device; None if nothing is recorded on such a device."""
    return GraphRecorder(device) if device.type == "cuda" else None


class GraphMemory:
    """Memory for the inputs of graphs; it is filled for one graph at a time, so that all can share it."""

    def __init__(self) -> None:
        self._memory: Tensor | None = None

    def like(self, parts: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
        """Return memory for tensors of the same shapes and types."""
        there = [part for part in parts if part is not None]
        ends = list(accumulate(-(-part.nbytes // _ALIGNED) * _ALIGNED for part in there))
        if self._memory is None or len(self._memory) < ends[-1]:
            # Earlier graphs keep the memory that they have; that doubles each time, so that little is wasted.
            size = max(ends[-1], 2 * (0 if self._memory is None else len(self._memory)))
            self._memory = torch.empty(size, dtype=torch.uint8, device=there[0].device)
        starts = iter((0, *ends))
        return tuple(None if part is None else _carve(self._memory, next(starts), part) for part in parts)


def _carve(memory: Tensor, start: int, like: Tensor) -> Tensor:
    return memory[start : start + like.nbytes].view(like.dtype).view(like.shape)
