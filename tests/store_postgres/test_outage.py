"""PostgreSQL becomes unavailable: typed errors, connection pools that recover, and no message lost or duplicated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import asyncpg
import msgspec
import pytest

from hookline.errors import StoreUnavailable
from hookline.model.deliveries import SlotBudgets
from hookline.model.messages import IngestStatus, NewBatch
from hookline.security.vault import Vault
from hookline.store import Store, StoreOptions, open_store
from hookline.store.postgres import database
from hookline.store.postgres.database import translated
from tests.support import factory
from tests.support.postgres import PostgresServer, private_server
from tests.support.proxy import in_front_of, relay
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
    """Retry a call until it succeeds. Until then it may only fail with `StoreUnavailable`."""
    async with asyncio.timeout(60):
        while True:
            try:
                await call()
            except StoreUnavailable:
                await asyncio.sleep(0.05)  # the server has no event for being ready
            else:
                return


async def test_the_pools_recover_after_a_restart(own: Store, server: PostgresServer) -> None:
    org = await own.catalogue.save_organization(factory.organization())
    app = await own.catalogue.create_application(org.id, factory.new_application())
    await own.catalogue.create_endpoint(app.no, factory.new_endpoint())
    await own.pipeline.ingest(factory.new_messages(app.no, 4))
    assert await own.pipeline.arm()
    await asyncio.to_thread(server.stop)
    await own.pipeline.wait(60)  # a lost connection wakes a sleeping worker
    for call in (
        own.history.lanes,
        own.now,
        lambda: own.pipeline.claim(5, SlotBudgets(lane_limit=5)),
        own.upkeep.sweep_leases,
        own.pipeline.arm,
    ):
        with pytest.raises(StoreUnavailable):
            await call()
    await asyncio.to_thread(server.start)
    await healed(own.now)
    await healed(lambda: own.pipeline.claim(0, SlotBudgets(lane_limit=5)))
    batch = await own.pipeline.claim(5, SlotBudgets(lane_limit=5))
    assert len(batch.jobs) == 4
    assert (await own.pipeline.record(factory.all_delivered(batch.jobs))).recorded == 4
    await healed(own.pipeline.arm)


def test_an_internal_driver_error_becomes_a_plain_connection_error() -> None:
    """The driver raises this error when its connection breaks in the middle of an operation."""
    error = asyncpg.InternalClientError("cannot switch to state 15; another operation (2) is in progress")
    with pytest.raises(StoreUnavailable, match=r"^PostgreSQL cannot be reached: the connection broke$"), translated():
        raise error


def test_a_deadlock_is_not_reported_as_a_network_error() -> None:
    error = asyncpg.DeadlockDetectedError("deadlock detected")
    with (
        pytest.raises(StoreUnavailable, match=r"^another transaction blocked this one: deadlock detected$"),
        translated(),
    ):
        raise error


async def test_acknowledged_messages_survive_a_crash(own: Store, server: PostgresServer) -> None:
    org = await own.catalogue.save_organization(factory.organization())
    app = await own.catalogue.create_application(org.id, factory.new_application())
    await own.catalogue.create_endpoint(app.no, factory.new_endpoint())
    accepted = await own.pipeline.ingest(factory.new_messages(app.no, 7))
    await asyncio.to_thread(server.crash)
    await asyncio.to_thread(server.start)
    await healed(own.now)
    await healed(lambda: own.pipeline.claim(0, SlotBudgets(lane_limit=5)))
    jobs = (await own.pipeline.claim(20, SlotBudgets(lane_limit=20))).jobs
    assert {job.message_id for job in jobs if job.app_no == app.no} == {answer.message_id for answer in accepted}


async def test_a_connection_lost_before_the_commit_stores_nothing_and_a_retry_stores_the_message_once(
    scene: Scene, other: RawPostgres
) -> None:
    await scene.endpoint()
    message = factory.new_message(scene.app.no, event_id="lost", idempotency_key=b"lost")
    async with other.connection.transaction():
        await other.execute("LOCK TABLE delivery IN ACCESS EXCLUSIVE MODE")  # ingest blocks in the middle
        ingesting = asyncio.create_task(scene.store.pipeline.ingest([message]))
        await cut(scene)
        # The query that checks whether the message was stored waits for the table lock too.
    with pytest.raises(StoreUnavailable):
        await ingesting
    (again,) = await scene.store.pipeline.ingest([message])
    assert (again.status, again.deliveries) == (IngestStatus.ACCEPTED, 1)
    assert await scene.raw.count("message") == 1


async def test_a_connection_lost_after_the_commit_is_answered_with_the_stored_message(
    scene: Scene, database_url: str, vault: Vault
) -> None:
    await scene.endpoint()
    await scene.endpoint()
    async with deaf_line(database_url) as (url, line):
        store = await open_store(url, vault=vault, options=StoreOptions(pool_size=3))
        await store.pipeline.ingest([factory.new_message(scene.app.no)])  # from now on, ingest takes one round trip
        line.deaf = True
        message = factory.new_message(scene.app.no)
        (answer,) = await store.pipeline.ingest([message])
        assert (answer.status, answer.message_id, answer.deliveries) == (IngestStatus.ACCEPTED, message.id, 2)
        await store.close()
    assert line.cut == 1
    assert await scene.raw.count("message", "id = $1", message.id) == 1


async def test_a_message_whose_answer_was_lost_is_not_duplicated_when_it_is_sent_again(
    scene: Scene, database_url: str, vault: Vault
) -> None:
    await scene.endpoint()
    async with deaf_line(database_url) as (url, line):
        store = await open_store(url, vault=vault, options=StoreOptions(pool_size=3))
        await store.pipeline.ingest([factory.new_message(scene.app.no)])
        line.deaf = line.broken = True
        message = factory.new_message(scene.app.no)
        with pytest.raises(StoreUnavailable):
            await store.pipeline.ingest([message])
        line.broken = False
        (answer,) = await store.pipeline.ingest([message])
        assert (answer.status, answer.deliveries) == (IngestStatus.ACCEPTED, 1)
        await store.close()
    assert await scene.raw.count("message", "id = $1", message.id) == 1


async def test_each_message_of_a_group_whose_answer_was_lost_gets_its_own_answer(
    scene: Scene, database_url: str, vault: Vault
) -> None:
    """Each message of the group gets its own answer. A stored message must not be answered with a request to retry."""
    await scene.send(event_id="taken")
    (first,) = await scene.store.pipeline.ingest([factory.new_message(scene.app.no, idempotency_key=b"key")])
    async with deaf_line(database_url) as (url, line):
        store = await open_store(url, vault=vault, options=StoreOptions(pool_size=3))
        await store.pipeline.ingest([factory.new_message(scene.app.no)])
        line.deaf = True
        group = [
            factory.new_message(scene.app.no),
            factory.new_message(scene.app.no, event_id="taken"),
            factory.new_message(scene.app.no, idempotency_key=b"key"),
            factory.new_message(scene.app.no),
        ]
        answers = await store.pipeline.ingest(group)
        await store.close()
    assert line.cut == 1
    assert [answer.status for answer in answers] == [
        IngestStatus.ACCEPTED,
        IngestStatus.EVENT_ID_TAKEN,
        IngestStatus.REPLAYED,
        IngestStatus.ACCEPTED,
    ]
    assert answers[2].message_id == first.message_id
    assert await scene.raw.count("message") == 5


@pytest.mark.parametrize("lost", range(2, 8))
async def test_a_batch_whose_connection_is_lost_anywhere_is_accepted_once(
    scene: Scene, database_url: str, vault: Vault, lost: int
) -> None:
    """The connection breaks between two statements or during COMMIT. The batch is retried, or found already stored."""
    batch = NewBatch(
        app_no=scene.app.no,
        messages=tuple(factory.new_messages(scene.app.no, 3)),
        idempotency_key=b"key",
        idempotency_body=b"body",
    )
    async with deaf_line(database_url) as (url, line):
        store = await open_store(url, vault=vault, options=StoreOptions(pool_size=3))
        await store.pipeline.ingest_batch(msgspec.structs.replace(batch, messages=(), idempotency_key=b"to warm up"))
        line.after = lost
        accepted = await store.pipeline.ingest_batch(batch)
        again = await store.pipeline.ingest_batch(batch)
        await store.close()
    assert again.answers == accepted.answers
    assert len(accepted.answers) == await scene.raw.count("message") == 3


@pytest.mark.parametrize("lost", range(2, 7))
async def test_a_machine_that_vanishes_in_the_middle_of_a_batch_locks_no_key(
    scene: Scene, database_url: str, vault: Vault, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """The connection of the vanished machine stays open and silent."""
    monkeypatch.setitem(database._CACHED_PLANS, "idle_in_transaction_session_timeout", "1s")
    batch = NewBatch(
        app_no=scene.app.no,
        messages=(factory.new_message(scene.app.no, event_id="evt"),),
        idempotency_key=b"key",
        idempotency_body=b"body",
    )
    async with deaf_line(database_url) as (url, line):
        store = await open_store(url, vault=vault, options=StoreOptions(pool_size=3))
        other = factory.new_message(scene.app.no)
        await store.pipeline.ingest_batch(
            msgspec.structs.replace(batch, messages=(other,), idempotency_key=b"to warm up")
        )
        line.after = lost
        line.thawed.clear()
        vanished = asyncio.create_task(store.pipeline.ingest_batch(batch))
        await asyncio.wait_for(line.frozen.wait(), 60)
        accepted = await scene.store.pipeline.ingest_batch(batch)
        line.thawed.set()
        assert (await vanished).answers == accepted.answers
        await store.close()
    assert await scene.raw.count("message") == 2


class Line:
    """A proxy between a store and its server that can lose or delay responses."""

    def __init__(self) -> None:
        self.deaf = False  # drop the next response and its connection
        self.after = 0  # also drop the response with this number, counted from now; 0: none
        self.broken = False  # accept no new connections
        self.cut = 0
        self.frozen = asyncio.Event()  # set while a response is delayed
        self.thawed = asyncio.Event()  # set when delayed responses may continue
        self.thawed.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
        if self.broken:
            writer.transport.abort()
        else:
            await relay(reader, writer, host, port, back=self._back)

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            self.after -= 1
            if self.deaf or self.after == 0:
                self.deaf = False
                self.cut += 1
                self.frozen.set()
                await self.thawed.wait()
                return
            writer.write(data)


@asynccontextmanager
async def deaf_line(url: str) -> AsyncIterator[tuple[str, Line]]:
    line = Line()
    async with in_front_of(url, line.serve) as through:
        yield through, line


async def cut(scene: Scene) -> None:
    """Terminate the session that waits for the lock, once there is one."""
    async with asyncio.timeout(60):
        while not await scene.raw.rows(_END_WAITING):
            pass


_END_WAITING = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE wait_event_type = 'Lock' AND datname = current_database() AND query LIKE '%idempotency%'"
)
