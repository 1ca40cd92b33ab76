"""Batches of sentences through the network, and the decoding of its scores."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from relatum.config import DecodingConfig
from relatum.data.documents import map_spans
from relatum.decoding.probabilities import Logits, Probabilities
from relatum.decoding.sentences import DecodingOptions, decode_sentences
from relatum.decoding.spans import SpanChoices
from relatum.encoders.base import EncoderInput
from relatum.errors import RelatumError
from relatum.extractor.device import none_if_out_of_memory
from relatum.models.model import Model
from relatum.runtime.base import Runtime
from relatum.runtime.native.model import NativeModel
from relatum.runtime.native.reader import NativeReader
from relatum.tagging.sequence import check_fit
from relatum.types import Annotation, Entity, Sentence, Span

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a sentence that is read at once."""

    sentence: int
    span: Span


@dataclass(frozen=True, slots=True)
class Job:
    """A batch of windows, and the entities in them if these are given."""

    windows: Sequence[Window]
    batch: EncoderInput
    """The words of each window, and its context if an encoder reads it."""
    given: Sequence[tuple[Entity, ...]] | None

    @property
    def words(self) -> Sequence[Sequence[str]]:
        return self.batch.words

    @property
    def n_cells(self) -> int:
        return len(self.words) * max(map(len, self.words)) ** 2

    def divide(self) -> tuple[Job, Job]:
        """Divide the job into two."""
        half = len(self.windows) // 2
        return self._part(slice(half)), self._part(slice(half, None))

    def _part(self, part: slice) -> Job:
        context = self.batch.context
        batch = EncoderInput(self.words[part], None if context is None else context[part])
        return Job(self.windows[part], batch, None if self.given is None else self.given[part])


def do_jobs(
    model: Model | NativeModel, runtime: Runtime | NativeReader, jobs: Iterable[Job]
) -> Iterator[tuple[Job, list[Annotation]]]:
    """Yield every job, in order, with the annotations of its windows, decoded by the settings of the model.

    A GPU is given the next job before the scores of the last one are fetched and decoded, so that it need not wait; on
    a CPU each job is done before the next is asked for. If memory runs out, the job and all as large are divided.
    """
    ahead = 1 if str(model.device).startswith("cuda") else 0
    under_way: deque[tuple[Job, _Scores]] = deque()
    max_cells: float = inf
    for whole in jobs:
        parts = deque([whole])
        while parts:
            job = parts.popleft()
            if job.n_cells > max_cells and len(job.windows) > 1:
                parts.extendleft(reversed(job.divide()))
                continue
            scores = none_if_out_of_memory(partial(_score, runtime, job))
            if scores is not None:
                under_way.append((job, scores))
            elif len(job.windows) > 1:
                max_cells = job.n_cells // 2
                parts.appendleft(job)
            elif under_way:
                parts.appendleft(job)  # once more, when the one before it has left the device
            else:
                raise RelatumError(
                    f"out of memory: a sentence of {len(job.words[0])} words does not fit on the device; give a lower "
                    "max_cells (--max-cells), so that it is read in windows, or read on another device (--device)"
                )
            while len(under_way) > (ahead if scores is not None else 0):
                yield _finish(model, *under_way.popleft())
    while under_way:
        yield _finish(model, *under_way.popleft())


@dataclass(frozen=True, slots=True)
class _Scores:
    """The scores of a batch on their way to the host."""

    of_words: Tensor | Probabilities
    of_cells: Tensor | Probabilities | None
    arrival: torch.cuda.Event | None = None

    @classmethod
    def fetch(cls, of_words: Tensor, of_cells: Tensor | None) -> _Scores:
        """Begin to copy scores to the host, without waiting for them."""
        import torch

        def copy(scores: Tensor) -> Tensor:
            if scores.is_cpu and scores.dtype == torch.float32:
                return scores  # as nearly always on a CPU; to ask for it would take as long as to decode a word
            return scores.float().to("cpu", non_blocking=True)

        arrival = torch.cuda.Event() if of_words.is_cuda else None
        fetched = cls(copy(of_words), None if of_cells is None else copy(of_cells), arrival)
        if arrival is not None:
            arrival.record(torch.cuda.current_stream(of_words.device))
        return fetched

    def wait(self) -> tuple[Probabilities, Probabilities | None]:
        """Wait until the scores have arrived, and return them."""
        if self.arrival is not None:
            self.arrival.synchronize()
        return np.asarray(self.of_words), None if self.of_cells is None else np.asarray(self.of_cells)


def _score(runtime: Runtime | NativeReader, job: Job) -> _Scores:
    if isinstance(runtime, NativeReader):
        arrays = runtime.read(job.batch)
        return _Scores(arrays.entity_logits, arrays.relation_logits)
    outputs = runtime.read(job.batch)
    return _Scores.fetch(outputs.entity_logits, outputs.relation_logits)


def _finish(model: Model | NativeModel, job: Job, scores: _Scores) -> tuple[Job, list[Annotation]]:
    return job, decode(model, job, *scores.wait())


def _span_choices(settings: DecodingConfig) -> SpanChoices:
    return SpanChoices(
        settings.overlap,
        settings.relations_of_pair == "several",
        settings.constraints,
        settings.entity_threshold or 0.5,
        settings.relation_threshold or 0.5,
    )


def decode(
    model: Model | NativeModel, job: Job, of_words: Probabilities, of_cells: Probabilities | None
) -> list[Annotation]:
    """Decode scores into the annotations of the windows of a job."""
    settings = model.config.decoding
    return decode_sentences(
        Logits(of_words),
        None if of_cells is None else Logits(of_cells),
        [len(words) for words in job.words],
        model.tagging,
        DecodingOptions(settings.opposite, settings.entities, settings.constraints, _span_choices(settings)),
        job.given,
    )


def check_given(sentences: Sequence[Sentence], entities: Sequence[Sequence[Entity]]) -> None:
    """Refuse given entities that do not belong to the sentences."""
    if len(entities) != len(sentences):
        raise ValueError(
            f"got the entities of {len(entities)} sentences for {len(sentences)} sentences; give a list for each, "
            f"an empty one where there are none"
        )
    for sentence, given in zip(sentences, entities, strict=True):
        for entity in given:
            check_fit(entity, len(sentence))


def entities_inside(entities: Sequence[Entity], window: Span) -> tuple[Entity, ...]:
    """Return the entities that lie in a window, counted from its start."""
    inside = tuple(entity for entity in entities if window.contains(entity.span))
    return map_spans(Annotation(inside), lambda span: span.shift(-window.start)).entities
