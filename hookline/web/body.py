"""Read a request body within limits of size and time, and decode it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from hookline.errors import Busy
from hookline.store import MAX_DIGITS
from hookline.web import invalid_fields
from hookline.web.errors import Refused

T = TypeVar("T")

SMALL = 64 * 1024  # bytes; a body up to this size does not count as large
MAX_IN_MEMORY = 256 * 1024 * 1024  # bytes that all large bodies may take in memory together
MAX_PER_TENANT = 64 * 1024 * 1024  # bytes that the large bodies of one tenant may take in memory


class BodyMemory:
    """Limits the memory for large bodies that are being read: in total, and for each tenant.

    A slow sender occupies its memory until the last byte arrives. The limit for each tenant keeps slow senders of one
    tenant from using all the memory. A body that would exceed either limit waits unread.
    """

    def __init__(self, limit: int = MAX_IN_MEMORY, per_tenant: int = MAX_PER_TENANT) -> None:
        self._limit, self._per_tenant = limit, per_tenant
        self._reserved: Counter[str] = Counter()
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def reserve(self, tenant: str, size: int, seconds: float) -> AsyncIterator[None]:
        """Reserve `size` bytes for a tenant. Raise `Busy` if they do not become free within `seconds`."""
        size = min(size, self._per_tenant)
        try:
            async with asyncio.timeout(seconds):
                await self._wait(tenant, size)
        except TimeoutError:
            raise Busy("too many large bodies are being read; try again in a moment") from None
        self._reserved[tenant] += size
        try:
            yield
        finally:
            self._free(tenant, size)

    async def _wait(self, tenant: str, size: int) -> None:
        while self._reserved[tenant] + size > self._per_tenant or self._reserved.total() + size > self._limit:
            await self._freed.wait()

    def _free(self, tenant: str, size: int) -> None:
        self._reserved[tenant] -= size
        self._reserved += Counter()  # removes the tenants whose count is zero
        self._freed.set()
        self._freed = asyncio.Event()


async def read_large(request: Request, memory: BodyMemory, tenant: str, *, limit: int, seconds: float) -> bytes:
    """Read a body that may be large: reserve memory for it first."""
    expected = _expected_size(request, limit)
    if expected <= SMALL:
        return await read(request, limit=limit, seconds=seconds)
    async with memory.reserve(tenant, expected, seconds):
        return await read(request, limit=limit, seconds=seconds)


async def read(request: Request, *, limit: int, seconds: float) -> bytes:
    """Read a body of at most `limit` bytes. A Content-Length above the limit is refused before the body is read."""
    _expected_size(request, limit)
    try:
        async with asyncio.timeout(seconds):
            return await _read(request, limit)
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {seconds:g} seconds") from None
    except ClientDisconnect:  # the client is gone, so it does not see this answer
        raise Refused(400, "the connection was closed before the whole body arrived") from None


def _expected_size(request: Request, limit: int) -> int:
    """Return the Content-Length, or `limit` if the request does not have one."""
    announced = request.headers.get("content-length", "")
    if not announced.isdigit():
        return limit
    if len(announced) > MAX_DIGITS or int(announced) > limit:
        raise too_large(limit)
    return int(announced)


async def _read(request: Request, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise too_large(limit)
        parts.append(part)
    return b"".join(parts)


def too_large(limit: int) -> Refused:
    return Refused(413, f"the body is larger than {limit} bytes")


def decode(raw: bytes, shape: type[T]) -> T:
    """Decode JSON into `shape`. `errors.answer` handles the error that msgspec raises for bytes that are not JSON."""
    if not raw:
        raise Refused(400, "the body is empty: send JSON")
    try:
        return msgspec.json.decode(raw, type=shape)
    except msgspec.ValidationError as error:
        raise invalid_fields.of_shape(error, shape) from None
    except UnicodeDecodeError:
        raise Refused(400, "the body is not UTF-8") from None
    except RecursionError:
        raise Refused(400, "the body is nested too deeply") from None
