"""The endpoints of `hookline demo`: one server on loopback, with a path for each endpoint of the cast."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable

from starlette.types import Receive, Scope, Send

from hookline.cli.demo.cast import CUSTOMERS, Moment, Plays, Reply


def path(customer: str, endpoint: str) -> str:
    return f"/{customer}/{endpoint}"


class Receivers:
    """An ASGI application that responds as each endpoint of the cast does."""

    def __init__(self, monotonic: Callable[[], float], chance: random.Random) -> None:
        self._monotonic = monotonic
        self._chance = chance
        self._began = monotonic()
        self._plays: dict[str, Plays] = {
            path(customer.uid, endpoint.uid): endpoint.plays
            for customer in CUSTOMERS
            for endpoint in customer.endpoints
        }
        self._recent: dict[str, deque[float]] = {name: deque() for name in self._plays}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        plays = self._plays.get(scope["path"])
        reply = (
            Reply(status=404, body="there is no endpoint at this path") if plays is None else plays(self._moment(scope))
        )
        while (await receive()).get("more_body"):
            pass
        if await _disconnects(receive, reply.after):
            return
        await _respond(send, reply)

    def _moment(self, scope: Scope) -> Moment:
        now = self._monotonic()
        recent = self._recent[scope["path"]]
        recent.append(now)
        while recent[0] < now - 1:
            recent.popleft()
        headers = dict(scope["headers"])
        return Moment(
            elapsed=now - self._began,
            recent=len(recent),
            event_type=headers.get(b"webhook-event-type", b"").decode("latin-1"),
            chance=self._chance,
        )


async def _disconnects(receive: Receive, seconds: float) -> bool:
    """Wait this many seconds. Return whether the sender disconnects before."""
    try:
        async with asyncio.timeout(seconds):
            while (await receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        return False
    return True


async def _respond(send: Send, reply: Reply) -> None:
    body = reply.body.encode()
    kind = "application/json" if reply.body.startswith("{") else "text/plain; charset=utf-8"
    given = {"content-type": kind, "content-length": str(len(body)), **reply.headers}
    headers = [(name.encode(), value.encode()) for name, value in given.items()]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
