"""`relatum serve` from the command line."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from relatum.cli.app import main
from relatum.cli.serve import name_models
from relatum.config import load_config
from relatum.errors import RelatumError
from relatum.extractor.extractor import Extractor
from relatum.models.build import build_model
from relatum.schema import Schema
from relatum.web.server import Server

TEXT = "Ingrid Solberg was named director of the Nordic Polar Institute in Tromso, Norway."


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("serve") / "log"


@pytest.fixture(scope="module")
def process(log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "relatum", "serve", "--model", "mine=news", "--port", "0", "--host", "0.0.0.0"]
    command += ["--allow-host", "relatum.example"]
    with log.open("wb") as errors:
        open_to_all = {name: value for name, value in os.environ.items() if name != "RELATUM_TOKEN"}
        server = subprocess.Popen(command, stderr=errors, env=open_to_all)
    yield server
    server.kill()
    server.wait()


def wait_for_address(server: subprocess.Popen[bytes], log: Path) -> str:
    import time

    for _ in range(600):
        found = re.search(r"serving mine at http://0\.0\.0\.0:(\d+)/", log.read_text(encoding="utf-8"))
        if found:
            return f"http://127.0.0.1:{found[1]}"
        assert server.poll() is None, log.read_text(encoding="utf-8")
        time.sleep(0.1)
    raise AssertionError(log.read_text(encoding="utf-8"))


def test_serve_answers_logs_no_text_and_stops_in_order(process: subprocess.Popen[bytes], log: Path) -> None:
    address = wait_for_address(process, log)
    request = urllib.request.Request(
        f"{address}/extract?q=Ingrid", json.dumps({"text": TEXT}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        answer = json.load(response)
    assert answer["model"] == "mine"
    assert "Ingrid Solberg" in [entity["text"] for entity in answer["results"][0]["entities"]]
    for name, status in {"relatum.example": 200, "evil.example": 421}.items():
        health = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)
        health.request("GET", "/health", headers={"Host": name})
        assert health.getresponse().status == status
        health.close()
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    logged = log.read_text(encoding="utf-8")
    assert "POST /extract 200" in logged
    assert "Ingrid" not in logged
    assert "anybody who reaches http://0.0.0.0:" in logged
    assert logged.endswith("relatum: stopped\n")


def test_serve_names_models_by_what_stands_before_the_equals_sign_or_their_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a=b" / "best"
    folder.mkdir(parents=True)
    assert name_models(["news", f"mine={folder}", str(folder)]) == {
        "news": "news",
        "mine": str(folder),
        "best": str(folder),
    }
    with pytest.raises(RelatumError, match=r"already one that is called 'news' \(news\); .* --model other=news"):
        name_models(["news", "news"])
    with pytest.raises(RelatumError, match="expected a name before the ="):
        name_models(["=news"])


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--model", "nowhere"], 1, "nowhere: no such model"),
        (["--token", "two words"], 1, "--token: expected a word"),
        (["--max-waiting", "3"], 1, "max_waiting is 3, less than max_sentences"),
        (["--allow-host", "http://example.org"], 1, "--allow-host http://example.org: expected the name of a host"),
        (["--port", "70000"], 2, "--port"),
        (["--host", "no-such-host.invalid"], 1, "cannot listen there"),
    ],
)
def test_serve_refuses_what_it_cannot_do(
    arguments: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--port", "0", *arguments]) == status
    assert message in capsys.readouterr().err


def test_serve_refuses_a_token_that_came_out_empty(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RELATUM_TOKEN", "")
    assert main(["serve", "--port", "0"]) == 1
    assert "RELATUM_TOKEN is set, but empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "answered", "refused"),
    [
        ([], {"127.0.0.1", "localhost", "[::1]"}, {"evil.example", "example.org"}),
        (["--allow-host", "example.org", "--allow-host", "other"], {"example.org", "other", "localhost"}, {"evil"}),
        (["--host", "0.0.0.0"], {"evil.example", "localhost"}, set()),
        (["--host", "0.0.0.0", "--allow-host", "example.org"], {"example.org", "0.0.0.0", "127.0.0.1"}, {"evil"}),
    ],
)
def test_serve_answers_to_the_names_that_suit_where_it_listens(
    arguments: list[str], answered: set[str], refused: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses: dict[str, int] = {}

    def run(server: Server, sockets: list[socket.socket]) -> None:
        port = sockets[0].getsockname()[1]
        client = TestClient(server.config.app)  # type: ignore[arg-type]
        for name in answered | refused:
            statuses[name] = client.get("/health", headers={"host": f"{name}:{port}"}).status_code

    settings = ("encoder.kind=none", "model.width=8", "model.n_layers=1")
    model = build_model(load_config(None, settings), Schema(("Loc",), ()), None, None, "a")
    monkeypatch.setattr(Extractor, "from_pretrained", lambda *_: Extractor(model))
    monkeypatch.setattr(Server, "run", run)
    monkeypatch.setattr("relatum.cli.serve._log_requests", lambda: None)
    assert main(["serve", "--model", "news", "--port", "0", *arguments]) == 0
    assert statuses == dict.fromkeys(answered, 200) | dict.fromkeys(refused, 421)


def test_serve_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve"]) == 1
    assert "pip install 'relatum[web]'" in capsys.readouterr().err
