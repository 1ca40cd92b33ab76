"""Clients that hold connections without using them, and a server without file descriptors."""

from __future__ import annotations

import json
import logging
import os
import resource
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from relatum.web.connections import MOST, SPARE, Connections, count_free_descriptors

from .conftest import Running, Serve
from .test_server import Gate, ask, extract, gate, wait_until  # noqa: F401

HALF = b"GET /health HTTP/1.1\r\nHost: x\r\nX-Mine: "


def connect(running: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", running.port), timeout=20)


def is_closed(client: socket.socket) -> bool:
    """True if the other side has closed; nothing was to be read."""
    client.settimeout(0.01)
    try:
        return client.recv(1000) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("sent", [b"", b"GET", HALF], ids=["nothing", "a word", "half a header"])
def test_client_that_never_sends_its_header_is_closed(serve: Serve, sent: bytes) -> None:
    running = serve(max_seconds=0.4)
    with connect(running) as client:
        client.sendall(sent)
        begun = time.monotonic()
        wait_until(lambda: is_closed(client))
        assert time.monotonic() - begun > 0.3
    assert ask(running, "GET", "/health")[0] == 200


def test_client_that_drips_its_header_is_closed(serve: Serve) -> None:
    running = serve(max_seconds=0.4)
    with connect(running) as client:
        client.sendall(HALF)

        def drip() -> bool:
            if is_closed(client):
                return True
            try:
                client.sendall(b"a")
            except (BrokenPipeError, ConnectionResetError):
                return True
            return False

        wait_until(drip)


def test_client_that_drips_a_body_is_answered_and_closed(serve: Serve) -> None:
    running = serve(max_seconds=0.4)
    with connect(running) as client:
        head = b"POST /extract HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5000\r\n\r\n{"
        client.sendall(head)
        assert b"408" in client.recv(1000).split(b"\r\n")[0]
        client.sendall(b" ")
        wait_until(lambda: is_closed(client))


class FakeConnection:
    """A connection that was made for one request after the other."""

    def __init__(self) -> None:
        self.cycle: SimpleNamespace | None = None
        self.is_aborted = False
        self.transport: Any = self

    def abort(self) -> None:
        self.is_aborted = True


def test_each_request_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here `max_seconds` is 10: for the header, then for the body, the answer and the client that takes it."""
    now = 100.0
    monkeypatch.setattr("relatum.web.connections.time.monotonic", lambda: now)
    asks, idles, takes_nothing = (FakeConnection() for _ in range(3))
    connections = Connections([asks, idles, takes_nothing], 10, 3)
    takes_nothing.cycle = SimpleNamespace(response_complete=False)
    closed_at: dict[str, int] = {}
    for second in range(50):
        now = 100.0 + second
        if second % 8 == 0:
            asks.cycle = SimpleNamespace(response_complete=True)
        connections.close_late()
        for name, connection in (("asks", asks), ("idles", idles), ("takes nothing", takes_nothing)):
            if connection.is_aborted:
                closed_at.setdefault(name, second)
    assert closed_at == {"idles": 11, "takes nothing": 31}


def test_server_closes_connections_that_wait_where_there_are_too_many(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    running = serve(max_connections=8)
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(running)) for _ in range(40)]
        assert ask(running, "GET", "/health")[0] == 200
        wait_until(lambda: sum(map(is_closed, clients)) >= 32)
        assert sum(map(is_closed, clients)) <= 34
        assert extract(running, "Oslo.")[0] == 200
    assert extract(running, "Oslo.")[0] == 200
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == [
        "all 8 connections are taken: the one that has waited longest is closed for a new one"
    ]


def test_server_whose_connections_are_all_busy_refuses_more_and_recovers(
    serve: Serve,
    gate: Gate,  # noqa: F811
) -> None:
    running = serve(max_connections=4)
    with ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(extract, running, "Oslo.") for _ in range(4)]
        wait_until(lambda: running.server._state.n_under_way == 4)
        with connect(running) as client:
            head, _, body = client.recv(1000).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
            assert json.loads(body)["error"]["code"] == "unavailable"
            assert client.recv(1000) == b""
        gate.set()
        assert [answer.result(20)[0] for answer in answers] == [200] * 4
    assert ask(running, "GET", "/health")[0] == 200


@contextmanager
def without_descriptors() -> Iterator[None]:
    """Let this process open no more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.dup(0)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(int(path.name) for path in Path("/dev/fd").iterdir()) + 1, hard))
    try:
        while True:
            try:
                taken.append(os.dup(0))
            except OSError:
                break
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for handle in taken:
            os.close(handle)


def test_server_without_file_descriptors_says_so_once_and_recovers(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    running = serve()
    assert ask(running, "GET", "/health")[0] == 200
    clients = [socket.socket() for _ in range(5)]
    begun = time.process_time()
    with without_descriptors():
        for client in clients:
            client.settimeout(20)
            client.connect(("127.0.0.1", running.port))
            client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        time.sleep(1)
        spent = time.process_time() - begun
    for client in clients:
        assert client.recv(5000).startswith(b"HTTP/1.1 200")
        client.close()
    warnings = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert warnings == ["a connection cannot be accepted (Too many open files); raise ulimit -n"]
    assert spent < 0.5, "it does not try again and again without a pause"


def test_descriptors_leave_room_for_other_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1000, 1000))
    free = count_free_descriptors()
    assert 1000 - SPARE - 500 < free < 1000 - SPARE
    monkeypatch.setattr(resource, "getrlimit", lambda _: (10, 10))
    assert count_free_descriptors() == 1
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert count_free_descriptors() == MOST
