"""Run coroutines without an event loop, and let one coroutine serve synchronous and async libraries.

A coroutine that uses a synchronous library never waits: all its awaits end at once. So a function is written once, as
a coroutine. Its async variant awaits it, and its synchronous variant calls `run_sync`.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


def run_sync(awaitable: Awaitable[T]) -> T:
    """Run a coroutine without an event loop and return its result. Raises `RuntimeError` if it waits."""
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
    """Enter an async context manager from synchronous code. Raises `RuntimeError` if the manager waits."""
    with ExitStack() as stack:
        value = run_sync(manager.__aenter__())
        stack.push(lambda *error: run_sync(manager.__aexit__(*error)))
        yield value


async def settled(value: Any) -> Any:
    """Return the value. Await it first if it is awaitable."""
    return await value if inspect.isawaitable(value) else value


@asynccontextmanager
async def as_async(manager: Any) -> AsyncIterator[Any]:
    """Enter a context manager, async or not."""
    if hasattr(type(manager), "__aenter__"):
        async with manager as value:
            yield value
    else:
        with manager as value:
            yield value
