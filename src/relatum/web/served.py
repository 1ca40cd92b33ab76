"""A model that a server answers with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from relatum.errors import RelatumError
from relatum.extractor.extractor import Extractor
from relatum.extractor.result import Extraction
from relatum.kernels.threads import count_threads, set_threads
from relatum.types import Prediction, Sentence
from relatum.web.handover import Handover
from relatum.web.limits import Limits, Refusal
from relatum.web.queue import PAUSE, BatchQueue, QueueClosed, QueueFull

T = TypeVar("T")
CPU_BATCH = 8
"""The most sentences in a batch on a CPU: larger ones are no faster, take more memory and make others wait."""
MAX_READERS = 4
"""The most batches that are read at once on a CPU."""
SHORT = 4000
"""The most characters that are split, or joined again, without a thread, which takes a millisecond at most."""


class ServedModel:
    """A model by its name, with a queue of its own."""

    def __init__(
        self,
        name: str,
        extractor: Extractor,
        limits: Limits,
        batch_size: int | None = None,
        n_readers: int | None = None,
        pause: float = PAUSE,
    ) -> None:
        """Make a served model that reads up to `n_readers` batches at once, of up to `batch_size` sentences.

        If not given, both are chosen for the device.
        """
        self.name, self.extractor, self.limits = name, extractor, limits
        on_cpu, n_cores = extractor.device == "cpu", count_threads()
        if batch_size is None:
            batch_size = min(CPU_BATCH, extractor.batch_size) if on_cpu else extractor.batch_size
        if n_readers is None:
            n_readers = min(MAX_READERS, n_cores) if on_cpu else 1

        def use_share(share: float) -> None:
            set_threads(max(1, int(n_cores * share)))  # it is the thread's own

        self.queue = BatchQueue(
            extractor,
            extractor.max_words,
            limits.max_waiting,
            batch_size,
            n_readers,
            use_share if on_cpu else None,
            pause,
        )

    def start(self) -> None:
        """Start the queue; to be called in the event loop that will call `extract` and `probe`."""
        self._handover = Handover()
        self.queue.start()

    def info(self) -> dict[str, Any]:
        """Return the description of the model for clients."""
        config, schema = self.extractor.config, self.extractor.schema
        return {
            "name": self.name,
            "entity_types": list(schema.entity_types),
            "relation_types": [one.name for one in schema.relation_types],
            "n_layers": config.model.n_layers,
            "n_attention_heads": config.sequence.n_attention_heads,
            "encoder": " and ".join(config.encoder.names) or "none",
            "card": self.extractor.card,
        }

    async def read(self, texts: Sequence[str], threshold: float | None = None) -> list[Extraction]:
        """Return what is found in each text; if cancelled, the sentences leave the queue."""
        n_characters = sum(map(len, texts))
        split = await work_on(n_characters, lambda: self._split(texts))
        found = await self._wait_for(lambda: self.queue.submit([one for text in split for one in text]))
        return await work_on(n_characters, lambda: self._join(texts, split, found, threshold))

    async def extract(self, texts: Sequence[str], threshold: float | None) -> list[dict[str, Any]]:
        """Return the entities and relations of each text, for JSON; if cancelled, the sentences leave the queue."""
        found = await self.read(texts, threshold)
        return await work_on(sum(map(len, texts)), lambda: list(map(_answer, found)))

    async def probe(self, text: str, number: int) -> dict[str, Any]:
        """Return the probe of one sentence of a text, with the output of every layer, for JSON."""
        (sentences,) = await work_on(len(text), lambda: self._split([text]))
        if number >= len(sentences):
            raise Refusal("not_found", f"sentence: found {number}; the text has {len(sentences)}, counted from 0")
        n_words, most = len(sentences[number]), self.limits.max_words
        if not n_words:
            raise Refusal("invalid", "text: there are no words in it; expected some")
        if n_words > most:
            cure = "send a shorter text" if sentences[number].starts else "divide the sentence"
            raise Refusal(
                "too_large", f"text: sentence {number} has {n_words} words, and at most {most} can be probed; {cure}"
            )

        def look() -> dict[str, Any]:
            (probe,) = self.extractor.probe(text, only=number)
            return probe.to_dict()

        probe = await self._wait_for(lambda: self.queue.call(look))
        return {"sentence": number, "sentences": _ranges(sentences), "probe": probe}

    def _split(self, texts: Sequence[str]) -> list[list[Sentence]]:
        split, weight, most = [], 0, self.limits.max_sentences
        for text in texts:
            sentences = self.extractor.split(text)
            weight += max(1, sum(map(self.queue.weigh, sentences)))
            if weight > most:
                raise Refusal(
                    "too_large",
                    f"found more than {most} sentences (a text counts as one at least, a sentence of more than "
                    f"{self.queue.max_words} words as several); send the texts in several requests",
                )
            split.append(sentences)
        return split

    def _join(
        self,
        texts: Sequence[str],
        split: Sequence[Sequence[Sentence]],
        found: Sequence[Prediction],
        threshold: float | None,
    ) -> list[Extraction]:
        extractions, predictions = [], iter(found)
        for text, sentences in zip(texts, split, strict=True):
            extraction = self.extractor.join_sentences(text, [next(predictions) for _ in sentences])
            extractions.append(extraction if threshold is None else extraction.above(threshold))
        return extractions

    async def _wait_for(self, submit: Callable[[], Future[T]]) -> T:
        try:
            waiting = submit()
        except QueueFull:
            raise Refusal(
                "busy", f"{self.queue.n_waiting} sentences are waiting for the model {self.name!r}; try again later"
            ) from None
        except QueueClosed:
            raise Refusal("unavailable", "the server is stopping; try again when it is back") from None
        try:
            return await self._handover.wait_for(waiting)
        except RelatumError as error:
            raise Refusal("unavailable", str(error)) from None


async def work_on(n_characters: int, work: Callable[[], T]) -> T:
    """Do work on a text and return its result; for a long text in a thread, so that other requests need not wait."""
    return work() if n_characters <= SHORT else await asyncio.to_thread(work)


def _answer(extraction: Extraction) -> dict[str, Any]:
    sentences = [{"start": start, "end": end} for start, end in extraction.sentences]
    return {**extraction.to_dict(), "sentences": sentences}


def _ranges(sentences: Sequence[Sentence]) -> list[dict[str, int]]:
    """Return the start and end of each sentence, in characters of the text."""
    found = [one.offsets for one in sentences if one.offsets]
    return [{"start": offsets[0].start, "end": offsets[-1].end} for offsets in found]
