"""Limits for customers.

A customer is a caller who can access only one application.

Everything that a customer reads from the store is redacted. One application has at most two store calls in progress. It
also has two permits for responses. A GET request needs a permit before its response is made. After the response the
permit stays taken for three times as long as the response took, but at most for `MAX_PAUSE` seconds. So
no customer can occupy the event loop.
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
MAX_RESPONSES = 2  # GET requests of one application whose responses may be made at the same time
PAUSE_FACTOR = 3.0  # after a response, its permit stays taken for this many times as long as the response took
MAX_PAUSE = 10.0  # maximum seconds that a permit stays taken after its response
MAX_WAITING = 100  # requests of one application that may wait for a permit; further requests are refused


class Customers:
    """Holds the limits of all customers. There is one instance per process."""

    def __init__(self) -> None:
        self._store_calls: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._permits: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._waiting: Counter[str] = Counter()

    @asynccontextmanager
    async def permit_for(self, app: Application | None) -> AsyncIterator[None]:
        """Hold a permit of the application while a response is made. Raise `Refused` if too many requests wait."""
        if app is None:
            yield
            return
        permit = self._permits.setdefault(app.id, asyncio.Semaphore(MAX_RESPONSES))
        await self._wait(app.id, permit)
        started = clock.monotonic()
        try:
            yield
        finally:
            pause = min(PAUSE_FACTOR * (clock.monotonic() - started), MAX_PAUSE)
            asyncio.get_running_loop().call_later(pause, permit.release)

    async def _wait(self, app_id: str, permit: asyncio.Semaphore) -> None:
        if self._waiting[app_id] >= MAX_WAITING:
            raise Refused(
                429, "too many requests of this application are waiting; try again in a moment", retry_after=1
            )
        self._waiting[app_id] += 1
        try:
            await permit.acquire()
        finally:
            self._waiting[app_id] -= 1
            self._waiting += Counter()  # removes the applications whose count is zero

    def store_for(self, app: Application | None, store: Store) -> Store:
        """Return the store that a caller may use.

        If the caller can access only `app`, the returned store redacts all results and limits the concurrent calls for
        this application. If `app` is None, return `store` itself.
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
