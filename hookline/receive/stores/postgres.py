"""Keys in PostgreSQL 14 or later: for any number of machines.

    keys = PostgresKeys(pool)                      # psycopg_pool.ConnectionPool
    keys = PostgresKeys(lambda: psycopg.connect(URL))
    keys = AsyncPostgresKeys(pool)                 # of asyncpg, or psycopg_pool.AsyncConnectionPool
    keys = AsyncPostgresKeys(lambda: asyncpg.create_pool(URL))
    keys.create_table()                            # or `table_sql()` in your own migrations

Each verb is one statement that commits by itself, timed by the database's clock.
"""

from __future__ import annotations

from typing import Any

from hookline.receive.idempotency.keys import (
    ABANDONED,
    Answer,
    Fresh,
    InProgress,
    KeyStoreUnavailable,
    Mismatch,
    Replay,
    StoredResponse,
    checked_timeout,
    decode,
    encode,
)
from hookline.receive.stores.postgres_lend import Asking, AsyncAsking, Row, Values, asking, asking_async
from hookline.receive.stores.postgres_sql import TABLE, Statements, table_sql

__all__ = ["AsyncPostgresKeys", "PostgresKeys", "table_sql"]

# A round without an answer means that another copy has just taken the key, or let it go.
_ROUNDS = 10
_SERIALIZATION = ("40001", "40P01")  # where the database's default is not READ COMMITTED
_MISSING = ("42P01", "3F000", "42703")  # undefined_table, invalid_schema_name, undefined_column


class PostgresKeys:
    def __init__(self, source: Any, *, table: str = TABLE, schema: str | None = None, timeout: float = 5.0) -> None:
        """`source`: a pool, or a function that opens a connection; up to eight are kept. `timeout`: seconds to wait for one."""
        self._sql = Statements(table, schema)
        self._asking: Asking = asking(source, checked_timeout(timeout))

    def begin(self, key: bytes, fingerprint: bytes, *, token: bytes, lease: float) -> Answer:
        for _ in range(_ROUNDS):
            row = self._ask(self._sql.begin, (key, fingerprint, token, lease, ABANDONED))
            if row is not None:
                return _answer(row)
        return _contended(lease)

    def renew(self, key: bytes, token: bytes, lease: float) -> bool:
        return self._ask(self._sql.renew, (key, token, lease, ABANDONED)) is not None

    def finish(self, key: bytes, token: bytes, response: StoredResponse, ttl: float) -> bool:
        return self._ask(self._sql.finish, (key, token, encode(response), ttl)) is not None

    def release(self, key: bytes, token: bytes) -> None:
        self._ask(self._sql.release, (key, token))

    def clean(self, limit: int) -> int:
        row = self._ask(self._sql.clean, (limit,))
        return 0 if row is None else int(row[0])

    def create_table(self) -> None:
        """Make the table, unless it is there."""
        if self._ask(self._sql.find, ()) == (None,):
            self._ask(self._sql.create, None)

    def close(self) -> None:
        """Close the connections that were opened for this store. A pool stays as it is: it is yours."""
        self._asking.close()

    def _ask(self, statement: str, values: Values | None) -> Row | None:
        left = _ROUNDS
        while True:
            try:
                return self._asking.ask(statement, values)
            except self._asking.errors as error:
                left -= 1
                if left == 0 or not _is_passing(error):
                    raise _unavailable(error, self._sql.table) from error


class AsyncPostgresKeys:
    def __init__(self, source: Any, *, table: str = TABLE, schema: str | None = None, timeout: float = 5.0) -> None:
        """`source`: a pool, or a function, async or not, that makes one: it is called by the first verb, in the running loop.

        `timeout`: seconds to wait for the pool to be made, for a connection of it, and on asyncpg for a statement.
        """
        self._sql = Statements(table, schema)
        self._asking: AsyncAsking = asking_async(source, checked_timeout(timeout))

    async def begin(self, key: bytes, fingerprint: bytes, *, token: bytes, lease: float) -> Answer:
        for _ in range(_ROUNDS):
            row = await self._ask(self._sql.begin, (key, fingerprint, token, lease, ABANDONED))
            if row is not None:
                return _answer(row)
        return _contended(lease)

    async def renew(self, key: bytes, token: bytes, lease: float) -> bool:
        return await self._ask(self._sql.renew, (key, token, lease, ABANDONED)) is not None

    async def finish(self, key: bytes, token: bytes, response: StoredResponse, ttl: float) -> bool:
        return await self._ask(self._sql.finish, (key, token, encode(response), ttl)) is not None

    async def release(self, key: bytes, token: bytes) -> None:
        await self._ask(self._sql.release, (key, token))

    async def clean(self, limit: int) -> int:
        row = await self._ask(self._sql.clean, (limit,))
        return 0 if row is None else int(row[0])

    async def create_table(self) -> None:
        """Make the table, unless it is there."""
        if await self._ask(self._sql.find, ()) == (None,):
            await self._ask(self._sql.create, None)

    async def aclose(self) -> None:
        """Close the pool that was made for this store. One that was given stays as it is: it is yours."""
        await self._asking.close()

    async def _ask(self, statement: str, values: Values | None) -> Row | None:
        left = _ROUNDS
        while True:
            try:
                return await self._asking.ask(statement, values)
            except self._asking.errors as error:
                left -= 1
                if left == 0 or not _is_passing(error):
                    raise _unavailable(error, self._sql.table) from error


def _answer(row: Row) -> Answer:
    verdict, runs, response, retry_after = row
    if verdict == "fresh":
        return Fresh(runs)
    if verdict == "replay":
        return Replay(decode(response))
    return InProgress(retry_after) if verdict == "in_progress" else Mismatch()


def _contended(lease: float) -> InProgress:
    """In every round somebody else had just had it."""
    return InProgress(lease)


def _is_passing(error: BaseException) -> bool:
    return getattr(error, "sqlstate", None) in _SERIALIZATION


def _unavailable(error: BaseException, table: str) -> KeyStoreUnavailable:
    if getattr(error, "sqlstate", None) in _MISSING:
        return KeyStoreUnavailable(f"the table {table} is missing: create_table() makes it, table_sql() prints how")
    return KeyStoreUnavailable(f"the PostgreSQL of the keys is not available now: {error}")
