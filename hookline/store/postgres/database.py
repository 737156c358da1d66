"""Three connection pools, and the translation of their errors. The pools differ in how PostgreSQL plans statements.

- `indexed` (sweep, searches of history, large batches of the relay): sequential and bitmap scans are switched off.
  Otherwise the planner would read the whole of a table that was empty when its statistics were gathered. Each execution
  of a statement is planned anew.
- `any_scan` (catalogue, views): the planner may choose any scan. Each execution of a statement is planned anew.
- `cached_plans` (ingest, relay, claim, record): as `indexed`, but PostgreSQL caches the query plans. These statements
  find rows by key, and for a small batch they take longer to plan than to run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

import asyncpg
from asyncpg import exceptions as pg
from asyncpg.exceptions import _base as pg_client

from hookline.clock import monotonic
from hookline.errors import (
    ConfigError,
    Conflict,
    HooklineError,
    InvalidInput,
    MigrationNeeded,
    StoreUnavailable,
)
from hookline.security.vault import Vault
from hookline.store.options import StoreOptions
from hookline.store.patience import patiently
from hookline.store.plans.plan import Bulk, LockTimeout, Plan, Run, Step
from hookline.store.postgres import pooler
from hookline.store.postgres.connection import CLOSE_TIMEOUT, DroppedConnection, cancelled_first
from hookline.store.rows import Reading
from hookline.store.sql import load, values_of

T = TypeVar("T")
Connection = Any  # asyncpg has no types

READ = Reading(instant=lambda at: at, texts=tuple)

_COMMON = {
    "application_name": "hookline",
    "plan_cache_mode": "force_custom_plan",
    "jit": "off",
    "timezone": "UTC",
    # Override the isolation level that the application may have set as the default of its own database.
    "default_transaction_isolation": "read committed",
    # If a client machine dies inside a transaction, the server must release its locks soon. By default, TCP notices
    # the dead client only after two hours.
    "idle_in_transaction_session_timeout": "30s",
    "tcp_keepalives_idle": "20",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "4",
}
INDEXED = _COMMON | {"enable_seqscan": "off", "enable_bitmapscan": "off"}
_CACHED_PLANS = INDEXED | {"plan_cache_mode": "force_generic_plan"}

# Maximum seconds of one statement, and of a wait for a free connection. A caller that waits for the result may have
# less time (see `store/patience.py`).
_INDEXED_TIMEOUT, _ANY_SCAN_TIMEOUT, _ACQUIRE_TIMEOUT = 30.0, 120.0, 30.0
_CONNECT_TIMEOUT = 10.0
_PLANS_KEPT = 10.0  # seconds after which a `cached_plans` connection discards its query plans
_TRIES = 4  # maximum tries of a transaction that lost a deadlock or a race

# Errors that say that the database or the driver refuses the data.
DATA_ERRORS = (
    pg.DataError,
    pg.IntegrityConstraintViolationError,
    pg.ProgramLimitExceededError,
    pg_client.DataError,
    OverflowError,  # COPY raises it for a number that is too large
    UnicodeError,
)
_UNAVAILABLE = (
    pg.PostgresConnectionError,
    pg.OperatorInterventionError,  # server shut down, starting up, or query cancelled
    pg.InsufficientResourcesError,  # too many connections, disk full
    pg.PostgresSystemError,  # the disk cannot be read or written
    pg.ReadOnlySQLTransactionError,  # a standby server during a failover
    pg.InvalidAuthorizationSpecificationError,
    pg.InvalidCatalogNameError,
    pg.IdleInTransactionSessionTimeoutError,
    pg.InternalClientError,
    *pooler.MOVED,
    asyncpg.InterfaceError,
    OSError,
    TimeoutError,
)
_OTHER_SCHEMA = (
    pg.UndefinedTableError,
    pg.UndefinedColumnError,
    pg.UndefinedObjectError,  # a missing type
    pg.InvalidSchemaNameError,
    pg.UndefinedFunctionError,
)
_RACE = (pg.DeadlockDetectedError, pg.SerializationError)


@contextmanager
def translated() -> Iterator[None]:
    """Translate the driver's errors into Hookline's. Data errors stay unchanged, because their meaning depends on the
    statement."""
    try:
        yield
    except (HooklineError, *DATA_ERRORS):
        raise
    except _OTHER_SCHEMA as error:
        if "configuration parameter" in str(error):  # the URL has an option that the server does not know
            raise
        raise MigrationNeeded(
            f"the database does not have this release's tables: run `hookline migrate` ({error})"
        ) from error
    except pg.InsufficientPrivilegeError as error:
        raise MigrationNeeded(f"the database role lacks a privilege ({error}): run `hookline migrate`") from error
    except _RACE as error:
        raise StoreUnavailable(f"another transaction blocked this one: {_text(error)}") from error
    except _UNAVAILABLE as error:
        advice = pooler.advice(error, INDEXED)
        raise StoreUnavailable(advice or f"PostgreSQL cannot be reached: {_text(error)}") from error


def _text(error: BaseException) -> str:
    if isinstance(error, pg.InternalClientError):  # the error's text describes the driver's internal states
        return "the connection broke"
    if isinstance(error, TimeoutError):
        return "it does not answer"
    return str(error).partition("\n")[0] or type(error).__name__


@contextmanager
def storable() -> Iterator[None]:
    """Translate errors of PostgreSQL about locks, unique names and values into errors of Hookline."""
    try:
        yield
    except pg.LockNotAvailableError as error:
        raise LockTimeout("another transaction holds a lock") from error
    except pg.UniqueViolationError as error:  # a plan checks before it writes, so another transaction was faster
        raise Conflict("another request took this unique name; try again") from error
    except DATA_ERRORS as error:
        raise InvalidInput(f"a value cannot be stored: {error}") from error


async def run_steps(connection: Connection, sql: Mapping[str, str], plan: Plan[T]) -> T:
    """Run every step of a shared plan on this connection and return its result. See `store/plans/plan.py`."""
    try:
        step = next(plan)
        while True:
            statement, names = sql[step.name], values_of(step.name)
            match step:
                case Step():
                    found = await connection.fetch(statement, *(step.values[name] for name in names))
                case Bulk(values=[_, *_]):
                    found = await connection.fetch(statement, *([each[name] for each in step.values] for name in names))
                case _:
                    await connection.executemany(statement, [[each[name] for name in names] for each in step.values])
                    found = []
            step = plan.send(found)
    except StopIteration as end:
        result: T = end.value
        return result


async def _no_reset(_: Connection) -> None:
    """Do nothing when a connection returns to its pool. The driver's default is a RESET, which costs a round trip, and
    pooled connections never change session state."""


@asynccontextmanager
async def _acquired(pool: Any) -> AsyncIterator[Connection]:
    async with asyncio.timeout(_ACQUIRE_TIMEOUT):
        connection = await pool.acquire()
    try:
        with cancelled_first():
            yield connection
    except asyncio.CancelledError:
        with suppress(asyncpg.InterfaceError):  # the connection was dropped already
            connection.terminate()
        raise
    finally:
        await pool.release(connection)


async def _close_pool(pool: Any) -> None:
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT):
            await pool.close()
    except (asyncpg.InterfaceError, OSError, TimeoutError):
        pool.terminate()


class Database:
    """The connections of this process to one database."""

    reading = READ

    def __init__(self, url: str, vault: Vault, options: StoreOptions) -> None:
        self.vault = vault
        self.options = options
        self.sql = load("postgres")
        self._url = url
        any_scan = max(1, options.pool_size // 4)
        left = options.pool_size - any_scan - 2  # two connections are for the listeners
        self._indexed = self._pool(max(2, left // 3), INDEXED, _INDEXED_TIMEOUT)
        self._cached_plans = self._pool(max(2, left - left // 3), _CACHED_PLANS, _INDEXED_TIMEOUT)
        self._any_scan = self._pool(any_scan, _COMMON, _ANY_SCAN_TIMEOUT)
        # by the server's process id of a connection: monotonic time of the next DISCARD PLANS on the connection
        self._plan_at: dict[int, float] = {}
        self._pools = (self._indexed, self._cached_plans, self._any_scan)

    def _pool(self, size: int, settings: dict[str, str], timeout: float) -> Any:
        return asyncpg.create_pool(
            self._url,
            min_size=0,
            max_size=size,
            max_queries=2**62,
            server_settings=settings,
            statement_cache_size=400,
            max_cached_statement_lifetime=0,
            command_timeout=timeout,
            timeout=_CONNECT_TIMEOUT,
            reset=_no_reset,
            connection_class=DroppedConnection,
        )

    async def open(self) -> None:
        """Connect, and raise an error early if the URL or the server is not usable."""
        try:
            with translated():
                for pool in self._pools:
                    await pool
                async with self._indexed.acquire() as connection:
                    if await pooler.is_between(connection):
                        async with self._any_scan.acquire() as other:
                            await pooler.check_sessions(connection, other)
        except (pg_client.ClientConfigurationError, ValueError) as error:
            await self.close()
            # The driver's message may contain a part of the password.
            raise ConfigError(f"the database URL cannot be used ({type(error).__name__}): check its form") from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the pools after running work ends, without waiting for a server that does not respond."""
        await asyncio.gather(*map(_close_pool, self._pools))

    async def run_plan(self, plan: Callable[[], Plan[T]], run: Run) -> T:
        indexed = run in (Run.SEARCH, Run.SEARCH_AND_CHANGE)

        async def work(connection: Connection) -> T:
            return await run_steps(connection, self.sql, plan())

        with storable():
            if run in (Run.READ, Run.SEARCH):
                async with self.indexed() if indexed else self.any_scan() as connection:
                    return await work(connection)
            return await self.transact(work, any_scan=not indexed)

    async def connect(self) -> Connection:
        """Open a connection outside the pools, for listening and for migrations."""
        with translated():
            return await asyncpg.connect(self._url, server_settings=_COMMON, timeout=_CONNECT_TIMEOUT)

    @asynccontextmanager
    async def indexed(self) -> AsyncIterator[Connection]:
        with translated():
            async with patiently(), self._acquired(self._indexed) as connection:
                yield connection

    @asynccontextmanager
    async def cached_plans(self) -> AsyncIterator[Connection]:
        with translated():
            async with patiently(), self._acquired(self._cached_plans) as connection:
                yield connection

    @asynccontextmanager
    async def any_scan(self) -> AsyncIterator[Connection]:
        with translated():
            async with patiently(), self._acquired(self._any_scan) as connection:
                yield connection

    @asynccontextmanager
    async def _acquired(self, pool: Any) -> AsyncIterator[Connection]:
        """Acquire a connection. If it caches query plans, discard the plans every ten seconds.

        Otherwise a plan that was made while a table was empty would stay in use after the table has grown.
        """
        async with _acquired(pool) as connection:
            session = connection.get_server_pid()
            if pool is self._cached_plans and monotonic() >= self._plan_at.get(session, 0.0):
                await connection.execute("DISCARD PLANS")
                self._plan_at[session] = monotonic() + _PLANS_KEPT
            yield connection

    async def transact(
        self, work: Callable[[Connection], Awaitable[T]], *, any_scan: bool = False, cached_plans: bool = False
    ) -> T:
        """Run `work` in one transaction. It runs again if it lost a deadlock, so it must be repeatable."""

        async def whole(connection: Connection) -> T:
            async with connection.transaction():
                return await work(connection)

        return await self.alone(whole, any_scan=any_scan, cached_plans=cached_plans)

    async def alone(
        self, work: Callable[[Connection], Awaitable[T]], *, any_scan: bool = False, cached_plans: bool = False
    ) -> T:
        """Run `work`, which is one statement or one transaction. It runs again if it lost a deadlock.

        With `any_scan`, PostgreSQL's planner may also choose sequential and bitmap scans. With `cached_plans`, the
        connection caches query plans.
        """
        pool = self._any_scan if any_scan else self._cached_plans if cached_plans else self._indexed
        with translated():
            async with patiently():
                for left in reversed(range(_TRIES)):
                    try:
                        async with self._acquired(pool) as connection:
                            return await work(connection)
                    except _RACE:
                        if left == 0:
                            raise
        raise AssertionError("unreachable")

    # ── one statement on an `any_scan` connection ──

    async def fetch(self, name: str, *args: object) -> list[Any]:
        async with self.any_scan() as connection:
            rows: list[Any] = await connection.fetch(self.sql[name], *args)
            return rows

    async def fetchrow(self, name: str, *args: object) -> Any:
        async with self.any_scan() as connection:
            return await connection.fetchrow(self.sql[name], *args)

    async def fetchval(self, name: str, *args: object) -> Any:
        async with self.any_scan() as connection:
            return await connection.fetchval(self.sql[name], *args)
