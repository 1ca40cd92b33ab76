"""Updates of a network, which a GPU records once for each shape of batch and then replays.

To start the many small kernels of an update takes a program several times as long as a GPU takes to run them. So the
whole update (forward, loss, backward, clipping, Adam) is recorded as a CUDA graph, which is started at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import accumulate
from typing import Protocol

import torch
from torch import Tensor

from relatum.config import TrainingConfig
from relatum.kernels.backend import select
from relatum.kernels.md_gru.geometry import Geometry, make_geometry
from relatum.layers.characters import PaddedSpelling
from relatum.layers.md_rnn import MDRNN
from relatum.models.inputs import ModelInputs
from relatum.models.labels import Labels
from relatum.models.losses import joint_loss
from relatum.models.network import TableSequenceNetwork
from relatum.training.optimisation import Optimiser

_Parts = tuple[Tensor | None, ...]
_Key = tuple[tuple[torch.dtype, torch.Size] | None, ...]

MAX_RECORDINGS = 128
"""The most recordings, since each takes some megabytes of a GPU; batches of further shapes are not recorded."""
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


class Updates:
    """The updates of a network, recorded if they can be.

    The first update with a batch of a new shape is not recorded, and also compiles what there is to compile; the second
    update with that shape is recorded, and from then on replayed. Random numbers are the same either way, and no result
    depends on which updates were recorded when. The network's settings (dropout, precision, backend) are part of a
    recording: other settings need another `Updates`.
    """

    def __init__(
        self,
        network: TableSequenceNetwork,
        optimiser: Optimiser,
        config: TrainingConfig,
        say: Callable[[str], None],
        recorder: Recorder | None,
    ) -> None:
        self._network, self._optimiser, self._config = network, optimiser, config
        self._say, self._recorder = say, recorder
        self._seen: set[_Key] = set()
        self._recordings: dict[_Key, tuple[_Parts, Callable[[], Tensor]]] = {}
        self._geometries: list[Geometry] = []
        self._room = _Room()
        self._failed = False
        self.seconds_recording = 0.0

    @property
    def n_recordings(self) -> int:
        return len(self._recordings)

    def update(self, inputs: ModelInputs, labels: Labels, step: int) -> Tensor:
        """Change the weights once; return the loss and the norm of its gradients, still on their device."""
        recorder = self._recorder
        if recorder is None:
            self._optimiser.set_rate(step)
            return self._make(inputs, labels)
        with recorder.ready():
            self._optimiser.set_rate(step)
            parts = _take_apart(inputs, labels)
            if parts is None:
                return self._make_beside(inputs, labels)
            key = tuple(None if part is None else (part.dtype, part.shape) for part in parts)
            if key not in self._recordings and not self._record(recorder, key, parts):
                return self._make_beside(inputs, labels)
            kept, replay = self._recordings[key]
            _copy(parts, kept)
            return replay()

    def otherwise(self, make: Callable[[], Tensor], step: int) -> Tensor:
        """Make an update by calling `make`, without recording it."""
        with nullcontext() if self._recorder is None else self._recorder.ready():
            self._optimiser.set_rate(step)
            return make()

    def _make_beside(self, inputs: ModelInputs, labels: Labels) -> Tensor:
        """Make an update without recording it; if memory runs out, drop the recordings, which hold much, and retry."""
        try:
            return self._make(inputs, labels)
        except torch.OutOfMemoryError:
            if not self._recordings:
                raise
        # Not in the handler: the error holds on to all that the update had made.
        self.give_up_recordings()
        return self._make(inputs, labels)

    def give_up_recordings(self) -> bool:
        """Drop all recordings for good, to free their memory; return False if there are none."""
        if self._recorder is None or not self._recordings:
            return False
        self._failed = True
        self._recordings.clear()
        self._room = _Room()
        self._recorder.release()
        self._say(
            "the device has not the memory for recorded updates and for others beside them; from now on none is "
            "recorded, which is slower. A lower training.max_cells would leave room"
        )
        return True

    def _make(self, inputs: ModelInputs, labels: Labels) -> Tensor:
        loss = joint_loss(self._network(inputs), labels, self._config).total
        self._optimiser.differentiate(loss)
        norm = self._optimiser.apply()
        return torch.stack((loss.detach(), norm.detach()))

    def _record(self, recorder: Recorder, key: _Key, parts: _Parts) -> bool:
        """Record the updates of a shape, if it is time to; return False if this update must be made without that."""
        if key not in self._seen:
            self._seen.add(key)
            return False
        if self._failed or len(self._recordings) >= MAX_RECORDINGS:
            return False
        start = time.perf_counter()
        kept = self._room.like(parts)
        inputs, labels = _put_together(kept)
        # Before the recording: what is made within it is only there while it is replayed, and the cache is for all.
        geometries = _find_geometries(self._network, inputs.mask)
        try:
            with self._optimiser.recording():
                replay = recorder.record(lambda: self._make(inputs, labels))
        except Exception as error:  # whatever it is, the update can still be made without it
            self._failed = True
            cause = error.__context__ or error  # the end of a recording that broke off may have failed in its turn
            why = (str(cause) or type(cause).__name__).splitlines()[0]
            self._say(
                f"an update could not be recorded as a CUDA graph ({why}); those of its shape and of new ones are made "
                "without, which is slower"
            )
            return False
        self._recordings[key] = kept, replay
        self._geometries += geometries
        self.seconds_recording += time.perf_counter() - start
        return True


def _take_apart(inputs: ModelInputs, labels: Labels) -> _Parts | None:
    """Return the tensors of a batch; None if an update with them cannot be recorded."""
    spelling = inputs.spelling
    if not isinstance(spelling, PaddedSpelling | None):
        return None
    parts = (
        inputs.mask,
        inputs.words,
        None if spelling is None else spelling.characters,
        None if spelling is None else spelling.lengths,
        inputs.vectors,
        inputs.attention_maps,
        labels.entity_tags,
        labels.relation_tags,
    )
    return None if any(part is not None and part.requires_grad for part in parts) else parts


def _put_together(parts: _Parts) -> tuple[ModelInputs, Labels]:
    mask, words, characters, lengths, vectors, maps, entity_tags, relation_tags = parts
    assert mask is not None
    assert entity_tags is not None
    assert relation_tags is not None
    spelling = None if characters is None or lengths is None else PaddedSpelling(characters, lengths)
    return ModelInputs(mask, words, spelling, vectors, maps), Labels(entity_tags, relation_tags)


def _find_geometries(network: TableSequenceNetwork, mask: Tensor) -> list[Geometry]:
    """Return the geometries that recordings of the plain wavefront read, to keep them: their cache may drop them."""
    layers = [layer for layer in network.modules() if isinstance(layer, MDRNN)]
    return [
        make_geometry(mask.shape[1], mask.device, bool(layer.spec.recurrent))
        for layer in layers
        if select(
            mask.device.type,
            layer.spec,
            network.table_dtype or layer.input.dtype,
            layer.input.shape[2] // layer.spec.n_parts,
        )
        == "wavefront"
    ]


def _copy(parts: _Parts, to: _Parts) -> None:
    for part, place in zip(parts, to, strict=True):
        if part is not None and place is not None:
            place.copy_(part)


class _Room:
    """Memory for the inputs of recordings; it is filled for one recording at a time, so that all can share it."""

    def __init__(self) -> None:
        self._memory: Tensor | None = None

    def like(self, parts: Sequence[Tensor | None]) -> _Parts:
        """Return memory for tensors of the same shapes and types."""
        there = [part for part in parts if part is not None]
        ends = list(accumulate(-(-part.nbytes // _ALIGNED) * _ALIGNED for part in there))
        if self._memory is None or len(self._memory) < ends[-1]:
            # Earlier recordings keep the memory that they have; that doubles each time, so that little is wasted.
            size = max(ends[-1], 2 * (0 if self._memory is None else len(self._memory)))
            self._memory = torch.empty(size, dtype=torch.uint8, device=there[0].device)
        starts = iter((0, *ends))
        return tuple(None if part is None else _carve(self._memory, next(starts), part) for part in parts)


def _carve(memory: Tensor, start: int, like: Tensor) -> Tensor:
    return memory[start : start + like.nbytes].view(like.dtype).view(like.shape)
