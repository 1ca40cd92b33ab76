"""Processes that share a GPU, by NVIDIA's Multi-Process Service (MPS).

Without it a GPU works for one process at a time, and is idle while it turns from one to the next. The service runs as
long as the job: it ends with this process, however that ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_CONTROL = "nvidia-cuda-mps-control"
_PIPES = "CUDA_MPS_PIPE_DIRECTORY"
_LOGS = "CUDA_MPS_LOG_DIRECTORY"
_USUAL_PIPES = Path("/tmp/nvidia-mps")
_PATIENCE = 10.0
# The shell waits for its input to end, which it does when this process ends, and then ends the service.
_SCRIPT = f"{_CONTROL} -f & read -r line; echo quit -t 2 | {_CONTROL}; sleep 1; kill $! 2>/dev/null; wait"


class GpuSharing:
    """A service of our own, unless the user runs one or there is none to be had."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._shell: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The variables that a process needs to share the GPU; none if our service does not run."""
        if self._folder is None:
            return {}
        return {_PIPES: str(self._folder), _LOGS: str(self._folder)}

    def start(self) -> None:
        """Start the service; if that fails, the processes take turns."""
        if shutil.which(_CONTROL) is None or _PIPES in os.environ or (_USUAL_PIPES / "control").exists():
            return
        self._folder = Path(tempfile.mkdtemp(prefix="relatum-mps-"))
        environment = {**os.environ, **self.environment}
        environment.pop("CUDA_VISIBLE_DEVICES", None)  # it would number the GPUs anew for the workers
        self._shell = subprocess.Popen(
            ["sh", "-c", _SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        end = time.monotonic() + _PATIENCE
        while not (self._folder / "control").exists():
            if time.monotonic() > end or self._shell.poll() is not None:
                self.stop()
                return
            time.sleep(0.05)

    def stop(self) -> None:
        """End the service."""
        if self._shell is not None:
            assert self._shell.stdin is not None
            self._shell.stdin.close()
            try:
                self._shell.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(self._shell.pid, 9)
                self._shell.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = self._shell = None
