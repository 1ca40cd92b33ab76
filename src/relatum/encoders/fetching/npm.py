"""Tarballs of npm's registry, over https; an interrupted download is resumed."""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from relatum._version import __version__
from relatum.encoders.fetching.catalogue import Package
from relatum.errors import RelatumError

_REGISTRY = "https://registry.npmjs.org"
_VARIABLES = ("npm_config_registry", "NPM_CONFIG_REGISTRY")
_BLOCK = 2**18
_TIMEOUT = 60
_PAUSES = (1.0, 3.0, 9.0)
"""The seconds to wait before each further try."""


def tarball_address(package: Package) -> str:
    """Return the address of a package's tarball, in the registry of $npm_config_registry or in npm's own."""
    named = next((os.environ[name] for name in _VARIABLES if os.environ.get(name)), _REGISTRY)
    if not named.startswith(("https://", "http://")):
        raise RelatumError(f"npm_config_registry is {named!r}, which is no address; expected one like {_REGISTRY}")
    return f"{named.rstrip('/')}/{package.name}/-/{package.file_on_server}"


def download_tarball(package: Package, path: Path, report: Callable[[int], None]) -> None:
    """Download a tarball to a path; a part of the tarball that is left from an earlier try is kept and resumed."""
    address = tarball_address(package)
    draft = path.with_name(path.name + ".partial")
    for pause in (*_PAUSES, None):
        try:
            _go_on(address, draft, package.n_bytes, report)
            break
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                draft.unlink(missing_ok=True)
            elif error.code < http.HTTPStatus.INTERNAL_SERVER_ERROR:
                raise RelatumError(f"{address} answers {error.code} {error.reason}") from error
            last: Exception = error
        except (OSError, http.client.HTTPException) as error:
            last = error
        if pause is None:
            raise RelatumError(f"{address} does not send it ({last}); what has come is kept, so try again") from last
        time.sleep(pause)
    draft.replace(path)


def _go_on(address: str, draft: Path, n_bytes: int, report: Callable[[int], None]) -> None:
    done = draft.stat().st_size if draft.exists() else 0
    if done == n_bytes:
        return
    headers = {"User-Agent": f"relatum/{__version__}"}
    if 0 < done < n_bytes:
        headers["Range"] = f"bytes={done}-"
    request = urllib.request.Request(address, headers=headers)
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
        goes_on = answer.status == http.HTTPStatus.PARTIAL_CONTENT
        done = done if goes_on else 0
        with draft.open("ab" if goes_on else "wb") as file:
            while block := answer.read(_BLOCK):
                file.write(block)
                done += len(block)
                report(done)
    if done < n_bytes:
        raise ConnectionError(f"only {done} of {n_bytes} bytes have come")
