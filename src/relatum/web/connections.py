"""Connections of clients: no more than there are file descriptors for, and none that waits without end."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any, Protocol

from relatum.web.guard import LOG

MOST = 10_000
"""The most connections, even if the system would allow more: each takes some kilobytes."""
SPARE = 32
"""File descriptors that are left to models, pages and the log."""
_WITHOUT_LIMIT = 500
"""The most connections if the system does not say how many files may be open."""
_BACKLOG = 2048
"""Connections that wait in the system until they are accepted."""
_IN_A_ROW = 64
"""Connections that are accepted before requests have their turn."""
_PAUSE = 0.1
"""Seconds before another try if a connection could not be accepted."""
_SILENCE = 60.0
"""Seconds between two warnings of the same kind."""
_NO_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_MESSAGE = b'{"error": {"code": "unavailable", "message": "all connections have requests under way; try again later"}}'
_REFUSED = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(_MESSAGE), _MESSAGE)
)


class Connection(Protocol):
    """A connection as uvicorn has it, with either of its parsers."""

    cycle: Any
    """The last request, which may have been answered; None before the first."""
    transport: asyncio.Transport


def is_waiting(connection: Connection) -> bool:
    """True if the client has sent no whole header since it connected, or since its last answer."""
    return connection.cycle is None or bool(connection.cycle.response_complete)


def count_free_descriptors() -> int:
    """Count the connections that may be open at once beside the files that are open now."""
    try:
        import resource
    except ImportError:  # Windows
        return _WITHOUT_LIMIT
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return MOST
    try:
        n_open = len(os.listdir("/dev/fd"))  # noqa: PTH208
    except OSError:
        n_open = SPARE
    return min(MOST, max(1, limit - n_open - SPARE))


class Connections:
    """Accepts connections, makes room for new ones, and closes those that take too long.

    `asyncio` would accept by itself, but without file descriptors it logs thousands of errors a second and hears
    nothing. Where there is no room, the connection that has waited longest without a request is closed for the new one.
    """

    def __init__(self, accepted: Collection[Connection], max_seconds: float, most: int | None = None) -> None:
        """`accepted` are all open connections; a client has `max_seconds` to send the header of a request."""
        self._accepted, self._max_seconds = accepted, max_seconds
        self._most = count_free_descriptors() if most is None else most
        self._since: dict[Connection, tuple[object, bool, float]] = {}
        self._starting: set[asyncio.Task[Any]] = set()
        self._warned: dict[str, float] = {}

    async def accept(self, listener: socket.socket, make_protocol: Callable[[], asyncio.BaseProtocol]) -> None:
        """Accept connections until it is cancelled."""
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        listener.listen(_BACKLOG)
        n_accepted = 0
        while True:
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno in _NO_RESOURCES:
                    self._warn("a connection cannot be accepted (%s); raise ulimit -n", os.strerror(error.errno))
                    self._close_longest()
                await asyncio.sleep(_PAUSE)
                continue
            if self._n_open >= self._most and self._starting:
                await asyncio.wait([*self._starting])  # one that has just come may be closed, too
            if self._n_open >= self._most and not self._close_longest():
                self._warn("all %s connections have requests under way: more are refused", self._most)
                _refuse(client)
                continue
            task = loop.create_task(_connect(loop, make_protocol, client))
            self._starting.add(task)
            task.add_done_callback(self._starting.discard)
            n_accepted += 1
            if n_accepted % _IN_A_ROW == 0:
                await asyncio.sleep(0)

    def close_late(self) -> None:
        """Close connections that have sent no header in time, or do not take their answer; to be called often."""
        now = time.monotonic()
        since: dict[Connection, tuple[object, bool, float]] = {}
        for connection in self._accepted:
            cycle, waiting = connection.cycle, is_waiting(connection)
            last_cycle, was_waiting, begun = self._since.get(connection, (cycle, waiting, now))
            if last_cycle is not cycle or was_waiting != waiting:
                begun = now
            since[connection] = cycle, waiting, begun
            # A request has its time for the body and for the answer, which the client then has to take.
            if now - begun > (self._max_seconds if waiting else 3 * self._max_seconds):
                connection.transport.abort()
        self._since = since

    @property
    def _n_open(self) -> int:
        return len(self._starting) + sum(not one.transport.is_closing() for one in self._accepted)

    def _close_longest(self) -> bool:
        """Close the connection that has waited longest; False if all have requests under way."""
        waiting = [one for one in self._accepted if is_waiting(one) and not one.transport.is_closing()]
        if not waiting:
            return False
        now = time.monotonic()
        longest = min(waiting, key=lambda one: self._since[one][2] if one in self._since else now)
        longest.transport.abort()
        self._warn("all %s connections are taken: the one that has waited longest is closed for a new one", self._most)
        return True

    def _warn(self, message: str, value: object) -> None:
        """Log a warning, at most once a minute."""
        now = time.monotonic()
        if now - self._warned.get(message, -_SILENCE) >= _SILENCE:
            self._warned[message] = now
            LOG.warning(message, value)


async def _connect(
    loop: asyncio.AbstractEventLoop, make_protocol: Callable[[], asyncio.BaseProtocol], client: socket.socket
) -> None:
    try:
        await loop.connect_accepted_socket(make_protocol, client)
    except OSError:  # the client has gone
        client.close()


def _refuse(client: socket.socket) -> None:
    with client, suppress(OSError):  # the client may have gone
        client.setblocking(False)
        client.send(_REFUSED)
        client.recv(65536)  # closing with a request unread would make the system forget the answer
