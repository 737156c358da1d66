"""A request's body, read within bounds of size and time, and decoded."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from hookline.api.errors import Refused
from hookline.api.faults import Unfit
from hookline.store.base import MOST_DIGITS

T = TypeVar("T")


async def read(request: Request, *, most: int, seconds: float) -> bytes:
    """Whatever the headers promise; what they announce as too large is not even read."""
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and (len(announced) > MOST_DIGITS or int(announced) > most):
        raise too_large(most)
    try:
        async with asyncio.timeout(seconds):
            return await _read(request, most)
    except TimeoutError:
        raise Refused(408, f"the body did not come within {seconds:g} seconds") from None
    except ClientDisconnect:  # nobody is left to read this answer
        raise Refused(400, "the connection was closed before the body had come") from None


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
