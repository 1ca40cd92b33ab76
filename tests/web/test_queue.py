"""Sentences of many requests, read together."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from threading import Event, get_ident

import pytest

from relatum.types import Prediction, Sentence
from relatum.web.queue import BatchQueue, QueueClosed, QueueFull

from .conftest import FakeReader, found_in


def sentences(*texts: str) -> list[Sentence]:
    return [Sentence(tuple(text.split())) for text in texts]


def wait_until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.001)


@contextmanager
def running(
    reader: FakeReader, max_waiting: int = 1000, n_threads: int = 1, pause: float = 0.0
) -> Iterator[BatchQueue]:
    queue = BatchQueue(reader, 10, max_waiting, reader.batch_size, n_threads, pause=pause)
    queue.start()
    try:
        yield queue
    finally:
        reader.go.set()
        queue.close()


@contextmanager
def busy(reader: FakeReader, **settings: int) -> Iterator[BatchQueue]:
    """A queue whose reader has begun to read something, and goes on when it is told to."""
    with running(reader, **settings) as queue:
        queue.submit(sentences("first"))
        assert reader.begun.wait(20)
        yield queue


def names(answer: Future[list[Prediction]]) -> list[str]:
    return [one.found.entities[0].label for one in answer.result(20)]


def test_queue_reads_what_waits_together_and_answers_each_by_itself(reader: FakeReader) -> None:
    with busy(reader) as queue:
        one, two = queue.submit(sentences("a", "b")), queue.submit(sentences("c"))
        assert queue.n_waiting == 3
        reader.go.set()
        assert (names(one), names(two)) == (["a", "b"], ["c"])
    assert reader.batches == [["first"], ["a", "c", "b"]]
    assert queue.n_waiting == 0


def test_queue_waits_a_moment_for_more() -> None:
    reader = FakeReader(batch_size=2)
    reader.go.set()
    with running(reader, pause=20.0) as queue:
        one = queue.submit(sentences("a"))
        time.sleep(0.05)
        assert reader.batches == []
        two = queue.submit(sentences("b"))
        assert (names(one), names(two)) == (["a"], ["b"])
    assert reader.batches == [["a", "b"]]


def test_queue_does_not_wait_where_the_first_has_waited(reader: FakeReader) -> None:
    reader.go.set()
    with running(reader, pause=0.01) as queue:
        start = time.monotonic()
        assert names(queue.submit(sentences("a"))) == ["a"]
        assert time.monotonic() - start >= 0.01


def test_queue_gives_requests_turns_so_that_a_small_one_does_not_wait_for_a_large_one(reader: FakeReader) -> None:
    with busy(reader) as queue:
        large = queue.submit(sentences(*(f"large{number}" for number in range(40))))
        small = queue.submit(sentences("small"))
        reader.go.set()
        assert names(small) == ["small"]
        assert names(large) == [f"large{number}" for number in range(40)]
    assert reader.batches[1] == ["large0", "small", "large1", "large2"]


def test_queue_keeps_batches_within_the_budget_of_cells(reader: FakeReader) -> None:
    reader.max_cells = 150
    with busy(reader) as queue:
        answer = queue.submit(sentences("a " * 10, "b " * 10, "c", "d"))
        other = queue.submit(sentences("e"))
        reader.go.set()
        assert names(answer) == ["a", "b", "c", "d"]
        assert names(other) == ["e"]
    assert reader.batches[1:] == [["a"], ["e"], ["b"], ["c", "d"]]


def test_queue_refuses_what_it_has_no_room_for(reader: FakeReader) -> None:
    with busy(reader, max_waiting=3) as queue:
        queue.submit(sentences("a", "b"))
        with pytest.raises(QueueFull):
            queue.submit(sentences("c", "d"))
        queue.submit(sentences("e"))
        with pytest.raises(QueueFull):
            queue.submit(sentences("f"))
        reader.go.set()
        wait_until(lambda: not queue.n_waiting)
        assert names(queue.submit(sentences("g", "h", "i"))) == ["g", "h", "i"]


def test_queue_counts_a_long_sentence_as_several(reader: FakeReader) -> None:
    with busy(reader, max_waiting=3) as queue:
        with pytest.raises(QueueFull):
            queue.submit(sentences("long " * 31))
        queue.submit(sentences("long " * 30))
        assert queue.n_waiting == 3


def test_queue_forgets_what_is_cancelled(reader: FakeReader) -> None:
    with busy(reader, max_waiting=3) as queue:
        one, two = queue.submit(sentences("a", "b")), queue.submit(sentences("c"))
        assert one.cancel()
        assert queue.n_waiting == 1
        reader.go.set()
        assert names(two) == ["c"]
    assert reader.batches == [["first"], ["c"]]


def test_queue_does_not_mind_a_request_that_is_cancelled_while_it_is_read(reader: FakeReader) -> None:
    with running(reader) as queue:
        one = queue.submit(sentences("a", "b", "c", "d", "e"))
        assert reader.begun.wait(20)
        assert one.cancel()
        reader.go.set()
        assert names(queue.submit(sentences("f"))) == ["f"]
    assert reader.batches == [["a", "b", "c", "d"], ["f"]]


def test_queue_fails_only_the_request_that_cannot_be_read(reader: FakeReader) -> None:
    with busy(reader) as queue:
        good, bad = queue.submit(sentences("a")), queue.submit(sentences("b bad", "c", "d", "e", "f", "g"))
        also_good = queue.submit(sentences("h", "i"))
        reader.go.set()
        assert (names(good), names(also_good)) == (["a"], ["h", "i"])
        with pytest.raises(ValueError, match="cannot read"):
            bad.result(20)
        wait_until(lambda: not queue.n_waiting)
    assert ["g"] not in reader.batches


def test_queue_reads_others_between_the_parts_of_a_long_sentence(reader: FakeReader) -> None:
    with running(reader) as queue:
        small: list[Future[list[Prediction]]] = []
        done: list[list[bool]] = []

        def on_part(number: int) -> None:
            if number == 3 and not small:
                small.append(queue.submit(sentences("small")))
                small.append(queue.submit(sentences("other " * 11)))
            if number == 5:
                done.append([one.done() for one in small])

        reader.on_part = on_part
        reader.go.set()
        long = queue.submit(sentences("long " * 12))
        assert names(long) == ["long"]
        assert names(small[1]) == ["other"]
        assert done[0] == [True, False]
    assert reader.batches == [["long"], ["small"], ["other"]]


def test_queue_stops_reading_a_long_sentence_that_nobody_waits_for(reader: FakeReader) -> None:
    parts: list[int] = []
    with running(reader) as queue:
        begun = Event()

        def on_part(number: int) -> None:
            parts.append(number)
            begun.set()
            time.sleep(0.001)

        reader.on_part = on_part
        reader.go.set()
        long = queue.submit(sentences("long " * 5000))
        assert begun.wait(20)
        long.cancel()
        assert names(queue.submit(sentences("a"))) == ["a"]
    assert len(parts) < 5000


def test_queue_calls_functions_between_batches(reader: FakeReader) -> None:
    with busy(reader) as queue:
        called, failing, cancelled = queue.call(get_ident), queue.call(lambda: 1 / 0), queue.call(get_ident)
        answer = queue.submit(sentences("a"))
        assert cancelled.cancel()
        reader.go.set()
        assert called.result(20) not in (None, get_ident())
        with pytest.raises(ZeroDivisionError):
            failing.result(20)
        assert names(answer) == ["a"]
        wait_until(lambda: not queue.n_waiting)


def test_queue_answers_a_request_without_sentences(reader: FakeReader) -> None:
    with running(reader) as queue:
        assert names(queue.submit([])) == []


def test_queue_finishes_what_it_accepted_when_it_is_closed(reader: FakeReader) -> None:
    with busy(reader) as queue:
        answer = queue.submit(sentences(*(f"w{number}" for number in range(20))))
        reader.go.set()
        queue.close()
        assert answer.done()
        assert len(names(answer)) == 20
        with pytest.raises(QueueClosed):
            queue.submit(sentences("late"))


def test_queue_divides_what_waits_among_idle_threads_and_the_machine_among_busy_ones(reader: FakeReader) -> None:
    shares: list[float] = []
    queue = BatchQueue(reader, 10, 1000, 4, n_threads=2, on_share=shares.append, pause=0.0)
    queue.start()
    try:
        wait_until(lambda: queue._n_idle == 2)
        answer = queue.submit(sentences("a", "b", "c", "d"))
        wait_until(lambda: len(reader.batches) == 2)
        assert sorted(reader.batches) == [["a", "b"], ["c", "d"]]
        assert shares == [0.5, 0.5]
        reader.go.set()
        assert names(answer) == ["a", "b", "c", "d"]
        wait_until(lambda: queue._n_idle == 2)
        assert names(queue.submit(sentences("alone"))) == ["alone"]
        assert shares == [0.5, 0.5, 1.0]
    finally:
        reader.go.set()
        queue.close()


@pytest.mark.parametrize("n_threads", [1, 3])
def test_queue_answers_many_requests_of_many_sizes(n_threads: int) -> None:
    reader, rng = FakeReader(batch_size=5), random.Random(0)
    reader.go.set()
    with running(reader, max_waiting=100_000, n_threads=n_threads, pause=0.0005) as queue:
        requests = [
            sentences(*(f"{number}-{place} " * rng.choice((1, 2, 9, 12)) for place in range(rng.choice((0, 1, 2, 30)))))
            for number in range(200)
        ]
        answers = [queue.submit(request) for request in requests]
        for number in range(0, 200, 7):
            answers[number].cancel()
        for request, answer in zip(requests, answers, strict=True):
            if not answer.cancelled():
                assert answer.result(20) == [found_in(one) for one in request]
        wait_until(lambda: not queue.n_waiting)
    assert max(map(len, reader.batches)) <= 5
