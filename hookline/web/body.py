"""A request's body, read within bounds of size and time, and decoded."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from hookline.errors import Busy
from hookline.store.protocols import MAX_DIGITS
from hookline.web.errors import Refused
from hookline.web.faults import Unfit

T = TypeVar("T")


SMALL = 64 * 1024  # bytes of a body that needs no room of its own
MAX_GATHERED = 256 * 1024 * 1024  # bytes of larger ones that are read at a time ...
MAX_OF_ONE = 64 * 1024 * 1024  # ... and of one tenant's


class BodyMemory:
    """Room in memory for large bodies that are being read. A sender can hold one back before its last byte, so a tenant has a
    share of it, and the rest of a tenant's bodies wait unread."""

    def __init__(self, most: int = MAX_GATHERED, of_one: int = MAX_OF_ONE) -> None:
        self._most, self._of_one = most, of_one
        self._held: Counter[str] = Counter()
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def room(self, tenant: str, size: int, seconds: float) -> AsyncIterator[None]:
        size = min(size, self._of_one)
        try:
            async with asyncio.timeout(seconds):
                await self._wait(tenant, size)
        except TimeoutError:
            raise Busy("too many large bodies are being read; try again in a moment") from None
        self._held[tenant] += size
        try:
            yield
        finally:
            self._free(tenant, size)

    async def _wait(self, tenant: str, size: int) -> None:
        while self._held[tenant] + size > self._of_one or self._held.total() + size > self._most:
            await self._freed.wait()

    def _free(self, tenant: str, size: int) -> None:
        self._held[tenant] -= size
        self._held += Counter()  # forgets those that hold nothing
        self._freed.set()
        self._freed = asyncio.Event()


async def gather(request: Request, gathering: BodyMemory, tenant: str, *, most: int, seconds: float) -> bytes:
    """A body that may be large."""
    expected = _expected(request, most)
    if expected <= SMALL:
        return await read(request, most=most, seconds=seconds)
    async with gathering.room(tenant, expected, seconds):
        return await read(request, most=most, seconds=seconds)


async def read(request: Request, *, most: int, seconds: float) -> bytes:
    """Whatever the headers promise; what they announce as too large is not even read."""
    _expected(request, most)
    try:
        async with asyncio.timeout(seconds):
            return await _read(request, most)
    except TimeoutError:
        raise Refused(408, f"the body did not come within {seconds:g} seconds") from None
    except ClientDisconnect:  # nobody is left to read this answer
        raise Refused(400, "the connection was closed before the body had come") from None


def _expected(request: Request, most: int) -> int:
    """Bytes, at most."""
    announced = request.headers.get("content-length", "")
    if not announced.isdigit():
        return most
    if len(announced) > MAX_DIGITS or int(announced) > most:
        raise too_large(most)
    return int(announced)


async def _read(request: Request, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise too_large(most)
        parts.append(part)
    return b"".join(parts)


def too_large(most: int) -> Refused:
    return Refused(413, f"the body is larger than {most} bytes")


def decode(raw: bytes, shape: type[T]) -> T:
    """Bytes that are not JSON at all are for `errors.answer`, in msgspec's words."""
    if not raw:
        raise Refused(400, "the body is empty: send JSON")
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.ValidationError as error:
        raise Unfit(error, shape) from None
    except UnicodeDecodeError:
        raise Refused(400, "the body is not UTF-8") from None
    except RecursionError:
        raise Refused(400, "the body is nested too deeply") from None
