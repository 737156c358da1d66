"""What every kind of connection can do here, under the same words."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from typing import Any, Protocol

from hookline.receive.inbox.statement import Engine, Rows, Statement, Values
from hookline.receive.inbox.trouble import ENDED

_SAVE = "SAVEPOINT hookline_inbox"
_BACK = "ROLLBACK TO SAVEPOINT hookline_inbox"
_RELEASE = "RELEASE SAVEPOINT hookline_inbox"


class Connection(Protocol):
    @property
    def engine(self) -> Engine: ...

    def check(self) -> None:
        """Raises `NotInTransaction` where each statement would be committed by itself."""

    def fetch(self, statement: Statement, values: Values) -> Rows: ...

    def nested(self) -> AbstractContextManager[None]:
        """A savepoint in the transaction that is open, or begins: of a block that raises, nothing stays."""

    def transaction(self) -> AbstractContextManager[object]:
        """Begun, and committed unless the block raises. No other may be open."""


class AsyncConnection(Protocol):
    @property
    def engine(self) -> Engine: ...

    async def check(self) -> None: ...

    async def fetch(self, statement: Statement, values: Values) -> Rows: ...

    def nested(self) -> AbstractAsyncContextManager[None]: ...

    def transaction(self) -> AbstractAsyncContextManager[object]: ...


@contextmanager
def savepoint(execute: Callable[[str], Any]) -> Iterator[None]:
    with saved(lambda: execute(_SAVE), lambda _: execute(_RELEASE), lambda _: (execute(_BACK), execute(_RELEASE))):
        yield


@asynccontextmanager
async def savepoint_async(execute: Callable[[str], Awaitable[Any]]) -> AsyncIterator[None]:
    async def back(_: Any) -> None:
        await execute(_BACK)
        await execute(_RELEASE)

    async with saved_async(lambda: execute(_SAVE), lambda _: execute(_RELEASE), back):
        yield


@contextmanager
def saved(save: Callable[[], Any], release: Callable[[Any], Any], back: Callable[[Any], Any]) -> Iterator[None]:
    """Whatever a library calls a savepoint. Where the way back fails, the transaction cannot be committed either."""
    point = save()
    try:
        yield
    except BaseException:
        with suppress(Exception):
            back(point)
        raise
    try:
        release(point)
    except Exception as error:
        error.add_note(ENDED)
        raise


@asynccontextmanager
async def saved_async(
    save: Callable[[], Awaitable[Any]],
    release: Callable[[Any], Awaitable[Any]],
    back: Callable[[Any], Awaitable[Any]],
) -> AsyncIterator[None]:
    point = await save()
    try:
        yield
    except BaseException:
        with suppress(Exception):
            await back(point)
        raise
    try:
        await release(point)
    except Exception as error:
        error.add_note(ENDED)
        raise
