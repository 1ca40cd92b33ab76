"""The files of the page."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from relatum.web.limits import Refusal

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
"""The suffixes of files that are served, and their types, which thus do not depend on the machine's settings."""


class PageFiles:
    """The files of some folders; only files with a suffix of `TYPES` are served.

    A browser asks each time if a file has changed, so that it never mixes the files of two versions.
    """

    def __init__(self, *folders: Path) -> None:
        self._folders = folders

    def answer(self, name: str, request: Request) -> Response:
        path = self._find(name)
        if path is None:
            raise Refusal("not_found", "there is no such file; GET / is the page")
        content = path.read_bytes()
        tag = f'"{sha256(content).hexdigest()[:32]}"'
        headers = {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers={**headers, "content-type": TYPES[path.suffix]})

    def _find(self, name: str) -> Path | None:
        for folder in self._folders:
            path = folder / name
            # What is served is what lies in a folder: no address, however it is written, leads out of it.
            if path.suffix in TYPES and path in folder.rglob(f"*{path.suffix}") and path.is_file():
                return path
        return None
