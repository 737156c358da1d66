"""Run coroutines without an event loop, and let one coroutine serve synchronous and async libraries.

A coroutine that uses a synchronous library never waits: all its awaits end at once. So a function is written once, as a
coroutine. Its async variant awaits it, and its synchronous variant calls `run_sync`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


def run_sync(awaitable: Awaitable[T]) -> T:
    """Run a coroutine that never waits, without an event loop, and return its result."""
    coroutine: Any = awaitable
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine that was run without an event loop has waited for something")


@contextmanager
def as_sync(manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Make a context manager of an async one that never waits."""
    value = run_sync(manager.__aenter__())
    try:
        yield value
    except BaseException as error:
        if not run_sync(manager.__aexit__(type(error), error, error.__traceback__)):
            raise
    else:
        run_sync(manager.__aexit__(None, None, None))


async def settled(value: Any) -> Any:
    """Return the value. Await it first if it is awaitable."""
    return await value if inspect.isawaitable(value) else value


def as_async(manager: Any) -> AbstractAsyncContextManager[Any]:
    """Return an async context manager as it is, and wrap one that is not async."""
    return manager if hasattr(type(manager), "__aenter__") else _Wrapped(manager)


class _Wrapped(AbstractAsyncContextManager[Any]):
    def __init__(self, manager: Any) -> None:
        self._manager = manager

    async def __aenter__(self) -> Any:
        return self._manager.__enter__()

    async def __aexit__(self, *error: Any) -> bool | None:
        ends_error: bool | None = self._manager.__exit__(*error)
        return ends_error
