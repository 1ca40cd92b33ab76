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
"""Seconds that a sentence waits for others to be read with, where the reader is idle."""

OnProgress = Callable[[int, int], None]


class Reader(Protocol):
    """What reads sentences; an `Extractor` is one."""

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
    """The sentences of a request, and what has been found in those that have been read; or a call by itself."""

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
    """Reads the sentences of concurrent requests in batches, in threads of its own.

    Several threads that each read a batch are faster on a CPU than one that divides every batch among its cores: they
    never wait for one another. What is waiting is divided among those that have nothing to do.

    Requests take turns, a sentence each, so that a small one waits for one batch and not for a large request before it.
    A sentence that is read in several windows has a batch of its own, and others are read in between. A request that
    is cancelled leaves the queue; one that fails does not take others with it.
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
        """Sentences of more than `max_words` are long ones, and count once for every `max_words` words.

        Before each batch, `on_share` is told in its thread which share of the machine it has: 1 where nothing else is
        being read, and else the same for all threads that are busy.
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
        """Sentences that nobody has begun to read."""
        return self._n_waiting

    def weigh(self, sentence: Sentence) -> int:
        """How many sentences one counts as."""
        return max(1, -(-len(sentence) // self.max_words))

    def start(self) -> None:
        self._threads = [Thread(target=self._work, name="relatum-reader", daemon=True) for _ in range(self._n_threads)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Accept nothing more, and return when all that was accepted has been read."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join()

    def submit(self, sentences: Sequence[Sentence]) -> Future[list[Prediction]]:
        """What is in the sentences, when it is known; cancel it to leave the queue."""
        return self._add(_Request(sentences), sum(map(self.weigh, sentences)))

    def call(self, call: Callable[[], Any]) -> Future[Any]:
        """Call a function in the thread that reads, between batches; cancel it to leave the queue."""
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
        """The next batch, and its share of the machine; waits for it. None when the queue is closed and empty."""
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
        """Wait until there is enough for all who are idle, or the first one has waited long enough."""
        enough = self._batch_size * self._n_idle
        while self._requests and not self._closed and self._n_waiting < enough:
            left = self._requests[0].arrival + self._pause - time.monotonic()
            if left <= 0:
                return
            self._changed.wait(left)

    def _take(self, most: int, long_too: bool = True) -> list[_Place]:
        """Places of sentences that fit into a batch, the first request first and then in turns."""
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
