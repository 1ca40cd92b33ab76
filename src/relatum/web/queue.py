"""Sentences of many requests, read together."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from threading import Condition, Thread
from typing import Any, Protocol

from relatum.types import Prediction, Sentence

PAUSE = 0.002
"""Seconds that a sentence waits for others to share its batch, if the reader is idle."""

OnProgress = Callable[[int, int], None]


class Reader(Protocol):
    """A reader of sentences, such as an `Extractor`."""

    max_cells: int

    def predict(
        self, sentences: Sequence[Sentence], entities: None = None, on_progress: OnProgress | None = None
    ) -> list[Prediction]: ...


class QueueFull(Exception):
    """There is no room for a request's sentences."""


class QueueClosed(Exception):
    """Nothing is accepted any more."""


class _Left(Exception):
    """Nobody waits for the answer any more."""


class _Request:
    """The sentences of a request, with the predictions of the sentences that have been read; or a function to call."""

    __slots__ = ("answer", "arrival", "call", "found", "n_found", "n_taken", "sentences")

    def __init__(self, sentences: Sequence[Sentence], call: Callable[[], Any] | None = None) -> None:
        self.sentences, self.call = sentences, call
        self.found: list[Prediction | None] = [None] * len(sentences)
        self.n_taken = self.n_found = 0
        self.arrival = time.monotonic()
        self.answer: Future[Any] = Future()

    def finish(self, result: object) -> None:
        with suppress(InvalidStateError):  # it was cancelled
            self.answer.set_result(result)

    def fail(self, error: BaseException) -> None:
        with suppress(InvalidStateError):
            self.answer.set_exception(error)


_Place = tuple[_Request, int]


