"""The body of a request: bounded in bytes and in time, and checked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from relatum import strict_json
from relatum.web.limits import Limits, Refusal

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
DISCARDED = 8
"""Up to this many times the limit, a body that is too large is read on: a client that still sends hears no answer."""


async def read_message(request: Request, kind: type[M], limits: Limits) -> M:
    """Read the body as a message; a body that is not a valid message is refused, and the refusal does not quote it."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != "application/json":
        found = "none" if not content_type else "another one"
        raise Refusal("invalid", f"header Content-Type: expected application/json, found {found}")
    try:
        async with asyncio.timeout(limits.max_seconds):
            body = await _read(request, limits.max_bytes)
        message = kind.model_validate_json(body)
        strict_json.loads(body.decode())  # of two values under one key, the one above keeps the last without a word
    except TimeoutError:
        raise Refusal("too_slow", f"body: not all of it has come in {limits.max_seconds:g} s; send it faster") from None
    except ValidationError as error:
        raise Refusal("invalid", "; ".join(dict.fromkeys(_describe(error, kind)))) from None
    except ValueError as error:
        # A key that is not one of the message's own is not repeated.
        known = kind.model_config.get("extra") == "forbid"
        raise Refusal("invalid", f"body: {error}" if known else "body: found a key twice in an object") from None
    return message


def _describe(error: ValidationError, kind: type[BaseModel]) -> Iterator[str]:
    """Describe what is wrong in a body and where, without quoting the body."""
    for problem in error.errors(include_input=False, include_url=False, include_context=False)[:5]:
        if problem["type"] == "extra_forbidden":
            yield f"body: found a key that is not known; expected {', '.join(kind.model_fields)}"
            continue
        place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in problem["loc"]).lstrip(".")
        message = problem["msg"].removeprefix("Value error, ")
        yield f"{place or 'body'}: {message[:1].lower()}{message[1:]}"


async def _read(request: Request, most: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size <= most:
            parts.append(part)
        elif size > DISCARDED * most:
            break
    if size > most:
        raise Refusal("too_large", f"body: found more than {most} bytes; send the texts in several requests")
    return b"".join(parts)


async def answer_in_time(request: Request, answer: Awaitable[T], limits: Limits) -> T:
    """Return the answer when it is ready; cancel it if it takes too long or the client disconnects.

    The body must have been read before: from then on the only message of a client is that it has disconnected.
    """
    work, gone = asyncio.ensure_future(answer), asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait((work, gone), timeout=limits.max_seconds, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        if gone.done():
            raise ClientDisconnect
        raise Refusal(
            "unavailable",
            f"the answer takes more than {limits.max_seconds:g} s, the most for a request; send less at once, or "
            "try again when there is less to do",
        )
    finally:
        work.cancel()
        gone.cancel()
