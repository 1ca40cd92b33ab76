"""A small random model to serve, and readers that do as they are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Event, Lock, Thread

import pytest

from relatum.extractor.extractor import Extractor
from relatum.types import Annotation, Entity, Prediction, Sentence, Span
from relatum.web.app import make_app
from relatum.web.limits import Limits
from relatum.web.listening import bind
from relatum.web.served import ServedModel
from relatum.web.server import Server

from ..small_models import make_small_model


def make_extractor(seed: int = 160) -> Extractor:
    return Extractor(make_small_model(seed=seed), "# A card")


@pytest.fixture(scope="session")
def extractor() -> Extractor:
    return make_extractor()


class FakeReader:
    """Finds the first word of each sentence, and calls it what it says; remembers its batches.

    It waits for `go` before each batch. A sentence with the word "bad" fails, and takes its batch with it. One of more
    than 10 words is read in as many parts as it has words.
    """

    max_cells = 1000

    def __init__(self, batch_size: int = 4) -> None:
        self.batch_size = batch_size
        self.batches: list[list[str]] = []
        self.go, self.begun = Event(), Event()
        self._lock = Lock()
        self.on_part: Callable[[int], None] = lambda _number: None

    def predict(
        self,
        sentences: Sequence[Sentence],
        entities: None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> list[Prediction]:
        del entities
        with self._lock:
            self.batches.append([one.words[0] for one in sentences])
        self.begun.set()
        assert self.go.wait(20)
        if any("bad" in one.words for one in sentences):
            raise ValueError("cannot read this")
        if on_progress is not None:
            for number in range(len(sentences[0])):
                self.on_part(number)
                on_progress(number, len(sentences[0]))
        return [found_in(one) for one in sentences]


def found_in(sentence: Sentence) -> Prediction:
    """What the fake finds."""
    return Prediction(sentence, Annotation((Entity(Span(0, 1), sentence.words[0]),)))


@pytest.fixture
def reader() -> Iterator[FakeReader]:
    fake = FakeReader()
    yield fake
    fake.go.set()


class Running:
    """A real server with a small model, in a thread."""

    def __init__(
        self,
        extractor: Extractor,
        limits: Limits,
        token: str | None = None,
        host: str = "127.0.0.1",
        hosts: frozenset[str] | None = None,
        max_connections: int | None = None,
    ) -> None:
        self.model = ServedModel("small", extractor, limits, n_readers=2)
        self.listener = bind(host, 0)
        self.listener.listen()
        self.port: int = self.listener.getsockname()[1]
        app = make_app([self.model], limits, token, hosts=hosts)
        self.server = Server(app, limits.max_seconds, max_connections)
        self.thread = Thread(target=self.server.run, args=([self.listener],), daemon=True)
        self.thread.start()

    def stop(self) -> None:
        self.server.handle_exit(15, None)
        self.thread.join(30)
        assert not self.thread.is_alive()


Serve = Callable[..., Running]


@pytest.fixture
def serve(extractor: Extractor) -> Iterator[Serve]:
    running: list[Running] = []

    def start(
        token: str | None = None,
        host: str = "127.0.0.1",
        hosts: frozenset[str] | None = None,
        max_connections: int | None = None,
        **limits: float,
    ) -> Running:
        given = Limits(**limits)  # type: ignore[arg-type]
        running.append(Running(extractor, given, token, host, hosts, max_connections))
        return running[-1]

    yield start
    for one in running:
        if one.thread.is_alive():
            one.stop()
