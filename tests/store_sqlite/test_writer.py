"""The writer thread: operations that share a COMMIT, a full disk, and a lock that another process holds."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from hookline.errors import Conflict, NotFound, StoreUnavailable
from hookline.model.messages import IngestStatus
from hookline.store import Store
from hookline.store.plans.endpoints import Endpoints
from hookline.store.sqlite import SqliteStore, database, ingest, writer
from hookline.store.sqlite.transaction import Tx
from tests.support import factory
from tests.support.counts import count
from tests.support.scene import Scene


def file_of(database_url: str) -> Path:
    return Path(database_url.removeprefix("sqlite:///"))


@pytest.fixture
async def other(store: Store, database_url: str) -> AsyncIterator[sqlite3.Connection]:
    """A connection that SQLite treats like one of another process."""
    connection = sqlite3.connect(file_of(database_url), isolation_level=None, timeout=60)
    yield connection
    connection.close()


async def write(store: Store, work: Callable[[Tx], object]) -> object:
    assert isinstance(store, SqliteStore)
    return await store._db.write(work)


async def test_a_failed_operation_does_not_affect_others_of_the_same_commit(
    scene: Scene, other: sqlite3.Connection
) -> None:
    """All operations wait for the same lock, so they share one COMMIT."""
    other.execute("BEGIN IMMEDIATE")
    news = [factory.new_application(uid=uid) for uid in ("one", "two", "one", "three")]
    making = [
        asyncio.create_task(scene.store.catalogue.create_application(org_id, new))
        for new in news
        for org_id in (scene.organization.id, "org_nobody")
    ]
    await asyncio.sleep(0)
    other.execute("ROLLBACK")
    made = await asyncio.gather(*making, return_exceptions=True)
    assert [type(answer) for answer in made[1::2]] == [NotFound] * 4
    assert isinstance(made[4], Conflict)
    for place in (0, 2, 6):
        assert not isinstance(made[place], BaseException)
    for uid in ("one", "two", "three"):
        assert await scene.store.catalogue.application(scene.organization.id, uid) is not None


async def test_an_error_in_the_middle_of_an_operation_rolls_it_back(scene: Scene) -> None:
    def half(tx: Tx) -> None:
        tx.run("wake_lanes", (4711, 1, 1, None))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await write(scene.store, half)
    assert await scene.raw.count("wake") == 0
    await scene.endpoint()
    await scene.send()
    assert len(await scene.claim()) == 1


async def test_a_full_disk_is_an_outage_until_there_is_space_again(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    pages = await scene.raw.value("PRAGMA page_count")
    await write(scene.store, lambda tx: tx.conn.execute(f"PRAGMA max_page_count = {pages + 4}").fetchall())
    batch = factory.new_messages(scene.app.no, 20, payload=b'"%s"' % (b"y" * 9_000))
    with pytest.raises(StoreUnavailable, match="disk is full"):
        await scene.ingest(batch)
    assert await scene.raw.count("message") == await scene.raw.count("delivery") == await scene.raw.count("wake") == 0
    await write(scene.store, lambda tx: tx.conn.execute("PRAGMA max_page_count = 1073741823").fetchall())
    assert {answer.status for answer in await scene.ingest(batch)} == {IngestStatus.ACCEPTED}
    assert {job.endpoint_no for job in await scene.claim()} == {endpoint.no}
    assert await scene.raw.value("PRAGMA integrity_check") == "ok"


async def test_a_full_disk_fails_every_operation_of_the_transaction(scene: Scene, other: sqlite3.Connection) -> None:
    """Operations that ran earlier in the same transaction are rolled back too, so they must also raise an error."""
    await scene.endpoint()
    pages = await scene.raw.value("PRAGMA page_count")
    await write(scene.store, lambda tx: tx.conn.execute(f"PRAGMA max_page_count = {pages + 4}").fetchall())
    other.execute("BEGIN IMMEDIATE")
    small, large = b"1", b'"%s"' % (b"z" * 90_000)
    batches = [factory.new_messages(scene.app.no, 1, payload=payload) for payload in (small, large)]
    sending = [asyncio.create_task(scene.ingest(batch)) for batch in batches]
    await asyncio.sleep(0)
    other.execute("ROLLBACK")
    answers = await asyncio.gather(*sending, return_exceptions=True)
    accepted = sum(not isinstance(answer, BaseException) for answer in answers)
    assert isinstance(answers[1], StoreUnavailable)
    assert await scene.raw.count("message") == accepted


async def test_a_lock_that_is_held_too_long_is_an_outage(
    scene: Scene, other: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LOCK_SECONDS", 0.05)
    await scene.endpoint()
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="another process holds its lock"):
        await scene.send()
    assert (await count(scene.store)).pending == 0  # readers do not wait for the lock
    other.execute("ROLLBACK")
    await scene.send()
    assert len(await scene.claim()) == 1


async def test_another_process_can_write_in_between(scene: Scene, database_url: str) -> None:
    """A writer that never releases the lock would make the other process time out."""
    await scene.endpoint()
    code = (
        "import sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)\n"
        "for n in range(10):\n"
        "    c.execute('BEGIN IMMEDIATE')\n"
        "    c.execute('INSERT INTO wake (endpoint_no, at, floor) VALUES (?, 1, 1)', (9000 + n,))\n"
        "    c.execute('COMMIT')\n"
    )
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(file_of(database_url)))
    done = asyncio.create_task(child.wait())
    while not done.done():
        await asyncio.gather(*(scene.send(20) for _ in range(8)))
    assert await done == 0
    assert await scene.raw.count("wake", "endpoint_no >= 9000") == 10
    scene.broken_on_purpose = True


async def test_operations_queued_before_the_close_are_written(scene: Scene, second: Store) -> None:
    await scene.endpoint()
    queued = asyncio.create_task(second.pipeline.ingest(factory.new_messages(scene.app.no, 3)))
    await asyncio.sleep(0)
    await second.close()
    assert len(await queued) == 3
    assert (await count(scene.store)).pending == 3


async def test_work_that_has_not_begun_when_its_caller_gives_up_is_not_done(
    scene: Scene, other: sqlite3.Connection
) -> None:
    """The caller may try again, and would store its messages twice. The work of other callers goes on."""
    await scene.endpoint()
    other.execute("BEGIN IMMEDIATE")
    sending = asyncio.create_task(scene.send(2))
    await asyncio.sleep(0)
    sending.cancel()
    other.execute("ROLLBACK")
    await scene.send(3)
    assert len(await scene.claim()) == 3


async def test_a_new_endpoint_of_another_process_gets_the_next_message(scene: Scene, second: Store) -> None:
    """The fan-out caches endpoints. A commit of another process makes it read them again."""
    first = await scene.endpoint()
    await scene.send()
    later = await second.catalogue.create_endpoint(scene.app.no, factory.new_endpoint())
    (message,) = await scene.send()
    assert {found.endpoint_no for found in await scene.store.history.deliveries(message)} == {first.no, later.no}


async def test_an_endpoint_that_was_rolled_back_gets_nothing(scene: Scene) -> None:
    """The fan-out must not cache endpoints that it read in a transaction that was rolled back."""
    kept = await scene.endpoint()
    creates = Endpoints.create_endpoint.__wrapped__  # the function that creates an endpoint, without its transaction

    def fails(tx: Tx) -> None:
        database.run_steps(tx, creates(scene.store.catalogue, scene.app.no, factory.new_endpoint()))
        ingest._ingest(tx, factory.new_messages(scene.app.no, 1), None)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await write(scene.store, fails)
    await scene.send()
    assert [row["endpoint_no"] for row in await scene.raw.rows("SELECT endpoint_no FROM delivery")] == [kept.no]


async def test_the_search_for_failing_endpoints_does_not_wait_for_the_writer(
    scene: Scene, other: sqlite3.Connection
) -> None:
    """There may be many dead letters in a day. Counting them must not wait for the writer while there is nothing to
    pause."""
    await scene.endpoint()
    await scene.send(3)
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    other.execute("BEGIN IMMEDIATE")
    async with asyncio.timeout(60):
        report = await scene.store.upkeep.sweep_failing(pause_dead=3, disable_after=1e9)
    other.execute("ROLLBACK")
    assert (report.paused, report.disabled) == (0, 0)
    assert (await scene.store.upkeep.sweep_failing(pause_dead=2, disable_after=1e9)).paused == 1
