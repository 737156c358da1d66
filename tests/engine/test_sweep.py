"""The sweep while the database fails now and then: deliveries of dead workers return, those of live workers wait."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hookline.engine.sweep import Sweeper, SweepSettings
from hookline.model.states import DeliveryState
from hookline.store.outage import Outage
from tests.conftest import migrate
from tests.support.postgres import PostgresServer, private_server
from tests.support.raw import open_raw
from tests.support.scene import Scene
from tests.support.working import PATIENCE

LEASE = 3.0
HEALTHY = 0.3  # seconds that the database works between two failures; shorter than the lease
MAX_FLAPS = 40


class Flap:
    """Makes the database of the test fail and work again."""

    def __init__(self, down: Callable[[], None], up: Callable[[], None]) -> None:
        self.down = down
        self.up = up


@pytest.fixture
def server(engine: str) -> Iterator[PostgresServer | None]:
    if engine == "sqlite":
        yield None
        return
    with private_server() as started:
        asyncio.run(migrate(started.url("postgres")))
        yield started


@pytest.fixture
def database_url(server: PostgresServer | None, sqlite_template: Path, tmp_path: Path) -> str:
    if server is not None:
        return server.url("postgres")
    file = tmp_path / "hookline.db"
    file.write_bytes(sqlite_template.read_bytes())
    return f"sqlite:///{file}"


@pytest.fixture
def flap(server: PostgresServer | None, tmp_path: Path) -> Flap:
    if server is not None:
        return Flap(server.stop, server.start)
    file, aside = tmp_path / "hookline.db", tmp_path / "aside.db"
    return Flap(lambda: _move(file, aside), lambda: _move(aside, file))


def _move(source: Path, target: Path) -> None:
    source.rename(target)


async def test_a_dead_workers_delivery_returns_although_the_database_fails_now_and_then(
    scene: Scene, flap: Flap
) -> None:
    await scene.endpoint()
    [message_id] = await scene.send()
    await scene.claim()  # by a worker that dies
    outage, stop = Outage(random.Random(3)), asyncio.Event()
    sweeper = Sweeper(scene.store, SweepSettings(lease=LEASE, every=0.05), outage, random.Random(4))
    await asyncio.to_thread(flap.down)
    running = asyncio.create_task(sweeper.run(stop))
    await _until(lambda: outage.away)
    await asyncio.to_thread(flap.up)
    await _until(lambda: not outage.away)
    await _expire_lease(scene)
    flaps = 0
    while flaps < MAX_FLAPS and await scene.state(message_id) == DeliveryState.DELIVERING:
        await asyncio.sleep(HEALTHY)  # the database works for a while
        await asyncio.to_thread(flap.down)
        await _until(lambda: outage.away)
        await asyncio.to_thread(flap.up)
        await _until(lambda: not outage.away)
        flaps += 1
    stop.set()
    await running
    assert await scene.state(message_id) == DeliveryState.PENDING, f"still leased after {flaps} failures"


async def _expire_lease(scene: Scene) -> None:
    """End the lease now, by another connection: those of the scene may be broken."""
    raw = await open_raw(scene.url)
    await raw.execute("UPDATE delivery SET lease_until = $1 WHERE state = 2", await raw.now())
    await raw.close()


async def _until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not reached():
            await asyncio.sleep(0.01)  # the outage has no event
