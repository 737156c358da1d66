"""One statement on a connection of psycopg or asyncpg, borrowed for just that, and committed by itself.

A connection that turns out to be dead (the server was restarted) is not the end: every statement of a store may be run
again, so it is, once, on another one.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from hookline.errors import HooklineError, InvalidInput
from hookline.receive.idempotency.keys import KeyStoreUnavailable

Row = tuple[Any, ...]
Values = Sequence[Any]

MAX_CONNECTIONS = 8  # in one process, of those that a function opens; a statement takes a millisecond or so


class Asking(Protocol):
    errors: tuple[type[Exception], ...]  # what `ask` raises when the database cannot be asked, or refuses

    def ask(self, statement: str, values: Values | None) -> Row | None:
        """The first row. Without values it is a script: several statements, one transaction."""
        ...

    def close(self) -> None: ...


class AsyncAsking(Protocol):
    errors: tuple[type[Exception], ...]

    async def ask(self, statement: str, values: Values | None) -> Row | None: ...

    async def close(self) -> None: ...


def asking(source: Any, timeout: float) -> Asking:
    kinds = _kinds(source)
    if ("psycopg_pool", "ConnectionPool") in kinds:
        return _Pool(source, timeout)
    if kinds & _ASYNC_POOLS:
        raise InvalidInput("PostgresKeys does not await: give this pool to AsyncPostgresKeys")
    if not callable(source):
        raise InvalidInput("give a psycopg_pool.ConnectionPool, or a function that opens a psycopg connection")
    return _Connecting(source, timeout)


def asking_async(source: Any, timeout: float) -> AsyncAsking:
    return _Making(source, timeout) if callable(source) else _asking_pool(source, timeout)


def _asking_pool(pool: Any, timeout: float) -> AsyncAsking:
    kinds = _kinds(pool)
    if ("asyncpg", "Pool") in kinds:
        return _AsyncpgPool(pool, timeout)
    if ("psycopg_pool", "AsyncConnectionPool") in kinds:
        return _AsyncPool(pool, timeout)
    raise InvalidInput("give a pool of asyncpg, a psycopg_pool.AsyncConnectionPool, or a function that makes one")


_ASYNC_POOLS = {("asyncpg", "Pool"), ("psycopg_pool", "AsyncConnectionPool")}


def _kinds(source: Any) -> set[tuple[str, str]]:
    return {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(source).__mro__}


# ── psycopg ───────────────────────────────────────────────────────────────────────────────────────────────────────


class _Pool:
    def __init__(self, pool: Any, timeout: float) -> None:
        import psycopg

        self.errors: tuple[type[Exception], ...] = (psycopg.Error, OSError)
        self._pool = pool
        self._timeout = timeout

    def ask(self, statement: str, values: Values | None) -> Row | None:
        with self._pool.connection(self._timeout) as conn:
            try:
                return _fetch_alone(conn, statement, values)
            except self.errors:
                if not conn.broken:
                    raise
        self._pool.check()
        with self._pool.connection(self._timeout) as conn:
            return _fetch_alone(conn, statement, values)

    def close(self) -> None:
        """It belongs to whoever made it."""


def _fetch_alone(conn: Any, statement: str, values: Values | None) -> Row | None:
    """A pool's connection goes back as it came."""
    before = conn.autocommit
    conn.autocommit = True
    try:
        return _fetch(conn, statement, values)
    finally:
        if not conn.closed:
            conn.autocommit = before


def _fetch(conn: Any, statement: str, values: Values | None) -> Row | None:
    """With a cursor of our own kind: the connection may be set to make others."""
    import psycopg
    from psycopg.rows import tuple_row

    with psycopg.RawCursor(conn, row_factory=tuple_row) as cursor:
        if values is None:
            cursor.execute(statement)
            return None
        cursor.execute(statement, values, binary=True)
        return None if cursor.description is None else cursor.fetchone()


class _Own:
    """The connections of one process: they must not cross a fork."""

    def __init__(self) -> None:
        self.idle: list[Any] = []
        self.free = threading.BoundedSemaphore(MAX_CONNECTIONS)


class _Connecting:
    """A function that opens connections. They are kept for the next call: one for each would cost more than the call."""

    def __init__(self, connect: Callable[[], Any], timeout: float) -> None:
        import psycopg

        self.errors: tuple[type[Exception], ...] = (psycopg.Error, OSError)
        self._connect = connect
        self._timeout = timeout
        self._by_process: dict[int, _Own] = {}

    def ask(self, statement: str, values: Values | None) -> Row | None:
        own = self._own()
        if not own.free.acquire(timeout=self._timeout):
            raise TimeoutError(f"none of its {MAX_CONNECTIONS} connections became free in {self._timeout:g} seconds")
        try:
            return self._ask(own.idle, statement, values)
        finally:
            own.free.release()

    def close(self) -> None:
        for conn in _taken(self._own().idle):
            conn.close()

    def _ask(self, idle: list[Any], statement: str, values: Values | None) -> Row | None:
        for conn in _taken(idle):
            try:
                return _fetch_and_keep(conn, idle, statement, values)
            except self.errors:
                if not conn.broken:
                    raise
        return _fetch_and_keep(self._open(), idle, statement, values)

    def _open(self) -> Any:
        import psycopg

        try:
            conn = self._connect()
        except Exception as error:
            if isinstance(error, (HooklineError, *self.errors)):
                raise
            raise KeyStoreUnavailable(
                f"a connection of the keys cannot be opened now: {type(error).__name__}: {error}"
            ) from error
        if not isinstance(conn, psycopg.Connection):
            raise InvalidInput(f"PostgresKeys needs connections of psycopg 3, not {type(conn).__module__}")
        conn.autocommit = True
        return conn

    def _own(self) -> _Own:
        return self._by_process.setdefault(os.getpid(), _Own())


