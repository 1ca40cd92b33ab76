"""A real server on a free port: many clients, clients that misbehave, and how it stops."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from relatum.errors import RelatumError
from relatum.extractor.extractor import Extractor
from relatum.types import Prediction
from relatum.web.listening import address_of, bind, is_local

from .conftest import Running, Serve

HEADERS = {"Content-Type": "application/json"}


def ask(running: Running, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """The status and the JSON of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=20)
    try:
        content = None if body is None else json.dumps(body).encode()
        connection.request(method, path, content, {**HEADERS, **headers})
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def extract(running: Running, text: str) -> tuple[int, Any]:
    return ask(running, "POST", "/extract", {"text": text})


def wait_until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


class Gate(Event):
    """Who comes through waits until it is set."""

    def __init__(self) -> None:
        super().__init__()
        self.n_came = 0


@pytest.fixture
def gate(extractor: Extractor, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """The extractor reads nothing until this is set."""
    gate, predict = Gate(), extractor.predict

    def wait(*given: Any, **named: Any) -> list[Prediction]:
        gate.n_came += 1
        assert gate.wait(20)
        return predict(*given, **named)

    monkeypatch.setattr(extractor, "predict", wait)
    return gate


def test_server_answers_many_clients_at_once(serve: Serve, extractor: Extractor) -> None:
    running = serve()
    texts = [f"Mara {number} of Tarn lives in Oldhaven. She left." for number in range(64)]
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda text: extract(running, text), texts))
    for text, (status, answer) in zip(texts, answers, strict=True):
        assert status == 200
        (found,) = answer["results"]
        found.pop("sentences")
        assert found == extractor(text).to_dict()
    assert ask(running, "GET", "/health")[1]["queue"] == 0


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("size", [1_001, 300_000])
def test_server_refuses_bodies_that_are_too_large(serve: Serve, chunked: bool, size: int) -> None:
    running = serve(max_bytes=1000)
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=20)
    body = b'{"text": "' + b"a" * (size - 12) + b'"}'
    parts = iter([body[at : at + 4096] for at in range(0, size, 4096)])
    try:
        connection.request("POST", "/extract", parts if chunked else body, HEADERS, encode_chunked=chunked)
    except (BrokenPipeError, ConnectionResetError):
        assert size > 8000  # far beyond what is read, the server does not listen any more
    try:
        response = connection.getresponse()
        assert response.status == 413
        assert json.loads(response.read())["error"]["code"] == "too_large"
    except ConnectionResetError:
        assert size > 8000
    connection.close()
    assert extract(running, "Oslo.")[0] == 200


def test_server_waits_for_a_slow_body_no_longer_than_it_may(serve: Serve) -> None:
    running = serve(max_seconds=0.3)
    with socket.create_connection(("127.0.0.1", running.port), timeout=20) as client:
        client.sendall(
            b"POST /extract HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
        )
        assert b"408" in client.recv(1000).split(b"\r\n")[0]


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02\x00\x01", b"GET\r\n\r\n", b"POST /extract HTTP/1.1\r\n: secret\r\n\r\n"]
)
def test_server_survives_what_is_not_http(serve: Serve, caplog: pytest.LogCaptureFixture, garbage: bytes) -> None:
    running = serve()
    with socket.create_connection(("127.0.0.1", running.port), timeout=20) as client:
        client.sendall(garbage)
        client.shutdown(socket.SHUT_WR)
        while client.recv(1000):
            pass
    assert extract(running, "Oslo.")[0] == 200
    assert "secret" not in caplog.text


def test_server_forgets_a_client_that_has_gone(serve: Serve, gate: Gate) -> None:
    running = serve()
    n_readers = running.model.queue._n_threads
    busy = ThreadPoolExecutor(n_readers)
    waiting = []
    for number in range(n_readers):  # one after the other, or a single reader could take several
        waiting.append(busy.submit(extract, running, "Oslo."))
        wait_until(lambda n_busy=number + 1: gate.n_came == n_busy)  # type: ignore[misc]
    client = socket.create_connection(("127.0.0.1", running.port), timeout=20)
    body = json.dumps({"text": "Go. " * 50}).encode()
    head = f"POST /extract HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    client.sendall(head.encode() + body)
    wait_until(lambda: running.model.queue.n_waiting >= 50)
    client.close()
    wait_until(lambda: running.server._state.n_under_way == n_readers)
    gate.set()
    assert [one.result(20)[0] for one in waiting] == [200] * n_readers
    wait_until(lambda: not running.model.queue.n_waiting)
    busy.shutdown()


