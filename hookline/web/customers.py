"""Limits for customers.

A customer is a caller who can access only one application.

Everything that a customer reads from the store is redacted. One customer has at most two store calls and two responses
in progress. A response needs a slot. After the response, the slot stays empty three times as long as the response
took. So no customer can occupy the event loop.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, cast
from weakref import WeakValueDictionary

from hookline import clock
from hookline.model.catalogue import Application
from hookline.rules.redaction import for_customer
from hookline.store import PARTS, Store
from hookline.web.errors import Refused

MAX_STORE_CALLS = 2  # concurrent store calls for one application; fewer than the read connections of the store
SLOTS = 2  # responses that are made for one application at the same time
REST_FACTOR = 3.0  # a slot stays empty for this many times as long as its response took
MAX_REST = 10.0  # maximum seconds that a slot stays empty
MAX_WAITING = 100  # requests of one application that may wait for a slot


class Customers:
    """Holds the limits of all customers. There is one instance per process."""

    def __init__(self) -> None:
        self._store_calls: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._waiting: Counter[str] = Counter()

    @asynccontextmanager
    async def place_for(self, app: Application | None) -> AsyncIterator[None]:
        """Occupy a slot of the application while a response is made. Raise `Refused` if too many requests wait."""
        if app is None:
            yield
            return
        slot = self._slots.setdefault(app.id, asyncio.Semaphore(SLOTS))
        await self._wait(app.id, slot)
        started = clock.monotonic()
        try:
            yield
        finally:
            rest = min(REST_FACTOR * (clock.monotonic() - started), MAX_REST)
            asyncio.get_running_loop().call_later(rest, slot.release)

    async def _wait(self, app_id: str, slot: asyncio.Semaphore) -> None:
        if self._waiting[app_id] >= MAX_WAITING:
            raise Refused(
                429, "too many requests of this application are waiting; try again in a moment", retry_after=1
            )
        self._waiting[app_id] += 1
        try:
            await slot.acquire()
        finally:
            self._waiting[app_id] -= 1
            self._waiting += Counter()  # removes the applications whose count is zero

    def store_for(self, app: Application | None, store: Store) -> Store:
        """Return the store for a caller who can access only `app`.

        Callers without such a limit get the store itself.
        """
        if app is None:
            return store
        calls = self._store_calls.setdefault(app.id, asyncio.Semaphore(MAX_STORE_CALLS))
        return cast(Store, _CustomerStore(store, calls))


class _CustomerStore:
    """Passes every call on to the store or to one of its parts, and redacts each result for the customer."""

    def __init__(self, store: Any, calls: asyncio.Semaphore) -> None:
        self._store = store
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name in PARTS:
            return _CustomerStore(found, self._calls)
        return self._redacting(found) if callable(found) else found

    def _redacting(self, method: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            answer = method(*given, **named)
            return self._read(answer) if inspect.isawaitable(answer) else for_customer(answer)

        return call

    async def _read(self, answer: Awaitable[Any]) -> Any:
        async with self._calls:
            return for_customer(await answer)
