"""Requests by names that are not the server's, and requests from pages that are not its own."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from relatum.errors import ConfigError, RelatumError
from relatum.extractor.extractor import Extractor
from relatum.web.app import make_app
from relatum.web.hosts import host_in, hosts_of
from relatum.web.limits import Limits
from relatum.web.listening import bind, is_local
from relatum.web.served import ServedModel

from .conftest import Running, Serve

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
REQUESTS = [
    ("GET", "/"),
    ("HEAD", "/"),
    ("GET", "/static/app.js"),
    ("GET", "/health"),
    ("GET", "/models"),
    ("GET", "/docs"),
    ("GET", "/openapi.json"),
    ("GET", "/nothing"),
    ("POST", "/extract"),
    ("POST", "/probe"),
    ("OPTIONS", "/extract"),
]


@pytest.fixture(scope="module")
def running(extractor: Extractor) -> Iterator[Running]:
    one = Running(extractor, Limits(), hosts=hosts_of(("127.0.0.1",), True))
    yield one
    one.stop()


def send(running: Running, *lines: str, body: str = "", address: str = "127.0.0.1") -> tuple[int, bytes]:
    """The status of an answer and its body, to a request with these lines before its body."""
    with socket.create_connection((address, running.port), timeout=20) as client:
        length = f"Content-Length: {len(body)}"
        client.sendall("\r\n".join([*lines, length, "Connection: close", "", body]).encode("latin-1"))
        response = http.client.HTTPResponse(client, method=lines[0].split()[0])
        response.begin()
        return response.status, response.read()


def extract(running: Running, *headers: str) -> int:
    json_header = "Content-Type: application/json"
    return send(running, "POST /extract HTTP/1.1", *headers, json_header, body='{"text": "Oslo."}')[0]


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "127.0.0.1",
        "[::1]",
        "localhost:{port}",
        "127.0.0.1:{port}",
        "[::1]:{port}",
        "LocalHost:80",
        "localhost.",
        "127.0.0.1:",
        " localhost",
        "[0:0::1]:9",
    ],
)
def test_server_answers_to_names_of_this_machine(running: Running, host: str) -> None:
    assert extract(running, f"Host: {host.format(port=running.port)}") == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "localhost.evil.example",
        "evil.example.localhost",
        "127.0.0.1.evil.example",
        "127.0.0.2",
        "192.168.0.9:{port}",
        "[::2]",
        "[::1",
        "::1",
        "::1:{port}",
        "localhost:x",
        "localhost:80:80",
        "evil.example@localhost",
        "localhost/evil.example",
        "localhost,evil.example",
        "http://localhost",
        "*",
        "",
        "ÿ",
    ],
)
def test_server_does_not_answer_to_other_names(running: Running, host: str) -> None:
    assert extract(running, f"Host: {host.format(port=running.port)}") == 421


@pytest.mark.parametrize(("method", "path"), REQUESTS)
def test_every_address_refuses_other_names_in_the_shape_of_all_refusals(
    running: Running, method: str, path: str
) -> None:
    status, body = send(running, f"{method} {path} HTTP/1.1", "Host: evil.example")
    assert status == 421
    if method != "HEAD":
        (error,) = json.loads(body).values()
        assert error["code"] == "wrong_host"
        assert "localhost or 127.0.0.1" in error["message"]
        assert "--allow-host" in error["message"]
        assert "evil" not in error["message"]


def test_server_that_is_particular_needs_one_host(running: Running) -> None:
    assert extract(running) in (400, 421)
    assert extract(running, "Host: localhost", "Host: evil.example") in (400, 421)
    assert extract(running, "Host: evil.example", "Host: localhost") in (400, 421)
    assert send(running, "GET /health HTTP/1.0")[0] == 421
    assert send(running, "GET /health HTTP/1.0", "Host: localhost")[0] == 200


def test_other_headers_do_not_name_the_host(running: Running) -> None:
    assert extract(running, "Host: evil.example", "X-Forwarded-Host: localhost", "Forwarded: host=localhost") == 421
    assert extract(running, "Host: localhost", "X-Forwarded-Host: evil.example") == 200


def test_server_with_a_token_refuses_other_names_before_it_looks_at_the_token(serve: Serve) -> None:
    running = serve(token="word", hosts=LOCAL)
    assert extract(running, "Host: evil.example", "Authorization: Bearer word") == 421
    assert extract(running, "Host: localhost") == 401


def test_server_without_names_answers_to_all(serve: Serve) -> None:
    running = serve(hosts=hosts_of(("0.0.0.0",), False))
    assert extract(running, "Host: anything.example") == 200


def test_server_answers_over_ipv6(serve: Serve) -> None:
    try:
        with bind("::1", 0) as listener:
            assert is_local(listener)
    except RelatumError:
        pytest.skip("this machine has no IPv6")
    running = serve(host="::1", hosts=hosts_of(("::1",), True))
    assert send(running, "GET /health HTTP/1.1", f"Host: [::1]:{running.port}", address="::1")[0] == 200
    assert send(running, "GET /health HTTP/1.1", "Host: evil.example", address="::1")[0] == 421


def test_hosts_are_the_bound_ones_those_of_this_machine_and_those_allowed() -> None:
    assert hosts_of(("localhost", "127.0.0.1"), True) == LOCAL
    assert hosts_of(("My-Laptop", "127.0.1.1"), True) == LOCAL | {"my-laptop", "127.0.1.1"}
    assert hosts_of(("127.0.0.1",), True, ["Example.org", "::2", "[fe80:0::9]"]) == LOCAL | {
        "example.org",
        "::2",
        "fe80::9",
    }
    assert hosts_of(("0.0.0.0",), False) is None
    assert hosts_of(("0.0.0.0",), False, ["example.org"]) == LOCAL | {"0.0.0.0", "example.org"}


@pytest.mark.parametrize(
    "name",
    [
        "",
        "*",
        "*.example.org",
        "https://example.org",
        "example.org:80",
        "a:80",
        "[a:80]",
        "[::1]:80",
        "[b]",
        "a b",
        "example.org/x",
    ],
)
def test_hosts_refuse_what_is_no_name(name: str) -> None:
    with pytest.raises(ConfigError, match=r"--allow-host .*: expected the name of a host, such as example\.org"):
        hosts_of(("127.0.0.1",), True, [name])


def test_host_in_leaves_the_port_out() -> None:
    assert host_in("Example.ORG.:8080") == "example.org"
    assert host_in("[2001:DB8:0:0::1]:8080") == "2001:db8::1"
    assert host_in("[example.org]") is None


@pytest.mark.parametrize("origins", [(), ("https://example.org",)])
def test_pages_from_elsewhere_have_nothing_read_for_them(
    extractor: Extractor, monkeypatch: pytest.MonkeyPatch, origins: tuple[str, ...]
) -> None:
    """A browser sends only these without asking first, and it does not send the others if it is not told to."""
    read: list[Any] = []
    monkeypatch.setattr(extractor, "predict", lambda *given, **_: read.append(given))
    app = make_app([ServedModel("small", extractor, Limits())], origins=origins)
    evil = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    with TestClient(app) as client:
        for path in ("/extract", "/probe"):
            for kind in ("text/plain", "text/plain;application/json", "multipart/form-data", None):
                headers = evil if kind is None else {**evil, "content-type": kind}
                response = client.post(path, content=b'{"text": "Oslo."}', headers=headers)
                assert (response.status_code, response.json()["error"]["code"]) == (422, "invalid")
                assert "access-control-allow-origin" not in response.headers
            first = client.options(path, headers={**evil, **asked})
            assert first.status_code >= 400
            assert "access-control-allow-origin" not in first.headers
    assert read == []


def test_browsers_that_ask_for_leave_by_other_names_are_refused_like_all_requests(
    extractor: Extractor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "relatum.web")
    app = make_app(
        [ServedModel("small", extractor, Limits())], token="word", origins=["https://example.org"], hosts=LOCAL
    )
    asked = {"origin": "https://example.org", "access-control-request-method": "POST"}
    with TestClient(app) as client:
        first = client.options("/extract", headers={**asked, "host": "evil.example"})
        assert (first.status_code, first.json()["error"]["code"]) == (421, "wrong_host")
        assert not [name for name in first.headers if name.startswith("access-control-")]
        assert first.headers["x-content-type-options"] == "nosniff"
        allowed = client.options("/extract", headers={**asked, "host": "localhost"})
        assert (allowed.status_code, allowed.headers["access-control-allow-origin"]) == (200, "https://example.org")
        assert allowed.headers["x-content-type-options"] == "nosniff"
    logged = [one.getMessage().rpartition(" ")[0].rpartition(" ")[0] for one in caplog.records]
    assert logged == ["OPTIONS /extract 421", "OPTIONS /extract 200"]
