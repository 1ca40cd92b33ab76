"""`relatum serve` from the command line."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from relatum.cli.app import main
from relatum.cli.serve import name_models
from relatum.errors import RelatumError

TEXT = "Ingrid Solberg was named director of the Nordic Polar Institute in Tromso, Norway."


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("serve") / "log"


@pytest.fixture(scope="module")
def process(log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "relatum", "serve", "--model", "mine=news", "--port", "0", "--host", "0.0.0.0"]
    with log.open("wb") as errors:
        server = subprocess.Popen(command, stderr=errors, env={**os.environ, "RELATUM_TOKEN": ""})
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
        (["--port", "70000"], 2, "--port"),
        (["--host", "no-such-host.invalid"], 1, "cannot listen there"),
    ],
)
def test_serve_refuses_what_it_cannot_do(
    arguments: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", "--port", "0", *arguments]) == status
    assert message in capsys.readouterr().err


def test_serve_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve"]) == 1
    assert "pip install 'relatum[web]'" in capsys.readouterr().err
