"""Run one statement on a borrowed connection of psycopg or asyncpg, in a transaction of its own.

If the connection turns out to be dead, because the server was restarted, the statement is run once more on another
connection. It is safe to run any statement of a store twice.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any

from hookline.errors import HooklineError, InvalidInput
from hookline.outbox.coroutines import as_async, settled
from hookline.receive.idempotency.keys import KeyStoreUnavailable

Row = tuple[Any, ...]
Values = Sequence[Any]

# Maximum connections per process and store, if the application gives the store a function that opens them. So few are
# enough, because a statement takes about a millisecond.
MAX_CONNECTIONS = 8


def connections(source: Any, timeout: float) -> Connections:
    kinds = _kinds(source)
    if ("psycopg_pool", "ConnectionPool") in kinds:
        return _PsycopgPool(source, timeout)
    if kinds & _ASYNC_POOLS:
        raise InvalidInput("PostgresKeys is not async: give this pool to AsyncPostgresKeys")
    if not callable(source):
        raise InvalidInput("give a psycopg_pool.ConnectionPool, or a function that opens a psycopg connection")
    return _Opened(source, timeout)


def connections_async(source: Any, timeout: float) -> Source:
    return MadePool(source, timeout) if callable(source) else _pool(source, timeout)


def _pool(pool: Any, timeout: float) -> Connections:
    kinds = _kinds(pool)
    if ("asyncpg", "Pool") in kinds:
        return _AsyncpgPool(pool, timeout)
    if ("psycopg_pool", "AsyncConnectionPool") in kinds:
        return _PsycopgPool(pool, timeout)
    raise InvalidInput("give a pool of asyncpg, a psycopg_pool.AsyncConnectionPool, or a function that makes one")


_ASYNC_POOLS = {("asyncpg", "Pool"), ("psycopg_pool", "AsyncConnectionPool")}


def _kinds(source: Any) -> set[tuple[str, str]]:
    return {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(source).__mro__}


# ── pools ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Connections(ABC):
    """The source of connections: a pool of the application, or connections that this object opens.

    The methods are coroutines for every library. With a synchronous library they block the thread and never
    suspend.
    """

    errors: tuple[type[Exception], ...]  # raised by `ask` if the database is unavailable or refuses the statement

    def __init__(self, pool: Any, timeout: float) -> None:
        self.pool = pool
        self._timeout = timeout

    async def ask(self, statement: str, values: Values | None) -> Row | None:
        """Run a statement and return its first row.

        If `values` is None, `statement` may contain several statements. They run in one transaction.
        """
        async with self._connection() as conn:
            try:
                return await self._fetch(conn, statement, values)
            except self.errors:
                if not self._is_broken(conn):
                    raise
        await self._drop_broken()
        async with self._connection() as conn:
            return await self._fetch(conn, statement, values)

    async def close(self) -> None:  # noqa: B027
        """Close the connections that this object opened. A pool of the application stays open."""

    @abstractmethod
    def _connection(self) -> AbstractAsyncContextManager[Any]: ...

    @abstractmethod
    async def _fetch(self, conn: Any, statement: str, values: Values | None) -> Row | None: ...

    @abstractmethod
    def _is_broken(self, conn: Any) -> bool: ...

    @abstractmethod
    async def _drop_broken(self) -> None:
        """Remove dead connections from the pool."""


class _AsyncpgPool(Connections):
    def __init__(self, pool: Any, timeout: float) -> None:
        import asyncpg

        super().__init__(pool, timeout)
        self.errors = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)

    def _connection(self) -> AbstractAsyncContextManager[Any]:
        return as_async(self.pool.acquire(timeout=self._timeout))

    async def _fetch(self, conn: Any, statement: str, values: Values | None) -> Row | None:
        if values is None:
            await conn.execute(statement, timeout=self._timeout)
            return None
        row = await conn.fetchrow(statement, *values, timeout=self._timeout)
        return None if row is None else tuple(row)

    def _is_broken(self, conn: Any) -> bool:
        return bool(conn.is_closed())

    async def _drop_broken(self) -> None:
        await self.pool.expire_connections()


class _PsycopgPool(Connections):
    """A pool of psycopg, async or not."""

    def __init__(self, pool: Any, timeout: float) -> None:
        import psycopg

        super().__init__(pool, timeout)
        self.errors = (psycopg.Error, OSError)

    def _connection(self) -> AbstractAsyncContextManager[Any]:
        return as_async(self.pool.connection(self._timeout))

    async def _fetch(self, conn: Any, statement: str, values: Values | None) -> Row | None:
        """Run the statement on a raw cursor that returns tuples.

        The cursor is made here, because the application may have set another kind of cursor or row for its pool.

        Restore the autocommit mode, because the connection may go back to the application's pool.
        """
        import psycopg
        from psycopg.rows import tuple_row

        kind: Any = psycopg.AsyncRawCursor if isinstance(conn, psycopg.AsyncConnection) else psycopg.RawCursor
        before = conn.autocommit
        await settled(conn.set_autocommit(True))
        try:
            async with as_async(kind(conn, row_factory=tuple_row)) as cursor:
                if values is None:
                    await settled(cursor.execute(statement))
                    return None
                await settled(cursor.execute(statement, values, binary=True))
                row: Row | None = None if cursor.description is None else await settled(cursor.fetchone())
                return row
        finally:
            if not conn.closed:
                await settled(conn.set_autocommit(before))

    def _is_broken(self, conn: Any) -> bool:
        return bool(conn.broken)

    async def _drop_broken(self) -> None:
        await settled(self.pool.check())


class _Own:
    """The connections of one process. A child process after a fork must not use those of its parent."""

    def __init__(self) -> None:
        self.idle: list[Any] = []
        self.free = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def take(self) -> Any | None:
        """Take an idle connection from the list, so that two threads never get the same connection."""
        try:
            return self.idle.pop()
        except IndexError:
            return None


class _Opened(_PsycopgPool):
    """Connections that a function of the application opens.

    They are kept for the next statement, because opening a connection takes longer than a statement.
    """

    def __init__(self, connect: Callable[[], Any], timeout: float) -> None:
        super().__init__(connect, timeout)
        self._connect = connect
        self._by_process: dict[int, _Own] = {}

    async def close(self) -> None:
        while (conn := self._own().take()) is not None:
            conn.close()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[Any]:
        own = self._own()
        if not own.free.acquire(timeout=self._timeout):
            raise TimeoutError(f"none of its {MAX_CONNECTIONS} connections became free in {self._timeout:g} seconds")
        try:
            conn = own.take() or self._open()
            try:
                yield conn
            finally:
                if not conn.closed:
                    own.idle.append(conn)
        finally:
            own.free.release()

    async def _drop_broken(self) -> None:
        await self.close()  # the server was restarted, so the other idle connections are dead too

    def _open(self) -> Any:
        import psycopg

        try:
            conn = self._connect()
        except Exception as error:
            if isinstance(error, (HooklineError, *self.errors)):
                raise
            cause = f"{type(error).__name__}: {error}"
            raise KeyStoreUnavailable(f"a connection of the keys cannot be opened now: {cause}") from error
        if not isinstance(conn, psycopg.Connection):
            raise InvalidInput(f"PostgresKeys needs connections of psycopg 3, not {type(conn).__module__}")
        return conn

    def _own(self) -> _Own:
        return self._by_process.setdefault(os.getpid(), _Own())


# ── a pool that is made when it is needed ─────────────────────────────────────────────────────────────────────────


class MadePool:
    """Pools that a function of the application makes. A pool belongs to one event loop, so each event loop gets its
    own pool."""

    errors: tuple[type[Exception], ...] = ()  # as in `Connections`; empty until the first pool is made

    def __init__(self, make: Callable[[], Any], timeout: float) -> None:
        self._function = make
        self._timeout = timeout
        self._by_loop: dict[asyncio.AbstractEventLoop, asyncio.Task[Connections]] = {}

    async def ask(self, statement: str, values: Values | None) -> Row | None:
        made = await asyncio.shield(self._making())  # other callers wait for the same task: do not cancel it
        return await made.ask(statement, values)

    async def close(self) -> None:
        making = self._by_loop.pop(asyncio.get_running_loop(), None)
        if making is not None:
            with suppress(KeyStoreUnavailable, InvalidInput):  # the pool could not be made
                await (await making).pool.close()

    def _making(self) -> asyncio.Task[Connections]:
        loop = asyncio.get_running_loop()
        making = self._by_loop.get(loop)
        if making is None or _has_failed(making):
            self._drop_closed_loops()
            making = self._by_loop[loop] = loop.create_task(self._make())
        return making

    async def _make(self) -> Connections:
        try:
            async with asyncio.timeout(self._timeout):
                pool = self._function()
                if inspect.isawaitable(pool) and not _kinds(pool) & _ASYNC_POOLS:
                    pool = await pool
                made = _pool(pool, self._timeout)
                await (pool.open() if hasattr(pool, "open") else pool)  # a pool of asyncpg is opened by an await
        except InvalidInput:
            raise
        except Exception as error:
            cause = f"{type(error).__name__}: {error}"
            raise KeyStoreUnavailable(f"the pool of the keys cannot be made now: {cause}") from error
        self.errors = made.errors
        return made

    def _drop_closed_loops(self) -> None:
        """Forget the pools of closed event loops. A pool cannot be closed after its event loop was closed."""
        for loop in [loop for loop in self._by_loop if loop.is_closed()]:
            del self._by_loop[loop]


def _has_failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


Source = Connections | MadePool
