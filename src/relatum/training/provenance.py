"""The provenance of a result: versions, commit and machine."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from pathlib import Path

import torch

from relatum._version import __version__

_PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy")


def versions() -> dict[str, str]:
    """Return the versions of relatum, Python and the installed packages that have a say in the numbers."""
    found = {"relatum": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """Return the commit of the running source, with "+changes" if it differs; None if it is not in a repository."""
    source = Path(__file__).resolve().parent.parent
    if _git(source, "ls-files", "--error-unmatch", "_version.py") is None:
        return None  # an installed copy may lie inside a repository of somebody else
    name = _git(source, "rev-parse", "HEAD")
    if name is None:
        return None
    return name + ("+changes" if _git(source, "status", "--porcelain", "--untracked-files=no", ".") else "")


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def device_name(device: torch.device) -> str:
    """Describe the device in words."""
    if device.type == "cuda":
        return f"{device}: {torch.cuda.get_device_name(device)}"
    threads = torch.get_num_threads()
    return f"{device}: {platform.machine()}, {threads} thread{'' if threads == 1 else 's'}"
