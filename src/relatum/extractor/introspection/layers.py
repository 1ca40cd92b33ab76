"""The findings of every layer of the network in sentences, not only of the last layer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from relatum.decoding.probabilities import Logits, pick
from relatum.errors import RelatumError
from relatum.extractor.device import none_if_out_of_memory
from relatum.extractor.jobs import Job, decode
from relatum.models.model import Model
from relatum.models.outputs import LayerState, Outputs
from relatum.runtime.base import Runtime, evaluating
from relatum.types import Annotation, Span


@dataclass(frozen=True, slots=True, eq=False)
class LayerReading:
    """The findings of one layer in a window."""

    found: Annotation
    """The annotation in words of the window; scores are the network's own, not calibrated."""
    of_words: NDArray[np.float64]
    """(words, entity tags): probabilities."""
    of_cells: NDArray[np.float64] | None
    """(words, words, relation tags): probabilities; None where no relations are scored.

    Those of a cell sum to 1, or each tag has a probability of its own (`Tagging.has_tag_sets`).
    """
    attention: NDArray[np.float32] | None
    """(attention heads, words, words): the sequence encoder's; None where there is no such encoder."""


@dataclass(frozen=True, slots=True, eq=False)
class LayerOutputs:
    """The findings of all layers in a window of a sentence, the first layer first."""

    window: Span
    layers: tuple[LayerReading, ...]
    maps: NDArray[np.float32] | None
    """(maps, words, words): the encoder's attention as the table reads it; None if the table reads none."""


def read_layers(model: Model, runtime: Runtime, jobs: Iterable[Job]) -> Iterator[tuple[int, LayerOutputs]]:
    """Yield the reading of every window of all jobs, with the number of its sentence.

    The last layer finds what `do_jobs` finds. If memory runs out, a job is divided.
    """
    for whole in jobs:
        parts = [whole]
        while parts:
            job = parts.pop()
            readings = none_if_out_of_memory(partial(_read, model, runtime, job))
            if readings is not None:
                for window, reading in zip(job.windows, readings, strict=True):
                    yield window.sentence, reading
            elif len(job.windows) > 1:
                parts += reversed(job.divide())
            else:
                raise RelatumError(
                    f"out of memory: all layers of a sentence of {len(job.words[0])} words do not fit on the device; "
                    "give a lower max_cells (--max-cells), so that it is read in windows, or read on another device "
                    "(--device)"
                )


@torch.inference_mode()
def _read(model: Model, runtime: Runtime, job: Job) -> list[LayerOutputs]:
    last = runtime.read(job.batch, keep_layers=True)
    with evaluating(model.network):
        before = [model.network.score(state.sequence, state.table) for state in last.layers[:-1]]
    states = zip([*before, last], last.layers, strict=True)
    layers = [_divide(model, job, outputs, state) for outputs, state in states]
    maps = None if last.attention_maps is None else _fetch(last.attention_maps)
    readings = []
    for row, (window, words) in enumerate(zip(job.windows, job.words, strict=True)):
        n_words = len(words)
        own_maps = None if maps is None else np.moveaxis(maps[row, :n_words, :n_words], -1, 0)
        readings.append(LayerOutputs(window.span, tuple(layer[row] for layer in layers), own_maps))
    return readings


def _divide(model: Model, job: Job, outputs: Outputs, state: LayerState) -> list[LayerReading]:
    """Return the findings of one layer in each window of a job."""
    of_words = _fetch(outputs.entity_logits)
    of_cells = None if outputs.relation_logits is None else _fetch(outputs.relation_logits)
    attention = None if state.attention is None else _fetch(state.attention)
    annotations = decode(model, job, of_words, of_cells)
    return [
        LayerReading(
            annotation,
            pick(Logits(of_words[row, :n_words])),
            None if of_cells is None else _cell_probabilities(model, of_cells[row, :n_words, :n_words]),
            None if attention is None else attention[row, :, :n_words, :n_words],
        )
        for row, (annotation, n_words) in enumerate(zip(annotations, map(len, job.words), strict=True))
    ]


def _cell_probabilities(model: Model, logits: NDArray[np.float32]) -> NDArray[np.float64]:
    if not model.tagging.has_tag_sets:
        return pick(Logits(logits))
    probabilities: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(logits.astype(np.float64), -700, 700)))
    return probabilities


def _fetch(values: Tensor) -> NDArray[np.float32]:
    fetched: NDArray[np.float32] = values.float().cpu().numpy()
    return fetched
