"""The middleware around the application: hosts, headers and the log (`Gate`), tokens, limits and errors (`Guard`)."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import logging
import time
import traceback
from dataclasses import dataclass, field

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relatum.web.hosts import host_in
from relatum.web.limits import Limits, Refusal

LOG = logging.getLogger("relatum.web")

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
OPEN = ("/", "/health", "/docs", "/openapi.json", "/favicon.ico")
"""Paths that need no token, since they reveal nothing of models and texts; nor do paths that begin with /static/."""
_WRONG_HOST = Refusal(
    "wrong_host",
    "header Host: this server does not answer to the name it is called by; call it localhost or 127.0.0.1, or start it "
    "with --allow-host and that name",
)


@dataclass
class State:
    """The state of a server."""

    accepting: bool = True
    n_under_way: int = 0
    paths: frozenset[str] = field(default_factory=frozenset)
    """Paths that may be written to the log; any other path is text of a client."""

    def name(self, scope: Scope) -> str:
        """Return the name of a request's path in the log."""
        path: str = scope["path"]
        if path in self.paths:
            return path
        return "/static/" if path.startswith("/static/") else "(unknown)"


class Gate:
    """The outermost middleware: refuses requests for other hosts, adds headers to every answer, and logs.

    A line of the log has a method, a known path, a status and a time: no query, no body, no message of an error.
    """

    def __init__(
        self, app: ASGIApp, state: State, hosts: frozenset[str] | None = None, open_to_others: bool = False
    ) -> None:
        self._app, self._state, self._hosts = app, state, hosts
        headers = dict(HEADERS)
        if open_to_others:
            headers["cross-origin-resource-policy"] = "cross-origin"
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *self._headers]
            await send(message)

        app = self._app if self._is_called_by_name(scope) else refusal_response(_WRONG_HOST)
        try:
            await app(scope, receive, send_with_headers)
        finally:
            milliseconds = 1000 * (time.perf_counter() - start)
            LOG.info("%s %s %s %.0f ms", _method(scope), self._state.name(scope), status or "gone", milliseconds)

    def _is_called_by_name(self, scope: Scope) -> bool:
        if self._hosts is None:
            return True
        called = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
        return len(called) == 1 and host_in(called[0]) in self._hosts


class Guard:
    """The middleware that checks the token and the number of requests, and turns errors into answers.

    It is inside the CORS middleware: browsers send no token with a preflight request, and pages may read refusals.
    """

    def __init__(
        self, app: ASGIApp, state: State, limits: Limits, token: str | None = None, takes_passwords: bool = False
    ) -> None:
        """Make a guard; if it `takes_passwords`, the token may also be the password of basic authentication."""
        self._app, self._state, self._limits, self._takes_passwords = app, state, limits, takes_passwords
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_begun = False

        async def watched_send(message: Message) -> None:
            nonlocal is_begun
            is_begun = True
            await send(message)

        async def refuse(refusal: Refusal) -> None:
            if not is_begun:
                await refusal_response(refusal)(scope, receive, send)

        self._state.n_under_way += 1
        try:
            self._admit(scope)
            await self._app(scope, receive, watched_send)
        except Refusal as refusal:
            await refuse(refusal)
        except ClientDisconnect:
            pass  # nobody is there to be answered
        except asyncio.CancelledError:  # the server is stopped at once, and would log where each request stood
            await refuse(Refusal("unavailable", "the server has been stopped; try again when it is back"))
        except Exception as error:
            # Neither the message of an error nor what it was caused by is written: they may quote the request.
            places = "".join(traceback.format_tb(error.__traceback__))
            LOG.error("%s in %s\n%s", type(error).__name__, self._state.name(scope), places)
            await refuse(Refusal("internal", "something went wrong in the server; its log says where"))
        finally:
            self._state.n_under_way -= 1

    def _admit(self, scope: Scope) -> None:
        path = scope["path"]
        if path in OPEN or path.startswith("/static/"):
            return
        if self._token is not None:
            given = dict(scope["headers"]).get(b"authorization", b"")
            kind, _, token = given.partition(b" ")
            if self._takes_passwords and kind.lower() == b"basic":
                kind, token = b"bearer", _password(token)
            # Both are compared whatever the first says, in a time that does not depend on what is given.
            if not hmac.compare_digest(token.strip(), self._token) or kind.lower() != b"bearer":
                raise Refusal(
                    "unauthorised",
                    "this server asks for a token, and the request has none or another one; send the header "
                    "Authorization: Bearer TOKEN",
                )
        if not self._state.accepting:
            raise Refusal("unavailable", "the server is stopping; try again when it is back")
        if self._state.n_under_way > self._limits.max_waiting:
            raise Refusal("busy", f"{self._limits.max_waiting} requests are under way; try again later")


def _password(credentials: bytes) -> bytes:
    """Return the password of basic authentication; empty if there is none."""
    try:
        return base64.b64decode(credentials, validate=True).partition(b":")[2]
    except ValueError:
        return b""


def _method(scope: Scope) -> str:
    method: str = scope["method"]
    return method if method in ("GET", "HEAD", "POST", "OPTIONS", "PUT", "PATCH", "DELETE") else "(unknown)"


def refusal_response(refusal: Refusal) -> Response:
    body = json.dumps({"error": {"code": refusal.code, "message": refusal.message}}, ensure_ascii=False).encode()
    headers = {"cache-control": "no-store"}
    if refusal.code in ("busy", "unavailable"):
        headers["retry-after"] = "1"
    if refusal.code == "unauthorised":
        headers["www-authenticate"] = "Bearer"
    return Response(body, refusal.status, headers, "application/json")
