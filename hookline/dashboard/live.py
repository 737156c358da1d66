"""Parts of a page that update in place: the page's own URL, asked for as a stream of events, tells what changed.

A page is read again every few seconds for as long as somebody looks at it. Streams are few and end by themselves; the browser
asks anew, and meets whatever has changed: who may look, and what the page is made of.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from hookline.dashboard.page_context import PageContext
from hookline.errors import HooklineError
from hookline.web.errors import Refused
from hookline.web.html import Safe

MEDIA = "text/event-stream"
ALL = "all"  # whom every stream counts for
MAX_STREAMS = 200  # of one process
MAX_OF_ONE = 12  # of one session
MAX_OF_APPLICATION = 30  # of its customers: a link of the portal opens any number of sessions
MAX_OF_ORGANIZATION = 80  # of its operators; of all of its customers, likewise
LONGEST = 300.0  # seconds; then the browser asks anew
PATIENCE = 2.0  # seconds after which a browser asks anew

# An age changes all the time, and its page counts it on by itself: that alone is nothing to send.
_AGE = re.compile(r"(<time [^>]*data-ago>)[^<]*")

Regions = dict[str, Safe]
Read = Callable[[], Awaitable[Regions]]


def wanted(request: Request) -> bool:
    return MEDIA in request.headers.get("accept", "")


def holders(context: PageContext) -> dict[Hashable, int]:
    """Whom a stream of this page counts for, each with how many it may have: nobody uses up those of others."""
    found: dict[Hashable, int] = {context.viewer.csrf: MAX_OF_ONE}
    if context.viewer.portal:
        found["customers of", context.app_no] = MAX_OF_APPLICATION
        found["customers", context.org_id] = MAX_OF_ORGANIZATION
    else:
        found["operators", context.org_id] = MAX_OF_ORGANIZATION
    return found


class Streams:
    """Of one process."""

    def __init__(self, leaving: asyncio.Event, monotonic: Callable[[], float]) -> None:
        self._leaving = leaving
        self._monotonic = monotonic
        self._open: Counter[Hashable] = Counter()

    def stream(self, holders: Mapping[Hashable, int], read: Read, every: float) -> Response:
        """`holders` it counts for, each with how many it may have; `read` gives the live parts of the page as they are."""
        bounds = {ALL: MAX_STREAMS, **holders}
        if any(self._open[holder] >= most for holder, most in bounds.items()):
            raise Refused(429, "too many pages are open", retry_after=30)
        return StreamingResponse(
            self._events(tuple(bounds), read, every),
            media_type=MEDIA,
            headers={"cache-control": "no-store", "x-accel-buffering": "no", "vary": "accept"},
        )

    async def _events(self, holders: Sequence[Hashable], read: Read, every: float) -> AsyncIterator[bytes]:
        with self._counted(holders):
            shown: dict[str, str] = {}
            yield f"retry: {PATIENCE * 1000:.0f}\n\n".encode()
            until = self._monotonic() + LONGEST
            while self._monotonic() < until:
                try:
                    found = await read()
                except HooklineError:
                    return  # signed out, or gone: the browser asks anew, and is told so
                ageless = {name: _AGE.sub(r"\1", html) for name, html in found.items()}
                changed = {name: str(html) for name, html in found.items() if shown.get(name) != ageless[name]}
                shown = ageless
                # Sent also where nothing changed: whoever has left is noticed by it.
                yield (
                    b"event: parts\ndata: " + msgspec.json.encode(changed) + b"\n\n" if changed else b": still here\n\n"
                )
                if await self._left(every):
                    return

    async def _left(self, seconds: float) -> bool:
        """Whether the server is about to stop within so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._leaving.wait()
        except TimeoutError:
            return False
        return True

    @contextmanager
    def _counted(self, holders: Sequence[Hashable]) -> Iterator[None]:
        self._open.update(holders)
        try:
            yield
        finally:
            self._open -= Counter(holders)  # those that have none are dropped
