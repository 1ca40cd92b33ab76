"""Batches of sentences through the network, and the decoding of its scores."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf

import torch
from torch import Tensor

from relatum.decoding.probabilities import Logits, Probabilities
from relatum.decoding.sentences import decode_sentences
from relatum.encoders.base import EncoderOutput, TextEncoder
from relatum.errors import RelatumError
from relatum.extractor.device import if_it_fits
from relatum.models.known_words import KnownWords
from relatum.models.model import Model
from relatum.models.outputs import Outputs
from relatum.types import Annotation, Context, Entity, Span


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a sentence that is read at once."""

    sentence: int
    span: Span


@dataclass(frozen=True, slots=True)
class Job:
    """A batch: windows, their words, the entities in them if these are given, and the context around them."""

    windows: Sequence[Window]
    words: Sequence[Sequence[str]]
    given: Sequence[tuple[Entity, ...]] | None
    around: Sequence[Context] | None = None
    """The context of each window, if an encoder reads it."""

    @property
    def n_cells(self) -> int:
        return len(self.words) * max(map(len, self.words)) ** 2

    def divide(self) -> tuple[Job, Job]:
        """Divide the job into two."""
        half = len(self.windows) // 2
        first, second = (
            Job(
                self.windows[part],
                self.words[part],
                None if self.given is None else self.given[part],
                None if self.around is None else self.around[part],
            )
            for part in (slice(half), slice(half, None))
        )
        return first, second


Reader = tuple[Model, KnownWords | None]
"""A model and the cache of words that it has read."""


def do_jobs(
    model: Model, jobs: Iterable[Job], known: KnownWords | None = None, others: Sequence[Reader] = ()
) -> Iterator[tuple[Job, list[Annotation]]]:
    """Yield every job, in order, with the annotations of its windows.

    With `others`, the mean of the probabilities of all models is decoded, by the settings of `model`.

    A GPU is given the next job before the scores of the last one are fetched and decoded, so that it need not wait; on
    a CPU each job is done before the next is asked for. If memory runs out, the job and all as large are divided.
    """
    ahead = 1 if model.device.type == "cuda" else 0
    under_way: deque[tuple[Job, _Scores]] = deque()
    max_cells: float = inf
    for whole in jobs:
        parts = deque([whole])
        while parts:
            job = parts.popleft()
            if job.n_cells > max_cells and len(job.windows) > 1:
                parts.extendleft(reversed(job.divide()))
                continue
            scores = if_it_fits(partial(_score, model, job.words, known, *others, around=job.around))
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

    of_words: Tensor
    of_cells: Tensor | None
    arrival: torch.cuda.Event | None

    @classmethod
    def fetch(cls, of_words: Tensor, of_cells: Tensor | None) -> _Scores:
        """Begin to copy scores to the host, without waiting for them."""

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
        return self.of_words.numpy(), None if self.of_cells is None else self.of_cells.numpy()


@torch.inference_mode()
def _score(
    model: Model,
    sentences: Sequence[Sequence[str]],
    known: KnownWords | None = None,
    *others: Reader,
    around: Sequence[Context] | None = None,
) -> _Scores:
    """Return the scores of the network, or of several networks together; a GPU may still be computing them."""
    features = _share_features([model, *(one for one, _ in others)], sentences, around) if others else {}
    outputs = _read(model, sentences, around, known, features)
    of_words, of_cells = outputs.entity_logits, outputs.relation_logits
    if others:
        of_words, of_cells = _certainty(of_words), None if of_cells is None else _certainty(of_cells)
    for one, its_known in others:
        more = _read(one, sentences, around, its_known, features)
        of_words = torch.logaddexp(of_words, _certainty(more.entity_logits))
        if of_cells is not None and more.relation_logits is not None:
            of_cells = torch.logaddexp(of_cells, _certainty(more.relation_logits))
    return _Scores.fetch(of_words, of_cells)


def _certainty(logits: Tensor) -> Tensor:
    """Return log probabilities: the softmax of a `logaddexp` over several models is the mean of their probabilities."""
    return logits.float().log_softmax(-1)


_Features = Mapping[TextEncoder, EncoderOutput]


def _share_features(
    models: Sequence[Model], sentences: Sequence[Sequence[str]], around: Sequence[Context] | None
) -> _Features:
    """Return the outputs of the encoders that several of the models share."""
    counts = Counter(model.encoder for model in models if model.encoder is not None)
    return {encoder: encoder.encode(sentences, around) for encoder, count in counts.items() if count > 1}


def _read(
    model: Model,
    sentences: Sequence[Sequence[str]],
    around: Sequence[Context] | None,
    known: KnownWords | None,
    features: _Features,
) -> Outputs:
    network = model.network
    shared = None if model.encoder is None else features.get(model.encoder)
    was_training = network.training
    if was_training:
        network.eval()
    try:
        # Of weights that are being learned nothing is kept: not every way of changing them is seen.
        inputs = model.inputs(sentences, shared, known=None if was_training else known, late=True, around=around)
        outputs: Outputs = network(inputs, keep=False)
    finally:
        if was_training:
            network.train()
    return outputs


def _finish(model: Model, job: Job, scores: _Scores) -> tuple[Job, list[Annotation]]:
    return job, decode(model, job, *scores.wait())


def decode(model: Model, job: Job, of_words: Probabilities, of_cells: Probabilities | None) -> list[Annotation]:
    """Decode scores into the annotations of the windows of a job."""
    settings = model.config.decoding
    return decode_sentences(
        Logits(of_words),
        None if of_cells is None else Logits(of_cells),
        [len(words) for words in job.words],
        model.sequence_tags,
        model.table_tags,
        settings.opposite,
        job.given,
        search=settings.entities,
        constraints=settings.constraints,
    )
