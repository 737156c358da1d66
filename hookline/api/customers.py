"""The store as a customer's requests see it: all that is read there has only texts that a customer may read."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any, cast

from hookline.discretion import for_customer
from hookline.model import Application
from hookline.store.base import Store


class _Customers:
    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return _discreet(found) if callable(found) else found


def _discreet(method: Any) -> Any:
    def call(*given: Any, **named: Any) -> Any:
        answer = method(*given, **named)
        return _read(answer) if inspect.isawaitable(answer) else for_customer(answer)

    return call


async def _read(answer: Awaitable[Any]) -> Any:
    return for_customer(await answer)


def store_for(app: Application | None, store: Store) -> Store:
    """`app`: the only application that the caller reaches; None for those who run the deployment."""
    return store if app is None else cast(Store, _Customers(store))
