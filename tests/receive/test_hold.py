"""The holder of a key when its store loses the key, or is unavailable when the answer is ready. The stores are real."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import asyncpg
import pytest
import redis

from hookline.outbox.coroutines import run_sync
from hookline.receive.idempotency import IdempotencySettings
from hookline.receive.idempotency.asgi import IdempotencyMiddleware
from hookline.receive.idempotency.core import Claim
from hookline.receive.idempotency.hold import AsyncHolder, Hold, Holder
from hookline.receive.idempotency.keys import Answer, Fresh, InProgress, KeyStoreUnavailable, Replay, StoredResponse
from hookline.receive.idempotency.recording import Recording
from hookline.receive.stores.postgres import AsyncPostgresKeys
from hookline.receive.stores.redis import AsyncRedisKeys, RedisKeys
from hookline.receive.stores.sqlite import AsyncSqliteKeys, SqliteKeys

CLAIM = Claim(b"k" * 32, b"f" * 32)
SETTINGS = IdempotencySettings(lease=60)
BRISK = IdempotencySettings(lease=3)  # An answer that could not be stored is retried after a sixth of the lease.
KEPT = StoredResponse(200, (), b"done")
PATIENCE = 60.0


def recording() -> Recording:
    made = Recording(SETTINGS)
    made.start(200, [])
    made.feed(b"done")
    return made


def copy_of(store: Any) -> Answer:
    found: Answer = store.begin(CLAIM.key, CLAIM.fingerprint, token=b"copy", lease=30)
    return found


def taken(holder: Holder) -> Hold:
    hold = run_sync(holder.take(CLAIM))
    assert hold is not None
    return hold


async def taken_async(holder: AsyncHolder) -> Hold:
    hold = await holder.take(CLAIM)
    assert hold is not None
    return hold


# ── a store that loses keys, by eviction, restart or failover ─────────────────────────────────────────────────────


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as made:
        yield made


def test_the_answer_to_a_lost_key_is_stored(client: redis.Redis) -> None:
    store = RedisKeys(client)
    hold = taken(Holder(store, SETTINGS))
    client.flushall()
    run_sync(hold.settle(recording()))
    assert copy_of(store) == Replay(KEPT)


def test_the_next_heartbeat_claims_a_lost_key_again(client: redis.Redis) -> None:
    store = RedisKeys(client)
    hold = taken(Holder(store, SETTINGS))
    client.flushall()
    assert run_sync(hold.renew())
    assert isinstance(copy_of(store), InProgress)


def test_a_lost_key_that_another_holder_claimed_stays_with_it(client: redis.Redis) -> None:
    store = RedisKeys(client)
    hold = taken(Holder(store, SETTINGS))
    client.flushall()
    assert copy_of(store) == Fresh()
    assert not run_sync(hold.renew())
    run_sync(hold.settle(recording()))
    assert store.finish(CLAIM.key, b"copy", StoredResponse(201, (), b"theirs"), 60)
    assert copy_of(store) == Replay(StoredResponse(201, (), b"theirs"))


def test_a_late_heartbeat_does_not_take_a_key_that_was_released(client: redis.Redis) -> None:
    store = RedisKeys(client)
    hold = taken(Holder(store, SETTINGS))
    run_sync(hold.release())
    assert not run_sync(hold.renew())
    assert copy_of(store) == Fresh()


async def test_a_lost_key_in_an_async_store(client: redis.Redis, redis_url: str) -> None:
    async with redis.asyncio.Redis.from_url(redis_url) as awaited:
        hold = await taken_async(AsyncHolder(AsyncRedisKeys(awaited), SETTINGS))
        client.flushall()
        assert await hold.renew()
        assert isinstance(copy_of(RedisKeys(client)), InProgress)
        client.flushall()
        await hold.settle(recording())
        assert copy_of(RedisKeys(client)) == Replay(KEPT)
        assert not await hold.renew()


# ── a store that is unavailable for one key ───────────────────────────────────────────────────────────────────────

OTHER = Claim(b"o" * 32, b"f" * 32)
TWELFTH, THIRD = 5, 20  # a twelfth and a third of the lease of SETTINGS, in seconds


class Partly:
    """Makes a store unavailable for `CLAIM` only. It sets `bell` at the twelfth attempt to renew `CLAIM`, and counts
    the renewals of `OTHER` until then."""

    def __init__(self) -> None:
        self.tried: Counter[bytes] = Counter()
        self.renewed = 0
        self.bell = threading.Event()

    def note(self, key: bytes) -> None:
        self.tried[key] += 1
        if key == CLAIM.key:
            if self.tried[key] == 12:
                self.renewed = self.tried[OTHER.key]
                self.bell.set()
            raise KeyStoreUnavailable("away")


class PartlyAway(SqliteKeys):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.part = Partly()

    def renew(self, key: bytes, token: bytes, lease: float) -> bool:
        self.part.note(key)
        return super().renew(key, token, lease)


class AsyncPartlyAway(AsyncSqliteKeys):
    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.part = Partly()

    async def renew(self, key: bytes, token: bytes, lease: float) -> bool:
        self.part.note(key)
        return await super().renew(key, token, lease)


class Dream:
    """Replaces the module `time`. After `begun` is set, each `sleep` advances the clock and returns at once."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self.begun.wait()
        self._now += seconds


