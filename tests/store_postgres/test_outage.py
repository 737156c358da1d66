"""A database that goes away: typed errors, pools that heal, and no message twice or lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from hookline.errors import StoreUnavailable
from hookline.model import IngestStatus
from hookline.store import Store, StoreOptions, open_store
from hookline.vault import Vault
from tests.support import factory
from tests.support.postgres import PostgresServer, private_server
from tests.support.raw import RawPostgres
from tests.support.scene import Scene


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with private_server() as started:
        yield started


@pytest.fixture
async def own(server: PostgresServer, vault: Vault) -> AsyncIterator[Store]:
    store = await open_store(server.url("postgres"), vault=vault, options=StoreOptions(pool_size=3))
    await store.migrate()
    yield store
    await store.close()


async def healed(call: Callable[[], Awaitable[object]]) -> None:
    """Until it works again: what fails meanwhile must fail as `StoreUnavailable`."""
    async with asyncio.timeout(60):
        while True:
            try:
                await call()
            except StoreUnavailable:
                await asyncio.sleep(0.05)  # the server says nothing when it is ready
            else:
                return


async def test_the_pools_heal_after_a_restart(own: Store, server: PostgresServer) -> None:
    org = await own.save_organization(factory.organization())
    app = await own.create_application(org.id, factory.new_application())
    await own.create_endpoint(app.no, factory.new_endpoint())
    await own.ingest(factory.new_messages(app.no, 4))
    assert await own.arm()
    await asyncio.to_thread(server.stop)
    await own.wait(60)  # a sleeper is woken by the loss of its connection
    for call in (own.counts, own.now, lambda: own.claim(5, held={}, share=5), own.sweep_leases, own.arm):
        with pytest.raises(StoreUnavailable):
            await call()
    await asyncio.to_thread(server.start)
    await healed(own.now)
    await healed(lambda: own.claim(0, held={}, share=5))
    batch = await own.claim(5, held={}, share=5)
    assert len(batch.jobs) == 4
    assert (await own.record(factory.all_delivered(batch.jobs))).recorded == 4
    await healed(own.arm)


async def test_a_crash_keeps_what_was_acknowledged(own: Store, server: PostgresServer) -> None:
    org = await own.save_organization(factory.organization())
    app = await own.create_application(org.id, factory.new_application())
    await own.create_endpoint(app.no, factory.new_endpoint())
    accepted = await own.ingest(factory.new_messages(app.no, 7))
    await asyncio.to_thread(server.crash)
    await asyncio.to_thread(server.start)
    await healed(own.now)
    await healed(lambda: own.claim(0, held={}, share=5))
    jobs = (await own.claim(20, held={}, share=20)).jobs
    assert {job.message_id for job in jobs if job.app_no == app.no} == {answer.message_id for answer in accepted}


async def test_a_connection_lost_before_the_commit_leaves_nothing_and_a_retry_takes_it_once(
    scene: Scene, other: RawPostgres
) -> None:
    await scene.endpoint()
    message = factory.new_message(scene.app.no, event_id="lost", idempotency_key=b"lost")
    async with other.connection.transaction():
        await other.execute("LOCK TABLE delivery IN ACCESS EXCLUSIVE MODE")  # ingest stops in the middle
        ingesting = asyncio.create_task(scene.store.ingest([message]))
        await cut(scene)
        # The look at what became of it waits for the table as well.
    with pytest.raises(StoreUnavailable):
        await ingesting
    (again,) = await scene.store.ingest([message])
    assert (again.status, again.deliveries) == (IngestStatus.ACCEPTED, 1)
    assert await scene.raw.count("message") == 1


async def test_a_connection_lost_after_the_commit_is_answered_with_what_was_stored(scene: Scene) -> None:
    await scene.endpoint()
    await scene.endpoint()
    message = factory.new_message(scene.app.no)
    await scene.store.ingest([message])
    scene.store._note_doubts([message], process=1)  # type: ignore[attr-defined]  # as if its answer had been lost
    (again,) = await scene.store.ingest([message])
    assert (again.status, again.deliveries) == (IngestStatus.ACCEPTED, 2)
    assert await scene.raw.count("message") == 1


async def cut(scene: Scene) -> None:
    """End the connection that waits for the lock, once it does."""
    async with asyncio.timeout(30):
        while not await scene.raw.rows(_END_WAITING):
            pass


_END_WAITING = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE wait_event_type = 'Lock' AND datname = current_database() AND query LIKE '%idempotency%'"
)
