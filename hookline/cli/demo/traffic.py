"""The publisher of `hookline demo`: it creates the customers and publishes their events, over the HTTP API."""

from __future__ import annotations

import asyncio
import http.client
import random
from typing import Any
from urllib.parse import urlsplit

import msgspec

from hookline.cli.demo.scenario import CUSTOMERS, ENDPOINTS, EVENT_TYPES, choose, event
from hookline.errors import HooklineError

FIRST = 30  # messages that each customer gets at the start, so that the dashboard is not empty
TIMEOUT = 30.0  # seconds for one request to the API


class DemoFailed(HooklineError):
    """The demo's server refused a request, or did not answer it."""


class Api:
    """A client that opens a connection for each call, because the server closes idle ones. Not thread-safe."""

    def __init__(self, address: str, token: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=TIMEOUT)
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}

    async def post(self, path: str, body: object = None) -> Any:
        return await asyncio.to_thread(self._post, path, body)

    def _post(self, path: str, body: object) -> Any:
        try:
            self._connection.request("POST", f"/api/v1{path}", msgspec.json.encode(body or {}), self._headers)
            answer = self._connection.getresponse()
            raw = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise DemoFailed(f"the server does not answer: {error}") from None
        finally:
            self._connection.close()
        if answer.status >= 300:
            raise DemoFailed(f"{path}: {answer.status} {raw.decode(errors='replace')[:500]}")
        return msgspec.json.decode(raw) if raw else None


async def introduce(api: Api, receivers: str) -> None:
    """Create the event types, the customers and their endpoints."""
    for each in EVENT_TYPES:
        known = {"name": each.name, "description": each.description, "schemas": {"1": each.schema}}
        await api.post("/event-type", known)
    for customer in CUSTOMERS:
        await api.post("/app", {"name": customer.name, "uid": customer.uid})
        for endpoint in ENDPOINTS:
            if endpoint.customer is customer:
                given = {"url": receivers + endpoint.path, "uid": endpoint.uid, "description": endpoint.title}
                await api.post(f"/app/{customer.uid}/endpoint", given | endpoint.fields)


async def stream(api: Api, rate: float, chance: random.Random) -> None:
    """Publish some messages at once, then `rate` messages per second on average, without end."""
    number = 0
    for customer in CUSTOMERS:
        many = [event(chance, number + at, customer) for at in range(1, FIRST + 1)]
        await api.post(f"/app/{customer.uid}/msg/batch", {"messages": many})
        number += FIRST
    while True:
        await asyncio.sleep(chance.expovariate(rate))  # the time until the next event
        number += 1
        customer = choose(chance, CUSTOMERS)
        await api.post(f"/app/{customer.uid}/msg", event(chance, number, customer))
