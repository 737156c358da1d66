"""Live updates of a page: the page's own URL, requested as an event stream, sends the parts that changed.

The server renders the page again every few seconds while a browser shows it. The number of streams is limited, and
each stream ends after a while. The browser then reconnects, which checks the session again.
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
ALL = "all"  # the holder (see `holders`) that all streams of the process share, with the limit MAX_STREAMS
MAX_STREAMS = 200  # streams of one process
MAX_PER_SESSION = 12  # streams of one session
# Maximum streams for all customers of one application together. A limit per session is not enough, because one portal
# link can create many sessions.
MAX_PER_APPLICATION = 30
# Maximum streams for all operators of one organization together. A separate limit of the same number applies to all
# customers of the organization together.
MAX_PER_ORGANIZATION = 80
MAX_SECONDS = 300.0  # after this time a stream ends and the browser reconnects
RECONNECT_SECONDS = 2.0  # pause of the browser before it reconnects

# A script on the page updates ages, so a change of an age alone is not sent.
_AGE = re.compile(r"(<time [^>]*data-ago>)[^<]*")

Regions = dict[str, Safe]
Read = Callable[[], Awaitable[Regions]]


def wanted(request: Request) -> bool:
    return MEDIA in request.headers.get("accept", "")


def holders(context: PageContext) -> dict[Hashable, int]:
    """Return the holders of this stream, each with its maximum number of open streams. A holder is a key under which
    open streams are counted.

    A stream has a holder for its session, one for its organization, and in the portal also one for its application.
    """
    found: dict[Hashable, int] = {context.viewer.csrf: MAX_PER_SESSION}
    if context.viewer.portal:
        found["customers of", context.app_no] = MAX_PER_APPLICATION
        found["customers", context.org_id] = MAX_PER_ORGANIZATION
    else:
        found["operators", context.org_id] = MAX_PER_ORGANIZATION
    return found


class Streams:
    """The event streams of this process."""

    def __init__(self, leaving: asyncio.Event, monotonic: Callable[[], float]) -> None:
        self._leaving = leaving
        self._monotonic = monotonic
        self._open: Counter[Hashable] = Counter()

    def stream(self, holders: Mapping[Hashable, int], read: Read, every: float) -> Response:
        """Open a stream. Raise `Refused` with status 429 if one of its holders already has its maximum of open streams.

        `holders` is the result of the function `holders`. `read` renders the live parts of the page.
        """
        limits = {ALL: MAX_STREAMS, **holders}
        if any(self._open[holder] >= limit for holder, limit in limits.items()):
            raise Refused(429, "too many pages are open", retry_after=30)
        events = self._events(tuple(limits), read, every)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no", "vary": "accept"}
        return StreamingResponse(events, media_type=MEDIA, headers=headers)

    async def _events(self, holders: Sequence[Hashable], read: Read, every: float) -> AsyncIterator[bytes]:
        with self._counted(holders):
            shown: dict[str, str] = {}
            yield f"retry: {RECONNECT_SECONDS * 1000:.0f}\n\n".encode()
            until = self._monotonic() + MAX_SECONDS
            while self._monotonic() < until:
                try:
                    found = await read()
                except HooklineError:
                    return  # the session ended or the page is gone: the browser reconnects and gets the error
                ageless = {name: _AGE.sub(r"\1", html) for name, html in found.items()}
                changed = {name: str(html) for name, html in found.items() if shown.get(name) != ageless[name]}
                shown = ageless
                parts = b"event: parts\ndata: " + msgspec.json.encode(changed) + b"\n\n"
                # A comment is sent even if nothing changed: writing it shows whether the browser is still connected.
                yield parts if changed else b": still here\n\n"
                if await self._stopping(every):
                    return

    async def _stopping(self, seconds: float) -> bool:
        """Wait up to `seconds`. Return True as soon as the server begins to stop."""
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
            self._open -= Counter(holders)  # unlike `subtract`, `-=` also removes the holders whose count is now zero
