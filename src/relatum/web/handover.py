"""Results on their way from threads to an event loop."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class Handover:
    """A handover of results from threads to an event loop, which is woken once for all results that have arrived.

    To wake the loop takes a system call, and the loop then competes with the thread for the interpreter lock. To do so
    for each of many small results, like `asyncio.wrap_future`, takes as long as all other work for a request.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._arrived: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._is_told = False

    async def wait_for(self, result: Future[T]) -> T:
        """Wait for a result and return it; if the caller is cancelled, so is the result."""
        if result.done():
            return result.result()
        answer: asyncio.Future[T] = self._loop.create_future()
        result.add_done_callback(lambda done: self._bring(answer, done))
        try:
            return await answer
        finally:
            result.cancel()

    def _bring(self, answer: asyncio.Future[Any], result: Future[Any]) -> None:
        self._arrived.append((answer, result))
        if not self._is_told:  # else the loop has yet to look, and will find this too
            self._is_told = True
            self._loop.call_soon_threadsafe(self._hand_out)

    def _hand_out(self) -> None:
        self._is_told = False
        while self._arrived:
            answer, result = self._arrived.popleft()
            if answer.done():
                continue  # nobody waits for it any more
            error = result.exception()
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result.result())