class BatchQueue:
    """A queue that reads the sentences of concurrent requests in batches, in threads of its own.

    Several threads that each read a batch are faster on a CPU than one that divides every batch among its cores: they
    never wait for one another. The sentences that wait are divided among the idle threads.

    Requests take turns, a sentence each, so that a small request waits for one batch and not for a large request before
    it. A sentence that is read in several windows has a batch of its own, and other sentences are read in between. A
    request that is cancelled leaves the queue; a request that fails does not make others fail.
    """

    def __init__(
        self,
        reader: Reader,
        max_words: int,
        max_waiting: int,
        batch_size: int,
        n_threads: int = 1,
        on_share: Callable[[float], None] | None = None,
        pause: float = PAUSE,
    ) -> None:
        """Make a queue, not yet started; a sentence counts as one sentence for every `max_words` words that it has.

        Before each batch, `on_share` is called in the batch's thread with its share of the machine: 1 if nothing else
        is being read, else an equal share for each busy thread.
        """
        self._reader, self.max_words, self._max_waiting, self._pause = reader, max_words, max_waiting, pause
        self._batch_size, self._n_threads, self._on_share = batch_size, n_threads, on_share
        self._requests: deque[_Request] = deque()
        self._n_waiting = self._n_idle = 0
        self._changed = Condition()
        self._closed = False
        self._threads: list[Thread] = []

    @property
    def n_waiting(self) -> int:
        """The number of sentences that no thread has begun to read."""
        return self._n_waiting

    def weigh(self, sentence: Sentence) -> int:
        """Return the number of sentences that a sentence counts as; a long sentence counts as several."""
        return max(1, -(-len(sentence) // self.max_words))

    def start(self) -> None:
        self._threads = [Thread(target=self._work, name="relatum-reader", daemon=True) for _ in range(self._n_threads)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Accept no more requests, and return when all accepted requests have been read."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def submit(self, sentences: Sequence[Sentence]) -> Future[list[Prediction]]:
        """Add sentences to the queue; return a future of their predictions. To cancel it leaves the queue."""
        return self._add(_Request(sentences), sum(map(self.weigh, sentences)))

    def call(self, call: Callable[[], Any]) -> Future[Any]:
        """Call a function in a thread that reads, between batches; return a future. To cancel it leaves the queue."""
        return self._add(_Request((), call), 1)

    def _add(self, request: _Request, weight: int) -> Future[Any]:
        with self._changed:
            if self._closed:
                raise QueueClosed
            if self._n_waiting + weight > self._max_waiting:
                raise QueueFull
            if request.call is None and not request.sentences:
                request.finish([])
                return request.answer
            self._requests.append(request)
            self._n_waiting += weight
            self._changed.notify_all()
        request.answer.add_done_callback(lambda answer: self._forget(request) if answer.cancelled() else None)
        return request.answer

    def _work(self) -> None:
        while (found := self._gather()) is not None:
            batch, share = found
            if self._on_share is not None:
                self._on_share(share)
            self._do(batch)

    def _gather(self) -> tuple[list[_Place], float] | None:
        """Wait for the next batch; return it and its share of the machine. None if the queue is closed and empty."""
        with self._changed:
            self._n_idle += 1
            try:
                while True:
                    while not self._requests and not self._closed:
                        self._changed.wait()
                    self._wait_for_more()
                    batch = self._take(-(-self._n_waiting // self._n_idle))
                    if batch:
                        n_busy = self._n_threads - self._n_idle + 1
                        return batch, 1 / min(self._n_threads, n_busy + self._n_waiting)
                    if self._closed and not self._requests:
                        return None
            finally:
                self._n_idle -= 1

    def _wait_for_more(self) -> None:
        """Wait until there are enough sentences for all idle threads, or the first request has waited long enough."""
        enough = self._batch_size * self._n_idle
        while self._requests and not self._closed and self._n_waiting < enough:
            left = self._requests[0].arrival + self._pause - time.monotonic()
            if left <= 0:
                return
            self._changed.wait(left)

    def _take(self, most: int, long_too: bool = True) -> list[_Place]:
        """Take sentences that fit into a batch from the queue, from the first request first and then in turns."""
        most = min(most, self._batch_size)
        batch: list[_Place] = []
        passed: list[_Request] = []
        longest = 0
        while self._requests and len(batch) < most:
            request = self._requests.popleft()
            if request.answer.cancelled():
                self._n_waiting -= self._weight_left(request)
                continue
            alone = request.call is not None or len(request.sentences[request.n_taken]) > self.max_words
            if alone and (batch or not long_too):
                passed.append(request)
                continue
            n_words = 0 if alone else max(longest, len(request.sentences[request.n_taken]))
            if batch and (len(batch) + 1) * n_words**2 > self._reader.max_cells:
                passed.append(request)
                continue
            longest = n_words
            self._n_waiting -= 1 if request.call else self.weigh(request.sentences[request.n_taken])
            batch.append((request, request.n_taken))
            request.n_taken += 1
            if request.n_taken < len(request.sentences):
                self._requests.append(request)
            if alone:
                break
        self._requests.extendleft(reversed(passed))
        return batch

    def _weight_left(self, request: _Request) -> int:
        return 1 if request.call else sum(map(self.weigh, request.sentences[request.n_taken :]))

    def _do(self, batch: Sequence[_Place]) -> None:
        first = batch[0][0]
        try:
            if first.call is not None:
                first.finish(first.call())
                return
            sentences = [request.sentences[number] for request, number in batch]
            between = self._between(first) if len(sentences[0]) > self.max_words else None
            found = self._reader.predict(sentences, on_progress=between)
        except Exception as error:
            if len(batch) == 1:
                self._drop(first, error)
            else:
                for one in batch:  # so that only the one that cannot be read fails
                    self._do([one])
            return
        finished = []
        with self._changed:  # others may be reading sentences of the same requests
            for (request, place), prediction in zip(batch, found, strict=True):
                request.found[place] = prediction
                request.n_found += 1
                if request.n_found == len(request.sentences):
                    finished.append(request)
        for request in finished:
            request.finish(request.found)

    def _between(self, request: _Request) -> OnProgress:
        def read_others(_n_read: int, _n_all: int) -> None:
            if request.answer.cancelled():
                raise _Left
            with self._changed:
                batch = self._take(self._n_waiting, long_too=False)
            if batch:
                self._do(batch)

        return read_others

    def _drop(self, request: _Request, error: Exception) -> None:
        """Answer a request that cannot be read, and take what is left of it out of the queue."""
        request.fail(error)
        self._forget(request)

    def _forget(self, request: _Request) -> None:
        with self._changed:
            if request in self._requests:
                self._requests.remove(request)
                self._n_waiting -= self._weight_left(request)
