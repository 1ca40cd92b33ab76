"""A uvicorn server that stops in order."""

from __future__ import annotations

import gc
import socket
import time
from ipaddress import ip_address
from types import FrameType

import uvicorn
from fastapi import FastAPI

from relatum.errors import RelatumError
from relatum.web.guard import State


def bind(host: str, port: int) -> socket.socket:
    """A socket to listen at; with port 0 the system chooses one that is free."""
    listener = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise RelatumError(
            f"--host {host} --port {port}: cannot listen there ({error.strerror or error}); choose another port, or 0 "
            "for any that is free"
        ) from None
    return listener


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def is_local(listener: socket.socket) -> bool:
    """Whether only programs on this machine reach it."""
    return ip_address(listener.getsockname()[0]).is_loopback


def spare_collections() -> None:
    """Have Python look for garbage less often, and not among what is there by now, such as models and their libraries.

    A request leaves hardly any behind, and looking for it took a twentieth of the time of a busy server.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


class Server(uvicorn.Server):
    """Stops in order when it is told to: refuses new requests, finishes those it has, then closes its connections.

    It waits for requests no longer than one may take. Told a second time, it closes all connections at once.
    """

    def __init__(self, app: FastAPI, max_seconds: float) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=False,
                ws="none",
                timeout_graceful_shutdown=2,
            )
        )
        self._state: State = app.state.guard
        self._max_seconds = max_seconds
        self._told: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        del sig, frame
        if self._told is None:
            self._told, self._state.accepting = time.monotonic(), False
        else:
            self.should_exit = self.force_exit = True

    async def on_tick(self, counter: int) -> bool:
        if self._told is not None:
            is_late = time.monotonic() > self._told + self._max_seconds + 1
            self.should_exit = self.should_exit or is_late or not self._state.n_under_way
        return await super().on_tick(counter)
