"""The store as a customer's requests see it: all that is read there has only texts that a customer may read, and one customer's
slow reads wait for each other, not everybody for them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from typing import Any, cast
from weakref import WeakValueDictionary

from hookline.discretion import for_customer
from hookline.model import Application
from hookline.store.base import Store

MOST_AT_ONCE = 2  # calls of the store for one application; fewer than the store has readers


class Customers:
    """One per process."""

    def __init__(self) -> None:
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def store_for(self, app: Application | None, store: Store) -> Store:
        """`app`: the only application that the caller reaches; None for those who run the deployment."""
        if app is None:
            return store
        turns = self._turns.setdefault(app.id, asyncio.Semaphore(MOST_AT_ONCE))
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