def _taken(idle: list[Any]) -> Iterator[Any]:
    """One by one, so that another thread never has the same; those that are left stay."""
    while True:
        try:
            conn = idle.pop()
        except IndexError:
            return
        yield conn


def _fetch_and_keep(conn: Any, idle: list[Any], statement: str, values: Values | None) -> Row | None:
    try:
        return _fetch(conn, statement, values)
    finally:
        if not conn.closed:
            idle.append(conn)


class _AsyncPool:
    def __init__(self, pool: Any, timeout: float) -> None:
        import psycopg

        self.errors: tuple[type[Exception], ...] = (psycopg.Error, OSError)
        self._pool = pool
        self._timeout = timeout

    async def ask(self, statement: str, values: Values | None) -> Row | None:
        async with self._pool.connection(self._timeout) as conn:
            try:
                return await _fetch_alone_async(conn, statement, values)
            except self.errors:
                if not conn.broken:
                    raise
        await self._pool.check()
        async with self._pool.connection(self._timeout) as conn:
            return await _fetch_alone_async(conn, statement, values)

    async def close(self) -> None:
        """It belongs to whoever made it."""


async def _fetch_alone_async(conn: Any, statement: str, values: Values | None) -> Row | None:
    before = conn.autocommit
    await conn.set_autocommit(True)
    try:
        return await _fetch_async(conn, statement, values)
    finally:
        if not conn.closed:
            await conn.set_autocommit(before)


async def _fetch_async(conn: Any, statement: str, values: Values | None) -> Row | None:
    import psycopg
    from psycopg.rows import tuple_row

    async with psycopg.AsyncRawCursor(conn, row_factory=tuple_row) as cursor:
        if values is None:
            await cursor.execute(statement)
            return None
        await cursor.execute(statement, values, binary=True)
        return None if cursor.description is None else await cursor.fetchone()


# ── asyncpg ───────────────────────────────────────────────────────────────────────────────────────────────────────


class _AsyncpgPool:
    def __init__(self, pool: Any, timeout: float) -> None:
        import asyncpg

        self.errors: tuple[type[Exception], ...] = (
            asyncpg.PostgresError,
            asyncpg.InterfaceError,
            asyncpg.InternalClientError,
            OSError,
        )
        self._pool = pool
        self._timeout = timeout

    async def ask(self, statement: str, values: Values | None) -> Row | None:
        async with self._pool.acquire(timeout=self._timeout) as conn:
            try:
                return await self._fetch(conn, statement, values)
            except self.errors:
                if not conn.is_closed():
                    raise
        await self._pool.expire_connections()
        async with self._pool.acquire(timeout=self._timeout) as conn:
            return await self._fetch(conn, statement, values)

    async def close(self) -> None:
        """It belongs to whoever made it."""

    async def _fetch(self, conn: Any, statement: str, values: Values | None) -> Row | None:
        if values is None:
            await conn.execute(statement, timeout=self._timeout)
            return None
        row = await conn.fetchrow(statement, *values, timeout=self._timeout)
        return None if row is None else tuple(row)


# ── a pool that is made when it is needed ─────────────────────────────────────────────────────────────────────────


class _Made(NamedTuple):
    pool: Any
    asking: AsyncAsking


class _Making:
    """A function that makes the pool. A pool belongs to an event loop, so each loop has its own; most processes have one."""

    errors: tuple[type[Exception], ...] = ()  # those of the pool, as soon as there is one

    def __init__(self, make: Callable[[], Any], timeout: float) -> None:
        self._function = make
        self._timeout = timeout
        self._by_loop: dict[asyncio.AbstractEventLoop, asyncio.Task[_Made]] = {}

    async def ask(self, statement: str, values: Values | None) -> Row | None:
        made = await asyncio.shield(self._making())  # others wait for it too, and must not be cancelled with us
        return await made.asking.ask(statement, values)

    async def close(self) -> None:
        making = self._by_loop.pop(asyncio.get_running_loop(), None)
        if making is not None:
            with suppress(KeyStoreUnavailable, InvalidInput):  # there is none
                await (await making).pool.close()

    def _making(self) -> asyncio.Task[_Made]:
        loop = asyncio.get_running_loop()
        making = self._by_loop.get(loop)
        if making is None or _has_failed(making):
            self._drop_dead_loops()
            making = self._by_loop[loop] = loop.create_task(self._make())
        return making

    async def _make(self) -> _Made:
        try:
            async with asyncio.timeout(self._timeout):
                pool = self._function()
                if inspect.isawaitable(pool) and not _kinds(pool) & _ASYNC_POOLS:
                    pool = await pool
                made = _Made(pool, _asking_pool(pool, self._timeout))
                await _open(pool)
        except InvalidInput:
            raise
        except Exception as error:
            raise KeyStoreUnavailable(
                f"the pool of the keys cannot be made now: {type(error).__name__}: {error}"
            ) from error
        self.errors = made.asking.errors
        return made

    def _drop_dead_loops(self) -> None:
        """Their pools cannot be closed any more."""
        for loop in [loop for loop in self._by_loop if loop.is_closed()]:
            del self._by_loop[loop]


def _has_failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


async def _open(pool: Any) -> None:
    """Unless it is open: `create_pool` of asyncpg is opened by an await."""
    await (pool.open() if hasattr(pool, "open") else pool)
