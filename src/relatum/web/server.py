"""A uvicorn server that stops in order."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from collections.abc import Collection
from types import FrameType
from typing import cast

import uvicorn
from fastapi import FastAPI

from relatum.web.connections import Connection, Connections
from relatum.web.guard import State


def spare_collections() -> None:
    """Run garbage collection less often, and not on objects that exist by now, such as models and their libraries.

    A request leaves hardly any garbage, and looking for it took a twentieth of the time of a busy server.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


class Server(uvicorn.Server):
    """A server that stops in order: it refuses new requests, finishes accepted requests, then closes its connections.

    It waits no longer than a request may take. Told to stop a second time, it closes all connections at once.
    """

    def __init__(self, app: FastAPI, max_seconds: float, max_connections: int | None = None) -> None:
        """Make a server with as many connections at once as file descriptors allow, or `max_connections`."""
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
        self._max_connections = max_connections
        self._accepting: list[asyncio.Task[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])  # which would accept in its own way
        accepted = cast("Collection[Connection]", self.server_state.connections)
        self._connections = Connections(accepted, self._max_seconds, self._max_connections)
        loop = asyncio.get_running_loop()
        accept = self._connections.accept
        self._accepting = [loop.create_task(accept(one, self._make_protocol)) for one in sockets or ()]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        await super().shutdown(sockets)

    def _make_protocol(self) -> asyncio.Protocol:
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        del sig, frame
        if self._told is None:
            self._told, self._state.accepting = time.monotonic(), False
        else:
            self.should_exit = self.force_exit = True

    async def on_tick(self, counter: int) -> bool:
        self._connections.close_late()
        if self._told is not None:
            is_late = time.monotonic() > self._told + self._max_seconds + 1
            self.should_exit = self.should_exit or is_late or not self._state.n_under_way
        return await super().on_tick(counter)
