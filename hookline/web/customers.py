"""Customers, who are confined to one application: what they may read, and how much of the server one of them may take.

All that their requests read of the store has only texts that a customer may read. One customer's slow reads wait for each other,
and their answers take at most a quarter of the event loop's time: after each, its place stays empty three times as long.
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
from hookline.model import Application
from hookline.rules.redaction import for_customer
from hookline.store.protocols import Store
from hookline.web.errors import Refused

MAX_AT_ONCE = 2  # calls of the store for one application; fewer than the store has readers
PLACES = 2  # answers that are made for one application at a time
REST = 3.0  # times as long as an answer took, its place stays empty ...
LONGEST_REST = 10.0  # ... but no more seconds
MAX_WAITING = 100  # requests of one application that wait for a place


class Customers:
    """One per process."""

    def __init__(self) -> None:
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._places: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._waiting: Counter[str] = Counter()

    @asynccontextmanager
    async def place_for(self, app: Application | None) -> AsyncIterator[None]:
        """While a page or an answer is made that reads. `Refused` if too many wait."""
        if app is None:
            yield
            return
        place = self._places.setdefault(app.id, asyncio.Semaphore(PLACES))
        await self._wait(app.id, place)
        started = clock.monotonic()
        try:
            yield
        finally:
            rest = min(REST * (clock.monotonic() - started), LONGEST_REST)
            asyncio.get_running_loop().call_later(rest, place.release)

    async def _wait(self, app_id: str, place: asyncio.Semaphore) -> None:
        if self._waiting[app_id] >= MAX_WAITING:
            raise Refused(429, "too many requests of this application wait for their answers", retry_after=1)
        self._waiting[app_id] += 1
        try:
            await place.acquire()
        finally:
            self._waiting[app_id] -= 1
            self._waiting += Counter()  # forgets those who wait for nothing

    def store_for(self, app: Application | None, store: Store) -> Store:
        """`app`: the only application that the caller reaches; None for those who run the deployment."""
        if app is None:
            return store
        turns = self._turns.setdefault(app.id, asyncio.Semaphore(MAX_AT_ONCE))
        return cast(Store, _Customer(store, turns))


class _Customer:
    def __init__(self, store: Store, turns: asyncio.Semaphore) -> None:
        self._store = store
        self._turns = turns

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._discreet(found) if callable(found) else found

    def _discreet(self, method: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            answer = method(*given, **named)
            return self._read(answer) if inspect.isawaitable(answer) else for_customer(answer)

        return call

    async def _read(self, answer: Awaitable[Any]) -> Any:
        async with self._turns:
            return for_customer(await answer)
