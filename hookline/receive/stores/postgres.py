"""Idempotency keys in PostgreSQL 14 or later, with psycopg 3.2 or newer or asyncpg: for any number of machines.

    keys = PostgresKeys(pool)                      # psycopg_pool.ConnectionPool
    keys = PostgresKeys(lambda: psycopg.connect(URL))
    keys = AsyncPostgresKeys(pool)                 # of asyncpg, or psycopg_pool.AsyncConnectionPool
    keys = AsyncPostgresKeys(lambda: asyncpg.create_pool(URL))
    keys.create_table()                            # or `table_sql()` in your own migrations

Each method is one statement in a transaction of its own. All times come from the database's clock.
"""

from __future__ import annotations

from typing import Any

from hookline.outbox.coroutines import run_sync
from hookline.receive.idempotency import keys
from hookline.receive.stores.postgres_connections import Row, Source, Values, connections, connections_async
from hookline.receive.stores.postgres_sql import FIND, TABLE, Statements, table_sql

__all__ = ["AsyncPostgresKeys", "PostgresKeys", "table_sql"]

_ROUNDS = 10  # maximum tries, if other requests take or release the key at the same time
_SERIALIZATION = ("40001", "40P01")  # serialization_failure, deadlock_detected: the statement is tried again
_MISSING = ("42P01", "3F000", "42703")  # undefined_table, invalid_schema_name, undefined_column


class _Keys:
    """The methods of `PostgresKeys` and `AsyncPostgresKeys`, as coroutines."""

    def __init__(self, statements: Statements, source: Source) -> None:
        self._sql = statements
        self._connections = source

    async def begin(self, key: bytes, fingerprint: bytes, *, token: bytes, lease: float) -> keys.Answer:
        for _ in range(_ROUNDS):
            row = await self._ask(self._sql.begin, (key, fingerprint, token, lease, keys.ABANDONED))
            if row is not None:
                verdict, runs, response, retry_after = row
                return keys.answer_of(verdict, runs or response or retry_after)
        return keys.InProgress(lease)  # in each try, another request took or released the key

    async def renew(self, key: bytes, token: bytes, lease: float) -> bool:
        return await self._ask(self._sql.renew, (key, token, lease, keys.ABANDONED)) is not None

    async def finish(self, key: bytes, token: bytes, response: keys.StoredResponse, ttl: float) -> bool:
        return await self._ask(self._sql.finish, (key, token, keys.encode(response), ttl)) is not None

    async def release(self, key: bytes, token: bytes) -> None:
        await self._ask(self._sql.release, (key, token))

    async def clean(self, limit: int) -> int:
        row = await self._ask(self._sql.clean, (limit,))
        return 0 if row is None else int(row[0])

    async def create_table(self) -> None:
        """Create the table, unless it exists."""
        if await self._ask(FIND, (self._sql.table,)) == (None,):
            await self._ask(self._sql.create, None)

    async def aclose(self) -> None:
        """Close the pool that was made for this store. A pool that you gave stays open."""
        await self._connections.close()

    async def _ask(self, statement: str, values: Values | None) -> Row | None:
        left = _ROUNDS
        while True:
            try:
                return await self._connections.ask(statement, values)
            except self._connections.errors as error:
                left -= 1
                if left == 0 or getattr(error, "sqlstate", None) not in _SERIALIZATION:
                    raise _unavailable(error, self._sql.table) from error


class PostgresKeys(keys.SyncKeyStore):
    def __init__(self, source: Any, *, table: str = TABLE, schema: str | None = None, timeout: float = 5.0) -> None:
        """`source`: a pool, or a function that opens a connection. Each process opens up to eight connections with the
        function, and uses them again.

        `timeout`: seconds to wait for a free connection.
        """
        self._keys = _Keys(Statements(table, schema), connections(source, keys.checked_timeout(timeout)))
        super().__init__(self._keys)

    def create_table(self) -> None:
        """Create the table, unless it exists."""
        run_sync(self._keys.create_table())

    def close(self) -> None:
        """Close the connections that were opened for this store. A pool that you gave stays open."""
        run_sync(self._keys.aclose())


class AsyncPostgresKeys(_Keys):
    def __init__(self, source: Any, *, table: str = TABLE, schema: str | None = None, timeout: float = 5.0) -> None:
        """`source`: a pool, or a function (async or not) that makes a pool. The first call of a method makes the pool.

        `timeout`: maximum seconds to make the pool, to wait for a free connection, and on asyncpg to run a statement.
        """
        super().__init__(Statements(table, schema), connections_async(source, keys.checked_timeout(timeout)))


def _unavailable(error: BaseException, table: str) -> keys.KeyStoreUnavailable:
    if getattr(error, "sqlstate", None) in _MISSING:
        advice = "create_table() makes it, table_sql() returns its SQL"
        return keys.KeyStoreUnavailable(f"the table {table} is missing: {advice}")
    return keys.KeyStoreUnavailable(f"the PostgreSQL database of the keys is not available now: {error}")