def test_a_renewal_that_failed_is_tried_again_sooner_than_the_next_is_due(
    keys_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dream = Dream()
    monkeypatch.setattr("hookline.receive.idempotency.hold.time", dream)
    store = PartlyAway(keys_file)
    holder = Holder(store, SETTINGS)
    holds = [run_sync(holder.take(claim)) for claim in (CLAIM, OTHER)]
    dream.begun.set()
    assert store.part.bell.wait(PATIENCE)
    # A failing renewal is tried every twelfth of the lease, and the other key is renewed every third.
    assert store.part.renewed == 3
    for hold in holds:
        assert hold is not None
        run_sync(hold.release())


async def test_a_failed_renewal_is_retried_sooner_under_asyncio(keys_file: str) -> None:
    store = AsyncPartlyAway(keys_file)
    holder = AsyncHolder(store, SETTINGS)
    clock = asyncio.get_running_loop().time
    for claim, pause in ((CLAIM, TWELFTH), (OTHER, THIRD)):
        hold: Any = await holder.take(claim)
        before = clock()
        await holder.work_on(hold)
        assert before + pause <= holder._timers[hold].when() <= clock() + pause
        await hold.release()
    await store.aclose()


# ── a store that is unavailable when the answer is ready ──────────────────────────────────────────────────────────


def test_an_answer_is_stored_when_the_store_is_available_again(keys_file: str) -> None:
    store = SqliteKeys(keys_file, timeout=0.05)
    hold = taken(Holder(store, BRISK))
    with closing(sqlite3.connect(keys_file, isolation_level=None)) as other:
        other.execute(FOR_AN_HOUR)
        other.execute("BEGIN IMMEDIATE")
        run_sync(hold.settle(recording()))
        assert isinstance(copy_of(store), InProgress)
        other.execute("ROLLBACK")
    _await_replay(store)


async def test_an_answer_is_stored_later_under_asyncio_too(keys_file: str) -> None:
    hold = await taken_async(AsyncHolder(AsyncSqliteKeys(keys_file, timeout=0.05), BRISK))
    with closing(sqlite3.connect(keys_file, isolation_level=None)) as other:
        other.execute(FOR_AN_HOUR)
        other.execute("BEGIN IMMEDIATE")
        await hold.settle(recording())
        assert isinstance(copy_of(SqliteKeys(keys_file)), InProgress)
        other.execute("ROLLBACK")
    await asyncio.to_thread(_await_replay, SqliteKeys(keys_file))


# longer than any delay of the test
FOR_AN_HOUR = "UPDATE hookline_idempotency SET lease_until = lease_until + 3600000000, lease = lease + 3600000000"


def _await_replay(store: SqliteKeys) -> None:
    """Wait within the lease until the store returns the answer. After the lease this call would take over the key."""
    ends = time.monotonic() + PATIENCE
    while not isinstance(found := copy_of(store), Replay):
        assert isinstance(found, InProgress)
        assert time.monotonic() < ends
        time.sleep(0.01)  # Only the row shows the progress, so the test polls.
    assert found == Replay(KEPT)


async def test_a_handler_that_holds_the_last_connection_of_the_pool_has_one_effect(keys_url: str) -> None:
    """A session that the framework closes after the answer behaves like this: the store waits for the handler's
    connection, and the handler waits for the store."""
    effects: list[int] = []
    async with asyncpg.create_pool(keys_url, min_size=1, max_size=1) as pool:
        store = AsyncPostgresKeys(pool, timeout=PATIENCE)
        await store.create_table()
        connections: Any = store._connections

        async def pay(scope: Any, receive: Any, send: Any) -> None:
            async with pool.acquire():
                effects.append(1)
                connections._timeout = 0.2  # The store finds no free connection and gives up.
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": b"done"})
                connections._timeout = PATIENCE

        app = IdempotencyMiddleware(pay, store, IdempotencySettings(lease=6))
        statuses = [await _call(app)]
        while statuses[-1] != (200, True):
            statuses.append(await _call(app))
            await asyncio.sleep(0.05)  # The client retries.
    assert set(statuses) <= {(200, False), (409, False), (200, True)}
    assert statuses.count((200, False)) == len(effects) == 1


async def _call(app: IdempotencyMiddleware) -> tuple[int, bool]:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"idempotency-key", b"k1")]
    await app({"type": "http", "method": "POST", "path": "/pay", "headers": headers}, receive, send)
    return sent[0]["status"], (b"idempotency-replayed", b"true") in sent[0]["headers"]