def test_server_that_is_full_refuses_and_recovers(serve: Serve, gate: Gate) -> None:
    running = serve(max_waiting=10, max_sentences=10)
    with ThreadPoolExecutor(40) as pool:
        answers = [pool.submit(extract, running, "Oslo.") for _ in range(40)]
        wait_until(lambda: sum(one.done() for one in answers) >= 10)
        assert {one.result()[0] for one in answers if one.done()} == {429}
        gate.set()
        statuses = [one.result(20)[0] for one in answers]
    assert set(statuses) == {200, 429}
    assert extract(running, "Oslo.")[0] == 200


def test_server_finishes_what_it_accepted_and_refuses_more_when_it_is_told_to_stop(serve: Serve, gate: Gate) -> None:
    running = serve()
    with ThreadPoolExecutor(3) as pool:
        accepted = [pool.submit(extract, running, "Oslo. " * 40) for _ in range(3)]
        wait_until(lambda: running.server._state.n_under_way == 3)
        kept = http.client.HTTPConnection("127.0.0.1", running.port, timeout=20)
        kept.request("GET", "/health")
        kept.getresponse().read()
        running.server.handle_exit(15, None)
        status, answer = extract(running, "Late.")
        assert (status, answer["error"]["code"]) == (503, "unavailable")
        kept.request("POST", "/extract", b'{"text": "Late."}', HEADERS)
        assert kept.getresponse().status == 503
        assert ask(running, "GET", "/health")[1]["accepting"] is False
        gate.set()
        assert [one.result(20)[0] for one in accepted] == [200] * 3
    running.thread.join(20)
    assert not running.thread.is_alive()
    kept.close()
    with pytest.raises(ConnectionRefusedError):
        extract(running, "Too late.")


def test_server_stops_though_a_client_never_ends(serve: Serve) -> None:
    running = serve(max_seconds=0.5)
    with socket.create_connection(("127.0.0.1", running.port), timeout=20) as client:
        client.sendall(
            b"POST /extract HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
        )
        wait_until(lambda: running.server._state.n_under_way == 1)
        running.stop()


def test_server_told_twice_stops_at_once(serve: Serve, gate: Event, caplog: pytest.LogCaptureFixture) -> None:
    running = serve()
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(extract, running, "Oslo.")
        wait_until(lambda: running.server._state.n_under_way == 1)
        running.server.handle_exit(2, None)
        running.server.handle_exit(2, None)
        running.thread.join(10)
        assert not running.thread.is_alive()
        gate.set()
        assert answer.result(20)[0] == 503
    assert "Traceback" not in caplog.text


def test_server_asks_for_its_token(serve: Serve) -> None:
    running = serve(token="word")
    assert extract(running, "Oslo.")[0] == 401
    assert ask(running, "GET", "/models")[0] == 401
    assert ask(running, "GET", "/health")[0] == 200
    assert ask(running, "GET", "/models", Authorization="Bearer word")[0] == 200


def test_bind_names_what_is_wrong_with_an_address() -> None:
    taken = bind("127.0.0.1", 0)
    taken.listen()
    port = taken.getsockname()[1]
    assert address_of(taken) == f"http://127.0.0.1:{port}/"
    assert is_local(taken)
    with pytest.raises(RelatumError, match=f"--port {port}: cannot listen there"):
        bind("127.0.0.1", port)
    taken.close()
    with pytest.raises(RelatumError, match=r"--host no-such-host\.invalid"):
        bind("no-such-host.invalid", 0)
    everywhere = bind("0.0.0.0", 0)
    assert not is_local(everywhere)
    everywhere.close()
