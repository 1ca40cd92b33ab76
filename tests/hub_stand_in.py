"""A stand-in for the API of the Hugging Face hub, for the real client: repositories in memory, on 127.0.0.1."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from huggingface_hub import ModelCard, constants
from huggingface_hub.utils.tqdm import disable_progress_bars, enable_progress_bars

TOKEN = "hf_of_the_owner"
READER = "hf_that_may_only_read"

_FILE_URL = "/{repo_id}/resolve/{revision}/{filename}"

Files = dict[str, bytes]


@dataclass
class Repo:
    """A repository: its commits by hash, and the commit of each branch and tag."""

    private: bool = False
    gated: bool = False
    commits: dict[str, Files] = field(default_factory=lambda: {"0" * 40: {}})
    refs: dict[str, str] = field(default_factory=lambda: {"main": "0" * 40})
    messages: list[str] = field(default_factory=list)

    def resolve(self, revision: str) -> str | None:
        """Return the commit of a branch, a tag or a commit."""
        return self.refs.get(revision) or (revision if revision in self.commits else None)

    def commit(self, changed: Files, branch: str = "main", message: str = "") -> str:
        """Add a commit with some files changed; return its hash."""
        files = self.commits[self.refs[branch]] | changed
        commit = hashlib.sha1(repr((len(self.commits), sorted(files))).encode()).hexdigest()
        self.commits[commit] = files
        self.refs[branch] = commit
        self.messages.append(message)
        return commit

    @property
    def files(self) -> Files:
        return self.commits[self.refs["main"]]


@dataclass
class Hub:
    """All repositories, the requests that were made, and what shall go wrong."""

    url: str = ""
    repos: dict[str, Repo] = field(default_factory=dict)
    stored: Files = field(default_factory=dict)
    """Large files by their sha256."""
    requests: list[str] = field(default_factory=list)
    status: int = 0
    """The status of every answer from now on, if it is not 0."""
    delay: float = 0


def metadata_of(card: str) -> Any:
    """Return the metadata of a model card, as the client of the hub reads them."""
    return ModelCard(card).data


@contextmanager
def use_hub(cache: Path) -> Iterator[Hub]:
    """Serve an empty hub and make it the hub of this process, with an empty cache in a folder and no token."""
    settings = {"HF_HUB_CACHE": str(cache), "HF_HUB_DISABLE_XET": True, "HF_HUB_ETAG_TIMEOUT": 0.5}
    settings |= {"HF_TOKEN_PATH": str(cache / "token"), "HF_STORED_TOKENS_PATH": str(cache / "tokens")}
    with serve_hub() as hub, pytest.MonkeyPatch.context() as patch, disable_bars():
        patch.delenv("HF_TOKEN", raising=False)
        settings |= {"ENDPOINT": hub.url, "HUGGINGFACE_CO_URL_TEMPLATE": hub.url + _FILE_URL}
        for name, value in settings.items():
            patch.setattr(constants, name, value)
        yield hub


@contextmanager
def disable_bars() -> Iterator[None]:
    """Switch off the progress bars of the client."""
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()


@contextmanager
def serve_hub() -> Iterator[Hub]:
    """Serve an empty hub until the block ends."""
    hub = Hub()

    class Handler(_Handler):
        pass

    Handler.hub = hub
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.hub.requests.append(f"{self.command} {self.path}")
        time.sleep(self.hub.delay)
        if self.hub.status:
            self.answer(self.hub.status, {"error": "this hub is broken"})
            return
        for pattern, method in _ROUTES:
            if found := re.fullmatch(pattern, f"{self.command} {self.path.partition('?')[0]}"):
                getattr(self, method)(body, *found.groups())
                return
        self.answer(404, {"error": f"no route for {self.command} {self.path}"})

    do_GET = do_HEAD = do_POST = do_PUT = handle_any  # noqa: N815

    def answer(self, status: int, content: object = b"", **headers: str) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    @property
    def token(self) -> str:
        return self.headers.get("Authorization", "").removeprefix("Bearer ")

    def readable(self, name: str) -> Repo | None:
        """Return a repository that the client may read; else answer as the hub does."""
        repo = self.hub.repos.get(name)
        if repo is None or (repo.private and self.token not in (TOKEN, READER)):
            self.answer(404 if self.token else 401, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
            return None
        if repo.gated and self.token != TOKEN:
            self.answer(403, {"error": "Access to this model is restricted"}, X_Error_Code="GatedRepo")
            return None
        return repo

    def may_write(self) -> bool:
        if self.token == TOKEN:
            return True
        if self.token == READER:
            self.answer(403, {"error": "this token has no right to write"})
        else:
            self.answer(401, {"error": "Invalid username or password."})
        return False

    def create(self, body: bytes) -> None:
        if not self.may_write():
            return
        asked = json.loads(body)
        name = f"{asked['organization']}/{asked['name']}"
        known = name in self.hub.repos
        if not known:
            self.hub.repos[name] = Repo(private=asked.get("private") or asked.get("visibility") == "private")
        self.answer(409 if known else 200, {"url": f"{self.hub.url}/{name}", "name": name, "id": name})

    def branch(self, _: bytes, name: str, branch: str) -> None:
        if self.may_write():
            refs = self.hub.repos[name].refs
            known = branch in refs
            refs.setdefault(branch, refs["main"])
            self.answer(409 if known else 200, {"error": "exists already"} if known else {})

    def check_card(self, body: bytes) -> None:
        assert json.loads(body)["content"].startswith("---\n")
        self.answer(200, {"errors": [], "warnings": []})

    def preupload(self, body: bytes, _name: str, _revision: str) -> None:
        if self.may_write():
            modes = [
                {
                    "path": file["path"],
                    "uploadMode": "lfs" if file["path"].endswith(".safetensors") else "regular",
                    "shouldIgnore": False,
                }
                for file in json.loads(body)["files"]
            ]
            self.answer(200, {"files": modes})

    def lfs_batch(self, body: bytes, _name: str) -> None:
        if not self.may_write():
            return
        objects: list[dict[str, Any]] = []
        for item in json.loads(body)["objects"]:
            oid = item["oid"]
            entry: dict[str, Any] = {"oid": oid, "size": item["size"]}
            if oid not in self.hub.stored:
                entry["actions"] = {"upload": {"href": f"{self.hub.url}/stored/{oid}"}}
            objects.append(entry)
        self.answer(200, {"transfer": "basic", "objects": objects})

    def upload(self, body: bytes, oid: str) -> None:
        assert hashlib.sha256(body).hexdigest() == oid
        self.hub.stored[oid] = body
        self.answer(200)

    def commit(self, body: bytes, name: str, revision: str) -> None:
        if not self.may_write():
            return
        changed: Files = {}
        message = ""
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "header":
                message = value["summary"]
            elif line["key"] == "file":
                changed[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                changed[value["path"]] = self.hub.stored[value["oid"]]
        commit = self.hub.repos[name].commit(changed, revision, message)
        url = f"{self.hub.url}/{name}/commit/{commit}"
        self.answer(200, {"success": True, "commitOid": commit, "commitUrl": url, "hookOutput": ""})

    def resolve(self, _: bytes, _method: str, name: str, revision: str, path: str) -> None:
        repo = self.readable(name)
        if repo is None:
            return
        commit = repo.resolve(revision)
        if commit is None:
            self.answer(404, {"error": "no such revision"}, X_Error_Code="RevisionNotFound")
            return
        content = repo.commits[commit].get(path)
        if content is None:
            missing = {"error": "Entry not found"}
            self.answer(404, missing, X_Error_Code="EntryNotFound", X_Repo_Commit=commit)
            return
        tag = hashlib.sha256(content).hexdigest()
        if path.endswith(".safetensors") and self.command == "HEAD":
            self.hub.stored[tag] = content
            # The hub sends large files from another host, to which the client sends no token.
            place = f"{self.hub.url}/stored/{tag}".replace("127.0.0.1", "localhost")
            linked = {"X_Linked_Etag": f'"{tag}"', "X_Linked_Size": str(len(content)), "Location": place}
            self.answer(302, X_Repo_Commit=commit, **linked)
            return
        self.answer(200, content, ETag=f'"{tag}"', X_Repo_Commit=commit)

    def stored(self, _: bytes, _method: str, oid: str) -> None:
        assert not self.token
        self.answer(200, self.hub.stored[oid], ETag=f'"{oid}"')


_NAME = r"([\w.-]+/[\w.-]+)"
_ROUTES = (
    (r"POST /api/repos/create", "create"),
    (rf"POST /api/models/{_NAME}/branch/(.+)", "branch"),
    (r"POST /api/validate-yaml", "check_card"),
    (rf"POST /api/models/{_NAME}/preupload/(.+)", "preupload"),
    (rf"POST /{_NAME}\.git/info/lfs/objects/batch", "lfs_batch"),
    (r"PUT /stored/(\w+)", "upload"),
    (rf"POST /api/models/{_NAME}/commit/(.+)", "commit"),
    (rf"(GET|HEAD) /{_NAME}/resolve/([^/]+)/(.+)", "resolve"),
    (r"(GET|HEAD) /stored/(\w+)", "stored"),
)
