"""The service by which processes share a GPU; a script stands in for NVIDIA's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from relatum.scale import gpu_sharing
from relatum.scale.gpu_sharing import GpuSharing

CONTROL = """#!/bin/sh
if [ "$1" = -f ]; then
    echo $$ > "$CUDA_MPS_PIPE_DIRECTORY/pid"
    echo $$ >> "$SERVICES"
    echo "${CUDA_VISIBLE_DEVICES-none}" >> "$SERVICES.devices"
    touch "$CUDA_MPS_PIPE_DIRECTORY/control"
    exec sleep 60
fi
read -r line
kill "$(cat "$CUDA_MPS_PIPE_DIRECTORY/pid")"
"""


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the process ids of all services that were started."""
    folder = tmp_path / "bin"
    folder.mkdir()
    control = folder / "nvidia-cuda-mps-control"
    control.write_text(CONTROL)
    control.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SERVICES", str(tmp_path / "services"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    monkeypatch.setattr(gpu_sharing, "_USUAL_PIPES", tmp_path / "no-service")
    return tmp_path / "services"


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for_end(pid: int) -> None:
    end = time.monotonic() + 20
    while is_alive(pid):
        assert time.monotonic() < end, "the service is still there"
        time.sleep(0.05)


def test_service_runs_from_start_to_stop_in_a_folder_of_its_own(services: Path) -> None:
    sharing = GpuSharing()
    assert sharing.environment == {}
    sharing.start()
    folder = Path(sharing.environment["CUDA_MPS_PIPE_DIRECTORY"])
    pid = int(services.read_text())
    assert is_alive(pid)
    assert Path(f"{services}.devices").read_text() == "none\n"  # workers count all GPUs of the machine
    sharing.stop()
    wait_for_end(pid)
    assert sharing.environment == {}
    assert not folder.exists()
    sharing.stop()


def test_service_ends_with_the_process_that_started_it(services: Path) -> None:
    script = (
        "import json, os, time\n"
        "from pathlib import Path\n"
        "from relatum.scale import gpu_sharing\n"
        "gpu_sharing._USUAL_PIPES = Path(os.environ['SERVICES'] + '-none')\n"
        "sharing = gpu_sharing.GpuSharing()\n"
        "sharing.start()\n"
        "print(json.dumps(sharing.environment), flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
    wait_for_end(int(services.read_text()))


def test_service_that_the_user_runs_is_used(services: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", "here")
    sharing = GpuSharing()
    sharing.start()
    assert sharing.environment == {}
    assert not services.exists()


def test_processes_take_turns_where_there_is_no_service(services: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    sharing = GpuSharing()
    sharing.start()
    assert sharing.environment == {}
    assert not services.exists()


def test_service_that_cannot_start_is_done_without(services: Path) -> None:
    control = Path(os.environ["PATH"].split(os.pathsep)[0]) / "nvidia-cuda-mps-control"
    control.write_text("#!/bin/sh\nexit 1\n")
    sharing = GpuSharing()
    gpu_sharing._PATIENCE, patience = 1.0, gpu_sharing._PATIENCE
    try:
        sharing.start()
    finally:
        gpu_sharing._PATIENCE = patience
    assert sharing.environment == {}
    assert not services.exists()
