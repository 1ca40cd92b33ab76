"""A client that takes little time, so that the server has it: one connection, one request after the other."""

from __future__ import annotations

import asyncio
import json
from types import TracebackType
from typing import Any


class Connection:
    """A connection that is kept, and opened again where the server has closed it."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port

    async def __aenter__(self) -> Connection:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    async def post(self, path: str, message: Any) -> tuple[int, bytes]:
        """The status and the body of the answer."""
        body = json.dumps(message).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        first, *lines = answer.decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines if line)
        content = await self._reader.readexactly(int(headers["content-length"]))
        if headers.get("connection") == "close":
            self._writer.close()
            await self.__aenter__()
        return int(first.split()[1]), content
