"""The endpoints of `hookline demo`: one server on loopback, with a path for each endpoint."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hookline.cli.demo.scenario import ENDPOINTS, Reply, Request


class Receivers:
    """An ASGI application that plays all endpoints of the scenario, one for each path."""

    def __init__(self, monotonic: Callable[[], float], chance: random.Random) -> None:
        self._monotonic = monotonic
        self._chance = chance
        self._began = monotonic()
        self._behaviours = {endpoint.path: endpoint.behaviour for endpoint in ENDPOINTS}
        self._recent: dict[str, deque[float]] = {path: deque() for path in self._behaviours}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        behaviour = self._behaviours.get(scope["path"])
        if behaviour is None:
            reply = Reply(status=404, body="there is no endpoint at this path")
        else:
            reply = behaviour(self._request(scope))
        while (await receive()).get("more_body"):
            pass
        if await _disconnects(receive, reply.after):
            return
        kind = "application/json" if reply.body.startswith("{") else "text/plain"
        await Response(reply.body, reply.status, reply.headers, kind)(scope, receive, send)

    def _request(self, scope: Scope) -> Request:
        now = self._monotonic()
        recent = self._recent[scope["path"]]
        recent.append(now)
        while recent[0] < now - 1:
            recent.popleft()
        headers = dict(scope["headers"])
        return Request(
            elapsed=now - self._began,
            recent=len(recent),
            event_type=headers.get(b"webhook-event-type", b"").decode("latin-1"),
            chance=self._chance,
        )


async def _disconnects(receive: Receive, seconds: float) -> bool:
    """Wait `seconds` seconds, or until the sender disconnects. Return whether the sender disconnected."""
    try:
        async with asyncio.timeout(seconds):
            while (await receive())["type"] != "http.disconnect":
                pass
    except TimeoutError:
        return False
    return True
