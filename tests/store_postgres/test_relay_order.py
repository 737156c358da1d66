"""Ordering keys through the outbox when transactions overlap. SQLite has one writer, so no transactions overlap."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from hookline.store import Store
from tests.support.scene import Scene

_PUBLISH = "SELECT hookline.publish($1, 'order.paid', '{}', event_id => $2, ordering_key => $3)"


@pytest.fixture
async def shops(scene: Scene) -> AsyncIterator[tuple[asyncpg.Connection, asyncpg.Connection]]:
    """Two connections of an application."""
    first, second = await asyncpg.connect(scene.url), await asyncpg.connect(scene.url)
    yield first, second
    await first.close()
    await second.close()


async def in_order(scene: Scene, key: str) -> list[str]:
    """Return the event ids of one key's messages in the order in which they will be sent."""
    found = await scene.raw.rows("SELECT event_id FROM message WHERE ordering_key = $1 ORDER BY seq", key)
    return [row["event_id"] for row in found]


async def test_the_row_that_commits_last_is_sent_last(
    scene: Scene, shops: tuple[asyncpg.Connection, asyncpg.Connection]
) -> None:
    """The late transaction has the row with the lower id. While it is open, it delays no other row, not even of the
    same key."""
    early, late = shops
    held = late.transaction()
    await held.start()
    await late.execute(_PUBLISH, scene.app.id, "opened-first", "a")
    for event_id, key in (("second", "a"), ("other", "b")):
        await early.execute(_PUBLISH, scene.app.id, event_id, key)
    assert (await scene.store.pipeline.relay(10)).relayed == 2
    await held.commit()
    await early.execute(_PUBLISH, scene.app.id, "third", "a")
    assert (await scene.store.pipeline.relay(10)).relayed == 2
    assert await in_order(scene, "a") == ["second", "opened-first", "third"]
    assert await in_order(scene, "b") == ["other"]


async def test_a_savepoint_that_was_rolled_back_leaves_no_gap(
    scene: Scene, shops: tuple[asyncpg.Connection, asyncpg.Connection]
) -> None:
    shop, _ = shops
    async with shop.transaction():
        await shop.execute(_PUBLISH, scene.app.id, "one", "a")
        inner = shop.transaction()
        await inner.start()
        await shop.execute(_PUBLISH, scene.app.id, "never", "a")
        await inner.rollback()
        await shop.execute(_PUBLISH, scene.app.id, "two", "a")
    assert (await scene.store.pipeline.relay(10)).relayed == 2
    assert await in_order(scene, "a") == ["one", "two"]


@pytest.mark.parametrize("backlog", [0, 60])
async def test_only_one_relay_at_a_time_moves_rows_with_a_key(
    scene: Scene, second: Store, shops: tuple[asyncpg.Connection, asyncpg.Connection], backlog: int
) -> None:
    """Rows without a key are relayed meanwhile. No row is lost after the guard lock is released. This holds for few and
    many rows."""
    shop, guard = shops
    held = guard.transaction()
    await held.start()
    assert await guard.fetchval("SELECT pg_try_advisory_xact_lock(1214542, 1)")
    for n in range(3):
        await shop.execute(_PUBLISH, scene.app.id, f"a-{n}", "a")
    for n in range(backlog + 1):
        await shop.execute(_PUBLISH, scene.app.id, f"free-{n}", None)
    moved = 0
    while report := (await second.pipeline.relay(1000)).relayed:
        moved += report
    assert moved == backlog + 1
    assert await in_order(scene, "a") == []
    await held.rollback()
    await asyncio.gather(*(store.pipeline.relay(1000) for store in (scene.store, second)))
    while (await scene.store.pipeline.relay(1000)).relayed:
        pass
    assert await in_order(scene, "a") == ["a-0", "a-1", "a-2"]
