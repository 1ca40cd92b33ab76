"""Updates of a network, recorded as a CUDA graph for each shape of batch.

A recorded update is the whole of it: forward, loss, backward, clipping, Adam.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor

from relatum.config import TrainingConfig
from relatum.encoders.base import Pieces
from relatum.kernels.backend import select
from relatum.kernels.md_gru.geometry import Geometry, make_geometry
from relatum.layers.characters import PaddedCharacterBatch
from relatum.layers.md_rnn import MDRNN
from relatum.models.inputs import ModelInputs
from relatum.models.labels import Labels
from relatum.models.losses import joint_loss
from relatum.models.model import Model
from relatum.models.network import TableSequenceNetwork
from relatum.runtime.cuda_graphs import GraphMemory, Recorder
from relatum.training.optimisation import Optimiser

_Tensors = tuple[Tensor | None, ...]
_Key = tuple[tuple[torch.dtype, torch.Size] | None, ...]

MAX_GRAPHS = 128
"""The most graphs, since each takes some megabytes of a GPU; batches of further shapes are not recorded."""


class GraphedStep:
    """The update of a network with a batch, recorded if it can be.

    The first update with a batch of a new shape is not recorded, and also compiles what there is to compile; the second
    update with that shape is recorded, and from then on replayed. Random numbers are the same either way, and no result
    depends on which updates were recorded when. The network's settings (dropout, precision, backend) are part of a
    recording: other settings need another `GraphedStep`.
    """

    def __init__(
        self,
        model: Model,
        optimiser: Optimiser,
        config: TrainingConfig,
        say: Callable[[str], None],
        recorder: Recorder | None,
    ) -> None:
        self._model, self._optimiser, self._config = model, optimiser, config
        self._say, self._recorder = say, recorder
        self._seen: set[_Key] = set()
        self._graphs: dict[_Key, tuple[_Tensors, Callable[[], Tensor]]] = {}
        self._geometries: list[Geometry] = []
        self._memory = GraphMemory()
        self._failed = False
        self.seconds_recording = 0.0

    @property
    def n_graphs(self) -> int:
        return len(self._graphs)

    def update(self, inputs: ModelInputs, labels: Labels, step: int) -> Tensor:
        """Change the weights once; return the loss and the norm of its gradients, still on their device."""
        recorder = self._recorder
        if recorder is None:
            self._optimiser.set_rate(step)
            return self._make(inputs, labels)
        with recorder.ready():
            self._optimiser.set_rate(step)
            parts = _to_tensors(inputs, labels)
            if parts is None:
                return self._run_unrecorded(inputs, labels)
            key = tuple(None if part is None else (part.dtype, part.shape) for part in parts)
            if key not in self._graphs and not self._record(recorder, key, parts):
                return self._run_unrecorded(inputs, labels)
            kept, replay = self._graphs[key]
            _copy(parts, kept)
            return replay()

    def run_eager(self, make: Callable[[], Tensor], step: int) -> Tensor:
        """Make an update by calling `make`, without recording it."""
        with nullcontext() if self._recorder is None else self._recorder.ready():
            self._optimiser.set_rate(step)
            return make()

    def _run_unrecorded(self, inputs: ModelInputs, labels: Labels) -> Tensor:
        """Make an update without recording it; if memory runs out, drop the graphs, which hold much, and retry."""
        try:
            return self._make(inputs, labels)
        except torch.OutOfMemoryError:
            if not self._graphs:
                raise
        # Not in the handler: the error holds on to all that the update had made.
        self.drop_graphs()
        return self._make(inputs, labels)

    def drop_graphs(self) -> bool:
        """Drop all graphs for good, to free their memory; return False if there are none."""
        if self._recorder is None or not self._graphs:
            return False
        self._failed = True
        self._graphs.clear()
        self._memory = GraphMemory()
        self._recorder.release()
        self._say(
            "out of memory: recorded updates and others do not fit on the device together. From now on none is "
            "recorded, which is slower. A lower training.max_cells would leave room"
        )
        return True

    def _make(self, inputs: ModelInputs, labels: Labels) -> Tensor:
        loss = joint_loss(self._model.score(inputs), labels, self._config).total
        self._optimiser.differentiate(loss)
        norm = self._optimiser.apply()
        return torch.stack((loss.detach(), norm.detach()))

    def _record(self, recorder: Recorder, key: _Key, parts: _Tensors) -> bool:
        """Record the updates of a shape, if it is time to; return False if this update must be made without that."""
        if key not in self._seen:
            self._seen.add(key)
            return False
        if self._failed or len(self._graphs) >= MAX_GRAPHS:
            return False
        start = time.perf_counter()
        kept = self._memory.like(parts)
        inputs, labels = _from_tensors(kept)
        # Before the recording: what is made within it is only there while it is replayed, and the cache is for all.
        geometries = _find_geometries(self._model.network, inputs.mask)
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
        self._graphs[key] = kept, replay
        self._geometries += geometries
        self.seconds_recording += time.perf_counter() - start
        return True


def _to_tensors(inputs: ModelInputs, labels: Labels) -> _Tensors | None:
    """Return the tensors of a batch; None if an update with them cannot be recorded."""
    characters = inputs.characters
    if not isinstance(characters, PaddedCharacterBatch | None):
        return None
    pieces = inputs.pieces
    return (
        inputs.mask,
        inputs.words,
        None if characters is None else characters.characters,
        None if characters is None else characters.lengths,
        inputs.vectors,
        inputs.attention_maps,
        None if pieces is None else pieces.pieces,
        None if pieces is None else pieces.owners,
        labels.entity_tags,
        labels.relation_tags,
        labels.tag_sets,
        labels.entity_targets,
        labels.relation_targets,
    )


def _from_tensors(parts: _Tensors) -> tuple[ModelInputs, Labels]:
    mask, words, characters, lengths, vectors, maps, pieces, owners, *of_labels = parts
    entity_tags, relation_tags, *others = of_labels
    assert mask is not None
    assert entity_tags is not None
    assert relation_tags is not None
    words_characters = None if characters is None or lengths is None else PaddedCharacterBatch(characters, lengths)
    to_read = None if pieces is None or owners is None else Pieces(pieces, owners)
    inputs = ModelInputs(mask, words, words_characters, vectors, maps, pieces=to_read)
    return inputs, Labels(entity_tags, relation_tags, *others)


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


def _copy(source: _Tensors, target: _Tensors) -> None:
    for values, memory in zip(source, target, strict=True):
        if values is not None and memory is not None:
            memory.copy_(values)
