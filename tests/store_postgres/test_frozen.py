"""PostgreSQL hangs: its processes are stopped with SIGSTOP. Nobody waits for it longer than a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from hookline.clock import monotonic
from hookline.errors import StoreUnavailable
from hookline.model.deliveries import SlotBudgets
from hookline.model.messages import IngestStatus
from hookline.security.vault import Vault
from hookline.store import Store, StoreOptions, open_store
from hookline.store.patience import waiting_at_most
from hookline.store.postgres import database
from tests.support import factory
from tests.support.postgres import PostgresServer, private_server

LATE = 15.0  # the deadlines of these tests are one second; a busy machine may need longer

Call = Callable[[], Awaitable[object]]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with private_server() as started:
        yield started


@asynccontextmanager
async def opened(server: PostgresServer, vault: Vault) -> AsyncIterator[Store]:
    store = await open_store(server.url("postgres"), vault=vault, options=StoreOptions(pool_size=3))
    await store.migrate()
    yield store
    began = monotonic()
    await store.close()
    assert monotonic() - began < LATE


@pytest.fixture
async def own(server: PostgresServer, vault: Vault) -> AsyncIterator[Store]:
    async with opened(server, vault) as store:
        yield store


@pytest.fixture
async def hasty(server: PostgresServer, vault: Vault, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    """A store whose statements and connection attempts may take one second."""
    monkeypatch.setattr(database, "_INDEXED_TIMEOUT", 1.0)
    monkeypatch.setattr(database, "_ANY_SCAN_TIMEOUT", 1.0)
    monkeypatch.setattr(database, "_CONNECT_TIMEOUT", 1.0)
    async with opened(server, vault) as store:
        yield store


async def fails_soon(call: Call) -> None:
    began = monotonic()
    with pytest.raises(StoreUnavailable):
        await call()
    assert monotonic() - began < LATE


async def test_a_caller_waits_no_longer_than_its_limit(own: Store, server: PostgresServer) -> None:
    await own.now()
    with server.frozen():
        for call in (own.now, own.history.lanes, own.upkeep.retire):  # one statement, a plan, a transaction
            with waiting_at_most(1.0):
                await fails_soon(call)
    await own.now()


async def test_after_one_call_that_took_too_long_the_caller_waits_no_more(own: Store, server: PostgresServer) -> None:
    with server.frozen(), waiting_at_most(1.0):
        await fails_soon(own.now)
        began = monotonic()
        for _ in range(20):
            with pytest.raises(StoreUnavailable):
                await own.now()
        assert monotonic() - began < LATE  # the 20 calls together take less than 20 times the limit


async def test_statements_of_a_worker_have_a_deadline(hasty: Store, server: PostgresServer) -> None:
    org = await hasty.catalogue.save_organization(factory.organization())
    app = await hasty.catalogue.create_application(org.id, factory.new_application())
    await hasty.catalogue.create_endpoint(app.no, factory.new_endpoint())
    await hasty.pipeline.ingest(factory.new_messages(app.no, 4))
    jobs = (await hasty.pipeline.claim(2, SlotBudgets(lane_limit=2))).jobs
    results = factory.all_delivered(jobs)
    with server.frozen():
        for call in (
            lambda: hasty.pipeline.claim(5, SlotBudgets(lane_limit=5)),
            lambda: hasty.pipeline.record(results),
            lambda: hasty.pipeline.relay(5),
            hasty.pipeline.arm,
            hasty.upkeep.sweep_leases,
            hasty.upkeep.retire,
        ):
            await fails_soon(call)
        await hasty.pipeline.wait_outbox(0.0)  # a relay that cannot listen polls instead
    # A statement that the server had already got may have been executed when it continued.
    report = await hasty.pipeline.record(results)
    assert report.recorded + report.stale == 2
    assert await hasty.pipeline.arm()


async def test_a_message_of_an_abandoned_commit_is_stored_once_when_it_is_sent_again(
    own: Store, server: PostgresServer
) -> None:
    org = await own.catalogue.save_organization(factory.organization())
    app = await own.catalogue.create_application(org.id, factory.new_application())
    await own.pipeline.ingest([factory.new_message(app.no)])  # from now on, ingest takes one round trip
    message = factory.new_message(app.no, idempotency_key=b"frozen", idempotency_body=b"body")
    with server.frozen(), waiting_at_most(1.0):
        await fails_soon(lambda: own.pipeline.ingest([message]))
    (answer,) = await own.pipeline.ingest([message])
    assert answer.status in (IngestStatus.ACCEPTED, IngestStatus.REPLAYED)
    assert answer.message_id == message.id


async def test_a_cancelled_call_ends_at_once_and_stays_cancelled(own: Store, server: PostgresServer) -> None:
    """It is cancelled within a transaction. The ROLLBACK finds a dropped connection, and its error is not raised."""
    async with locked_organizations(server) as waiting:
        call = asyncio.create_task(own.catalogue.save_organization(factory.organization()))
        await waiting(1)
        with server.frozen():
            call.cancel()
            await asyncio.wait({call}, timeout=LATE)
            assert call.cancelled()
    await own.now()


async def test_the_server_ends_a_statement_that_its_caller_gave_up(own: Store, server: PostgresServer) -> None:
    """Otherwise callers that give up and try again would fill the server with slow statements."""
    async with locked_organizations(server) as waiting:
        with waiting_at_most(2.0):
            call = asyncio.create_task(own.catalogue.organization("org_none"))
        await waiting(1)
        with pytest.raises(StoreUnavailable):
            await call
        await waiting(0)


@asynccontextmanager
async def locked_organizations(server: PostgresServer) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    """Lock a table. Yield a function that waits until the given number of statements wait for a lock."""
    locking, watching = [await asyncpg.connect(server.url("postgres")) for _ in range(2)]

    async def waiting(count: int) -> None:
        async with asyncio.timeout(60):
            while await watching.fetchval(_WAITING) != count:
                await asyncio.sleep(0.05)  # the server has no event for a statement that waits or ends

    try:
        await locking.execute("BEGIN; LOCK TABLE hookline.organization IN ACCESS EXCLUSIVE MODE")
        yield waiting
    finally:
        locking.terminate()
        watching.terminate()


_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
