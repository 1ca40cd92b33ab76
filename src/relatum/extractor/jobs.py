"""Batches of sentences through the network, and what it says of them decoded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from relatum.decoding.probabilities import Logits, Probabilities
from relatum.decoding.sentences import decode_sentences
from relatum.models.known_words import KnownWords
from relatum.models.model import Model
from relatum.types import Annotation, Entity, Span


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a sentence that is read at once."""

    sentence: int
    span: Span


@dataclass(frozen=True, slots=True)
class Job:
    """A batch: windows, their words, and the entities in them where these are given."""

    windows: Sequence[Window]
    words: Sequence[Sequence[str]]
    given: Sequence[tuple[Entity, ...]] | None


def do_jobs(
    model: Model, jobs: Iterable[Job], known: KnownWords | None = None
) -> Iterator[tuple[Job, list[Annotation]]]:
    """What is in the windows of all jobs, in their order.

    A GPU is given the next job before what it said about the last one is fetched and decoded, so that it need not wait;
    on a CPU each job is done before the next is asked for.
    """
    ahead = 1 if model.device.type == "cuda" else 0
    under_way: deque[tuple[Job, _Scores]] = deque()
    for job in jobs:
        under_way.append((job, _score(model, job.words, known)))
        if len(under_way) > ahead:
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
            return scores.float().to("cpu", non_blocking=True)

        arrival = torch.cuda.Event() if of_words.is_cuda else None
        fetched = cls(copy(of_words), None if of_cells is None else copy(of_cells), arrival)
        if arrival is not None:
            arrival.record(torch.cuda.current_stream(of_words.device))
        return fetched

    def wait(self) -> tuple[Probabilities, Probabilities | None]:
        """The scores, as soon as they are there."""
        if self.arrival is not None:
            self.arrival.synchronize()
        return self.of_words.numpy(), None if self.of_cells is None else self.of_cells.numpy()


@torch.inference_mode()
def _score(model: Model, sentences: Sequence[Sequence[str]], known: KnownWords | None = None) -> _Scores:
    """What the network says; on a GPU it may not have said it yet."""
    network = model.network
    was_training = network.training
    if was_training:
        network.eval()
    try:
        # Of weights that are being learned nothing is kept: not every way of changing them is seen.
        outputs = network(model.inputs(sentences, known=None if was_training else known))
    finally:
        if was_training:
            network.train()
    return _Scores.fetch(outputs.entity_logits, outputs.relation_logits)


def _finish(model: Model, job: Job, scores: _Scores) -> tuple[Job, list[Annotation]]:
    of_words, of_cells = scores.wait()
    return job, decode_sentences(
        Logits(of_words),
        None if of_cells is None else Logits(of_cells),
        [len(words) for words in job.words],
        model.sequence_tags,
        model.table_tags,
        model.config.decoding.opposite,
        job.given,
    )
