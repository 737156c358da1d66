"""Every store of keys, sync and async, with the same methods for tests. The tests can change stored times to simulate
that time has passed."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import asyncpg
import psycopg
import redis
import redis.asyncio

from hookline.receive.idempotency.keys import Answer, AsyncKeyStore, KeyStore, StoredResponse, key_of
from hookline.receive.stores.postgres import AsyncPostgresKeys, PostgresKeys
from hookline.receive.stores.redis import AsyncRedisKeys, RedisKeys
from hookline.receive.stores.sqlite import AsyncSqliteKeys, SqliteKeys

LEASE, TTL = 30.0, 3600.0
KEY, PRINT = key_of([], "evt_1"), b"f" * 32
DONE = StoredResponse(200, ((b"content-type", b"text/plain"),), b"done")


class Awaited:
    """Wraps a synchronous store so that it can be awaited. Each concurrent call runs in its own thread."""

    def __init__(self, store: KeyStore) -> None:
        self.store = store
        self._threads = ThreadPoolExecutor(max_workers=32)

    async def begin(self, key: bytes, fingerprint: bytes, *, token: bytes, lease: float) -> Answer:
        return await self._run(lambda: self.store.begin(key, fingerprint, token=token, lease=lease))

    async def renew(self, key: bytes, token: bytes, lease: float) -> bool:
        return await self._run(lambda: self.store.renew(key, token, lease))

    async def finish(self, key: bytes, token: bytes, response: StoredResponse, ttl: float) -> bool:
        return await self._run(lambda: self.store.finish(key, token, response, ttl))

    async def release(self, key: bytes, token: bytes) -> None:
        await self._run(lambda: self.store.release(key, token))

    async def clean(self, limit: int) -> int:
        return await self._run(lambda: self.store.clean(limit))

    async def create_table(self) -> None:
        await self._run(self.store.create_table)  # type: ignore[attr-defined]

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)

    async def _run(self, verb: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, verb)


class Copy:
    """One copy of a request: its key, its fingerprint, and the token with which it claims the key."""

    def __init__(self, stage: Stage, key: bytes, fingerprint: bytes) -> None:
        self._stage = stage
        self.key = key
        self.fingerprint = fingerprint
        self.token = secrets.token_bytes(16)

    async def begin(self, lease: float = LEASE) -> Answer:
        return await self._stage.keys.begin(self.key, self.fingerprint, token=self.token, lease=lease)

    async def renew(self, lease: float = LEASE) -> bool:
        return await self._stage.keys.renew(self.key, self.token, lease)

    async def finish(self, response: StoredResponse, ttl: float = TTL) -> bool:
        return await self._stage.keys.finish(self.key, self.token, response, ttl)

    async def release(self) -> None:
        await self._stage.keys.release(self.key, self.token)


class Stage:
    """One open store of idempotency keys."""

    keys: AsyncKeyStore
    cleans_itself = False

    def __init__(self, place: str) -> None:
        """`place` is a file path or a URL."""
        self.place = place

    async def open(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError

    async def age(self, key: bytes, seconds: float) -> None:
        """Change the stored times of one key, as if `seconds` had passed."""
        raise NotImplementedError

    async def count(self) -> int:
        """Return the number of stored keys, including expired ones."""
        raise NotImplementedError

    def copy(self, key: bytes | None = None, fingerprint: bytes = b"f" * 32) -> Copy:
        return Copy(self, key or key_of(["a test's"], secrets.token_bytes(8)), fingerprint)

    def copies(self, count: int, key: bytes | None = None) -> list[Copy]:
        first = self.copy(key)
        return [first, *(self.copy(first.key) for _ in range(count - 1))]


def verbs(keys: KeyStore) -> list[Callable[[], Any]]:
    """Return each operation of the store once, on `KEY` or on a new key."""
    return [
        lambda: keys.begin(key_of([], "evt_2"), PRINT, token=b"1", lease=30),
        lambda: keys.renew(KEY, b"1", 30),
        lambda: keys.finish(KEY, b"1", DONE, 60),
        lambda: keys.release(KEY, b"1"),
        lambda: keys.clean(10),
    ]


# ── SQLite ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Sqlite(Stage):
    async def open(self) -> None:
        self.store = SqliteKeys(self.place)
        self.keys = Awaited(self.store)

    async def close(self) -> None:
        await self.keys.close()  # type: ignore[attr-defined]
        self.store.close()

    async def age(self, key: bytes, seconds: float) -> None:
        with closing(sqlite3.connect(self.place, isolation_level=None)) as conn:
            moved = conn.execute(
                "UPDATE hookline_idempotency SET lease_until = lease_until - ?1, expires_at = expires_at - ?1 WHERE key = ?2",
                (round(seconds * 1e6), key),
            )
            assert moved.rowcount == 1

    async def count(self) -> int:
        with closing(sqlite3.connect(self.place)) as conn:
            found: int = conn.execute("SELECT count(*) FROM hookline_idempotency").fetchone()[0]
            return found


class AsyncSqlite(Sqlite):
    async def open(self) -> None:
        self.keys = AsyncSqliteKeys(self.place)

    async def close(self) -> None:
        await self.keys.aclose()  # type: ignore[attr-defined]


# ── PostgreSQL ────────────────────────────────────────────────────────────────────────────────────────────────────


class Postgres(Stage):
    """A store that uses psycopg and a function that connects."""

    async def open(self) -> None:
        self.store = PostgresKeys(lambda: psycopg.connect(self.place))
        self.keys = Awaited(self.store)
        await self.keys.create_table()

    async def close(self) -> None:
        await self.keys.close()  # type: ignore[attr-defined]
        self.store.close()

    async def age(self, key: bytes, seconds: float) -> None:
        moved = await self._run(
            "UPDATE hookline_idempotency SET lease_until = lease_until - make_interval(secs => %s), "
            "expires_at = expires_at - make_interval(secs => %s) WHERE key = %s RETURNING 1",
            (seconds, seconds, key),
        )
        assert moved == (1,)

    async def count(self) -> int:
        found: int = (await self._run("SELECT count(*) FROM hookline_idempotency", ()))[0]
        return found

    async def _run(self, statement: str, values: tuple[Any, ...]) -> Any:
        async with await psycopg.AsyncConnection.connect(self.place, autocommit=True) as conn:
            return await (await conn.execute(statement, values)).fetchone()


class PostgresPool(Postgres):
    async def open(self) -> None:
        from psycopg_pool import ConnectionPool

        self.pool = ConnectionPool(self.place, min_size=1, max_size=5, open=True)
        self.store = PostgresKeys(self.pool)
        self.keys = Awaited(self.store)
        await self.keys.create_table()

    async def close(self) -> None:
        await super().close()
        await asyncio.to_thread(self.pool.close)


class Asyncpg(Postgres):
    async def open(self) -> None:
        self.pool = await asyncpg.create_pool(self.place, min_size=1, max_size=5)
        self.keys = AsyncPostgresKeys(self.pool)
        await self.keys.create_table()

    async def close(self) -> None:
        await self.pool.close()


class AsyncPostgresPool(Postgres):
    async def open(self) -> None:
        from psycopg_pool import AsyncConnectionPool

        self.pool = AsyncConnectionPool(self.place, min_size=1, max_size=5, open=False)
        await self.pool.open()
        self.keys = AsyncPostgresKeys(self.pool)
        await self.keys.create_table()

    async def close(self) -> None:
        await self.pool.close()


# ── Redis ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Redis(Stage):
    cleans_itself = True
    decodes = False

    async def open(self) -> None:
        self.client = redis.Redis.from_url(self.place, decode_responses=self.decodes)
        self.keys = Awaited(RedisKeys(self.client))

    async def close(self) -> None:
        await self.keys.close()  # type: ignore[attr-defined]
        self.client.close()

    async def age(self, key: bytes, seconds: float) -> None:
        name, millis = f"hookline:idempotency:{key.hex()}", round(seconds * 1000)
        async with redis.asyncio.Redis.from_url(self.place) as client:
            left = await client.pttl(name)
            assert left > 0
            await client.hincrby(name, "lease_until", -millis)
            await client.pexpire(name, left - millis)

    async def count(self) -> int:
        async with redis.asyncio.Redis.from_url(self.place) as client:
            found: int = await client.dbsize()
            return found


class DecodingRedis(Redis):
    """A Redis client that decodes values to text, as many applications configure it."""

    decodes = True


class AsyncRedis(Redis):
    async def open(self) -> None:
        self.client = redis.asyncio.Redis.from_url(self.place, decode_responses=self.decodes)
        self.keys = AsyncRedisKeys(self.client)

    async def close(self) -> None:
        await self.client.aclose()


class DecodingAsyncRedis(AsyncRedis):
    decodes = True


STAGES: dict[str, tuple[type[Stage], str]] = {
    "sqlite": (Sqlite, "sqlite"),
    "sqlite-async": (AsyncSqlite, "sqlite"),
    "postgres": (Postgres, "postgres"),
    "postgres-pool": (PostgresPool, "postgres"),
    "postgres-asyncpg": (Asyncpg, "postgres"),
    "postgres-async-pool": (AsyncPostgresPool, "postgres"),
    "redis": (Redis, "redis"),
    "redis-decoding": (DecodingRedis, "redis"),
    "redis-async": (AsyncRedis, "redis"),
    "redis-async-decoding": (DecodingAsyncRedis, "redis"),
    "valkey": (Redis, "valkey"),
    "valkey-async": (AsyncRedis, "valkey"),
}
