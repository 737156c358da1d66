"""The outbox on PostgreSQL: commits in any order, several relays, and how a sleeping relay is woken."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from hookline import clock
from hookline.engine.relay import OwnOutbox, Relay
from hookline.store import Page, Store
from hookline.store.outage import Outage
from hookline.store.postgres import outbox_listener as watching
from hookline.store.postgres.outbox_listener import OutboxWatch
from hookline.store.postgres.relay import accept_each, messages
from hookline.store.stages import no_hand_over
from tests.conftest import OpenStoreWith
from tests.store.test_relay import publish
from tests.store_postgres.plans import buffers, explain, explain_kept, keep, scanned
from tests.support.notifications import notifications
from tests.support.raw import RawPostgres
from tests.support.scene import Scene

SOON = 60.0
LONG = 120.0  # far longer than any test, so that a wait that only its timeout ends is a failure
PUBLISH = "SELECT hookline.publish($1, 'order.paid', '{}', ordering_key => $2, event_id => $3)"
LOCKS = (
    "SELECT l.pid, l.mode FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = 1214542 AND l.objid = $1 AND l.granted"
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
LEADER, ASLEEP = 2, 3


@pytest.fixture
async def connect(store: Store, database_url: str) -> AsyncIterator[Callable[[], Awaitable[asyncpg.Connection]]]:
    """Return a function that opens application sessions."""
    async with AsyncExitStack() as stack:

        async def connected() -> asyncpg.Connection:
            session = await asyncpg.connect(database_url)
            stack.push_async_callback(session.close, timeout=60)
            return session

        yield connected


Connect = Callable[[], Awaitable[asyncpg.Connection]]


async def put(session: asyncpg.Connection, scene: Scene, event_id: str, key: str | None = None) -> None:
    await session.execute(PUBLISH, scene.app.id, key, event_id)


@asynccontextmanager
async def relaying(*stores: Store) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        for store in stores:
            tasks.create_task(Relay(OwnOutbox(store), Outage(random.Random(4))).run(stop))
        try:
            yield
        finally:
            stop.set()


async def until(condition: Callable[[], Awaitable[Any]]) -> Any:
    """Poll until the condition holds. There is no event for changes of rows or locks by other sessions."""
    async with asyncio.timeout(SOON):
        while not (found := await condition()):
            await asyncio.sleep(0.002)
        return found


async def holders(scene: Scene, lock: int) -> list[int]:
    found = await scene.raw.rows(LOCKS, lock)
    return [row["pid"] for row in found if row["mode"] == "ExclusiveLock"]


async def asleep(scene: Scene) -> int:
    (pid,) = await until(lambda: holders(scene, ASLEEP))
    return int(pid)


async def events(scene: Scene) -> list[str]:
    return [row["event_id"] for row in await scene.raw.rows("SELECT event_id FROM message ORDER BY seq")]


async def arrived(scene: Scene, *event_ids: str) -> None:
    async def there() -> bool:
        return set(event_ids) <= set(await events(scene))

    await until(there)


# ── commits in any order ──


async def test_a_transaction_that_was_opened_first_and_commits_last_is_not_skipped(
    scene: Scene, connect: Connect
) -> None:
    early, late = await connect(), await connect()
    opened = early.transaction()
    await opened.start()
    await put(early, scene, "first-written")
    await put(late, scene, "first-committed")
    assert (await scene.store.pipeline.relay(10)).relayed == 1
    await opened.commit()
    assert (await scene.store.pipeline.relay(10)).relayed == 1
    assert await events(scene) == ["first-committed", "first-written"]


@pytest.mark.parametrize("constraints", ["DEFERRED", "IMMEDIATE"])
async def test_a_transaction_that_is_held_open_delays_only_its_own_rows(
    scene: Scene, connect: Connect, constraints: str
) -> None:
    """With IMMEDIATE constraints, the open transaction holds the shared lock of sleepers, so the relay cannot sleep."""
    slow, quick = await connect(), await connect()
    opened = slow.transaction()
    await opened.start()
    await slow.execute(f"SET CONSTRAINTS ALL {constraints}")
    await put(slow, scene, "slow", "key")
    async with relaying(scene.store):
        for n in range(5):
            await put(quick, scene, f"quick-{n}", "key" if n % 2 else None)
            await arrived(scene, f"quick-{n}")
        assert "slow" not in await events(scene)
        await opened.commit()
        await arrived(scene, "slow")


async def test_a_two_phase_commit_needs_notification_off(connect: Connect, scene: Scene) -> None:
    """PREPARE TRANSACTION refuses a transaction that used NOTIFY, so the application must turn notification off."""
    session = await connect()
    async with relaying(scene.store):
        await asleep(scene)
        await session.execute("BEGIN")
        await put(session, scene, "refused")
        with pytest.raises(asyncpg.FeatureNotSupportedError, match="PREPARE"):
            await session.execute("PREPARE TRANSACTION 'refused'")
        await session.execute("BEGIN")
        await session.execute("SET LOCAL hookline.notify = off")
        await put(session, scene, "prepared")
        await session.execute("PREPARE TRANSACTION 'taken'")
        await put(await connect(), scene, "meanwhile")
        await arrived(scene, "meanwhile")
        await session.execute("COMMIT PREPARED 'taken'")
        await arrived(scene, "prepared")
    assert "refused" not in await events(scene)


# ── several relays ──


async def test_several_relays_move_each_row_once_and_keep_the_order_of_keys(
    scene: Scene, connect: Connect, open_store_with: OpenStoreWith, options: Any
) -> None:
    stores = [scene.store, *[await open_store_with(options) for _ in range(3)]]
    publishers, each = 6, 30

    async def publishing(number: int) -> None:
        session = await connect()
        for n in range(each):
            async with session.transaction():
                await put(session, scene, f"plain-{number}-{n}")
                await put(session, scene, f"key-{number}-{n:03}", f"k{number}")

    async with relaying(*stores):
        await asyncio.gather(*map(publishing, range(publishers)))
        await until(lambda: _empty(scene))
    found = await events(scene)
    assert len(found) == len(set(found)) == 2 * publishers * each
    by_key: dict[str, list[str]] = defaultdict(list)
    for event_id in found:
        if event_id.startswith("key"):
            by_key[event_id.rpartition("-")[0]].append(event_id)
    assert all(ids == sorted(ids) for ids in by_key.values())


async def _empty(scene: Scene) -> bool:
    return await scene.raw.count("outbox") == 0


@pytest.mark.parametrize("count", [3, 60, 500])
async def test_rows_with_a_key_wait_while_another_relay_holds_the_guard_lock(
    scene: Scene, other: RawPostgres, count: int
) -> None:
    for n in range(count):
        await publish(scene.raw, scene.app.id, event_id=f"evt-{n}", ordering_key="k" if n % 3 == 0 else None)
    keyed = (count + 2) // 3
    async with other.connection.transaction():
        await other.execute("SELECT pg_advisory_xact_lock(1214542, 1)")
        assert (await scene.store.pipeline.relay(500)).relayed == count - keyed
        assert (await scene.store.pipeline.relay(500)).relayed == 0
    assert (await scene.store.pipeline.relay(500)).relayed == keyed
    assert (await events(scene))[-keyed:] == [f"evt-{n}" for n in range(0, count, 3)]


@pytest.mark.parametrize("count", [3, 500])
async def test_rows_that_another_relay_has_locked_are_skipped(scene: Scene, other: RawPostgres, count: int) -> None:
    for n in range(count):
        await publish(scene.raw, scene.app.id, event_id=f"evt-{n}")
    async with other.connection.transaction():
        await other.rows("SELECT id FROM outbox ORDER BY id LIMIT 2 FOR UPDATE")
        assert (await scene.store.pipeline.relay(500)).relayed == count - 2
    assert (await scene.store.pipeline.relay(500)).relayed == 2


def relay_of(store: Any) -> Any:
    """Return the object that relays rows."""
    return store.pipeline.relay.__self__


async def test_no_row_is_lost_when_its_application_is_deleted_between_the_read_and_the_move(scene: Scene) -> None:
    store: Any = scene.store
    await publish(scene.raw, scene.app.id)
    async with store._db.indexed() as connection:
        found = await relay_of(store)._read(connection, "relay_find", True, 0, 10)
        await store.catalogue.delete_application(scene.app.no)
        assert await relay_of(store)._move_few(connection, messages(found, clock.wall(), 1000)[0], no_hand_over) == (
            0,
            0,
        )
    assert (await scene.store.pipeline.relay(10)).set_aside == 1
    assert await scene.raw.count("outbox") == 1


async def test_no_row_is_lost_when_its_application_is_deleted_while_many_are_moved(scene: Scene) -> None:
    store: Any = scene.store
    await publish(scene.raw, scene.app.id)
    faults: dict[int, str] = {}
    async with store._db.indexed() as connection, connection.transaction():
        found = await relay_of(store)._read(connection, "relay_rows", True, 0, 10)
        await store.catalogue.delete_application(scene.app.no)
        assert (
            await accept_each(relay_of(store)._ingest, connection, messages(found, clock.wall(), 1000)[0], faults) == {}
        )
    assert faults == {found[0][0].id: "no such application"}


async def test_a_row_that_another_relay_set_aside_after_the_read_stays_set_aside(scene: Scene) -> None:
    store: Any = scene.store
    await publish(scene.raw, scene.app.id)
    async with store._db.indexed() as connection:
        found = await relay_of(store)._read(connection, "relay_find", True, 0, 10)
        await scene.raw.execute("UPDATE outbox SET error = 'a fault', set_aside_at = now()")
        assert await relay_of(store)._move_few(connection, messages(found, clock.wall(), 1000)[0], no_hand_over) == (
            0,
            0,
        )
    assert [one.reason for one in await scene.store.repair.set_aside(Page())] == ["a fault"]
    assert await scene.raw.count("message") == 0


# ── invalid rows ──


@pytest.mark.parametrize("count", [10, 500])
async def test_a_row_that_only_the_database_refuses_is_set_aside_alone(scene: Scene, count: int) -> None:
    await scene.raw.execute("ALTER TABLE message ADD CONSTRAINT sober CHECK (event_type <> 'poison')")
    poisoned = {count // 3, count - 1}
    for n in range(count):
        event_type = "poison" if n in poisoned else "order.paid"
        await publish(scene.raw, scene.app.id, event_id=f"evt-{n}", event_type=event_type)
    report = await scene.store.pipeline.relay(500)
    assert (report.relayed, report.repeated, report.set_aside) == (count - 2, 0, 2)
    kept = await scene.store.repair.set_aside(Page())
    assert [each.event_id for each in kept] == [f"evt-{n}" for n in sorted(poisoned)]
    assert all("sober" in each.reason for each in kept)


GARBAGE: list[tuple[str, str]] = [
    ("channels = '{{a,b},{c,d}}'", "channels: is not a plain list of texts"),
    ("channels = '{a,NULL}'", "channels: is not a plain list of texts"),
    ("tags = '{{a},{b}}'", "tags: is not a plain list of texts"),
    ("deliver_at = '4713-01-01 BC'", "deliver_at: is not between the years 2000 and 3000"),
    ("deliver_at = 'infinity'", "deliver_at: is not between the years 2000 and 3000"),
    ("deliver_at = '-infinity', created_at = '-infinity'", "deliver_at: is not between the years 2000 and 3000"),
    ("created_at = '4713-01-01 BC', app = ''", "no such application: "),
    ("created_at = 'infinity', app = ''", "no such application: "),
    ("payload = ''", "payload: is not JSON"),
    ("payload = '\\x00'", "payload: is not JSON"),
    ("payload = convert_to(repeat('x', 3000000), 'UTF8')", "payload: 3000000 bytes, more than 1048576"),
    ("event_type = ''", "event type: "),
    ("event_type = repeat('x', 100000)", "event type: "),
    ("event_id = E'a\\nb'", "event_id: "),
    ("policy = '[]'", "the policy cannot be used"),
    ("policy = '{\"max_age\": 1e300}'", "policy.max_age: "),
    (
        "policy = ('{\"schedule\": ' || repeat('[', 5000) || repeat(']', 5000) || '}')::jsonb",
        "the policy cannot be used",
    ),
    ("org_id = 'org_nobody'", "no such application: "),
]


@pytest.mark.parametrize(("change", "reason"), GARBAGE, ids=[change for change, _ in GARBAGE])
async def test_invalid_rows_are_set_aside_and_the_others_are_relayed(scene: Scene, change: str, reason: str) -> None:
    for name in ("before", "bad", "after"):
        await publish(scene.raw, scene.app.id, event_id=name)
    await scene.raw.execute(f"UPDATE outbox SET {change} WHERE event_id = 'bad'")
    report = await scene.store.pipeline.relay(10)
    assert (report.relayed, report.set_aside) == (2, 1)
    (kept,) = await scene.store.repair.set_aside(Page())
    assert kept.reason.startswith(reason)
    await scene.store.repair.outbox()
    assert await scene.store.repair.retry_set_aside(None) == 1
    await scene.store.repair.outbox()
    assert (await scene.store.pipeline.relay(500)).set_aside == 1


async def test_large_payloads_are_read_a_few_at_a_time(scene: Scene) -> None:
    await scene.raw.execute(
        "INSERT INTO outbox (app, event_type, payload)"
        " SELECT $1, 'order.paid', convert_to('\"' || repeat('x', 1000000) || '\"', 'UTF8') FROM generate_series(1, 40)",
        scene.app.id,
    )
    found = [(await scene.store.pipeline.relay(500)).relayed for _ in range(4)]
    assert found == [17, 17, 6, 0]


# ── sleep ──


@pytest.fixture
async def watch(store: Store, database_url: str) -> AsyncIterator[OutboxWatch]:
    """An outbox watch that does not poll during a test."""
    found = OutboxWatch(lambda: asyncpg.connect(database_url), poll=LONG)
    yield found
    await found.close()


async def fall_asleep(watch: OutboxWatch) -> asyncio.Task[None]:
    """The first wait returns at once, because the relay reads the outbox once more before it sleeps."""
    await asyncio.wait_for(watch.wait(LONG), SOON)
    return asyncio.create_task(watch.wait(LONG))


async def test_a_publisher_notifies_only_a_sleeping_relay(scene: Scene, connect: Connect, watch: OutboxWatch) -> None:
    session = await connect()
    async with notifications(scene.url, "hookline_outbox") as heard:
        await put(session, scene, "nobody-there")
    assert heard == []
    sleeping = await fall_asleep(watch)
    async with notifications(scene.url, "hookline_outbox") as heard:
        async with session.transaction():
            for n in range(50):
                await put(session, scene, f"evt-{n}")
        await asyncio.wait_for(sleeping, SOON)
        await until(lambda: _awake(scene))
        for n in range(5):
            await put(session, scene, f"awake-{n}")
    assert heard == [""]


async def _awake(scene: Scene) -> bool:
    return not await holders(scene, ASLEEP)


async def test_rows_that_are_set_aside_or_rolled_back_do_not_wake_the_relay(
    scene: Scene, connect: Connect, watch: OutboxWatch
) -> None:
    session = await connect()
    sleeping = await fall_asleep(watch)
    async with notifications(scene.url, "hookline_outbox") as heard:
        await scene.raw.execute(
            "INSERT INTO outbox (app, event_type, payload, error) VALUES ('x', 'x', 'x', 'a fault')"
        )
        await session.execute("BEGIN")
        await put(session, scene, "never")
        await session.execute("ROLLBACK")
    assert heard == []
    sleeping.cancel()


async def test_a_relay_cannot_fall_asleep_before_a_commit_that_sent_no_notification(
    scene: Scene, connect: Connect, watch: OutboxWatch
) -> None:
    session = await connect()
    await session.execute("BEGIN")
    await session.execute("SET CONSTRAINTS ALL IMMEDIATE")
    await put(session, scene, "evt")
    for _ in range(3):
        await asyncio.wait_for(watch.wait(LONG), SOON)  # the relay reads again soon
    assert await _awake(scene)
    await session.execute("COMMIT")
    await asyncio.wait_for(watch.wait(LONG), SOON)
    await asleep(scene)


async def test_another_relay_becomes_leader_when_the_leader_dies(scene: Scene, second: Store, connect: Connect) -> None:
    session = await connect()
    async with relaying(scene.store, second):
        first = await asleep(scene)
        assert await holders(scene, LEADER) == [first]
        await put(session, scene, "before")
        await arrived(scene, "before")
        await session.execute("SELECT pg_terminate_backend($1)", first)
        heir = await until(lambda: _leader_but(scene, first))
        await put(session, scene, "after")
        await arrived(scene, "after")
    assert heir != first
    await until(lambda: _led_by_nobody(scene))


async def _led_by_nobody(scene: Scene) -> bool:
    return not await holders(scene, LEADER)


async def _leader_but(scene: Scene, dead: int) -> int | None:
    found = [pid for pid in await holders(scene, LEADER) if pid != dead]
    return found[0] if found else None


async def test_only_the_leader_listens(scene: Scene, watch: OutboxWatch, connect: Connect) -> None:
    sleeping = await fall_asleep(watch)
    standby = OutboxWatch(connect, poll=LONG)
    waiting = asyncio.create_task(standby.wait(LONG))
    await until(lambda: _asked_to_lead(scene))
    await put(await connect(), scene, "evt")
    await asyncio.wait_for(sleeping, SOON)
    assert not waiting.done()
    waiting.cancel()
    await standby.close()


async def _asked_to_lead(scene: Scene) -> bool:
    found = await scene.raw.rows(
        "SELECT FROM pg_stat_activity WHERE query LIKE '%advisory_lock(1214542, 2)' AND state = 'idle'"
        " AND datname = current_database()"
    )
    return len(found) == 1


async def test_another_relay_becomes_leader_when_the_leader_stops(
    scene: Scene, watch: OutboxWatch, database_url: str
) -> None:
    sleeping = await fall_asleep(watch)
    first = await asleep(scene)
    sleeping.cancel()
    await watch.close()
    heir = OutboxWatch(lambda: asyncpg.connect(database_url), poll=LONG)
    resting = await fall_asleep(heir)
    assert await asleep(scene) != first
    resting.cancel()
    await heir.close()


async def test_a_session_that_the_network_lost_is_detected_and_replaced(
    scene: Scene, watch: OutboxWatch, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session receives nothing more, and there is no error."""
    sleeping = await fall_asleep(watch)
    first = await asleep(scene)
    sleeping.cancel()
    await asyncio.wait([sleeping])
    watch._check_at = 0.0  # set only now, because a wait that is cancelled during its query closes the session
    session: Any = watch._session
    session._transport.pause_reading()
    with capture_logs() as said, monkeypatch.context() as impatient:
        impatient.setattr(watching, "_ANSWER", 0.2)
        await asyncio.wait_for(watch.wait(0.01), SOON)
    assert [entry["event"] for entry in said] == ["outbox_polled_only"]
    watch._connect_at = 0.0
    # the server ends the session, as its keepalive would
    await (await connect()).execute("SELECT pg_terminate_backend($1)", first)
    await until(lambda: _awake(scene))
    sleeping = await fall_asleep(watch)
    assert await asleep(scene) != first
    sleeping.cancel()


async def test_a_wait_that_is_cancelled_while_it_requests_a_lock_closes_its_session() -> None:
    """The server may grant the lock after the wait was cancelled, and nothing would release it."""
    asking, ended = asyncio.Event(), asyncio.Event()

    class Asked:
        async def fetchval(self, *_: object, **__: object) -> None:
            asking.set()
            await asyncio.Event().wait()

        def add_termination_listener(self, _: object) -> None: ...

        def terminate(self) -> None:
            ended.set()

    async def connected() -> Asked:
        return Asked()

    waiting = asyncio.create_task(OutboxWatch(connected, poll=LONG).wait(LONG))
    await asking.wait()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert ended.is_set()


async def test_a_failure_to_connect_is_logged_once_and_polling_continues() -> None:
    async def refused() -> None:
        raise OSError("refused")

    lonely = OutboxWatch(refused, poll=0.001)
    with capture_logs() as said:
        for _ in range(5):
            await asyncio.wait_for(lonely.wait(LONG), SOON)
    assert [entry["event"] for entry in said] == ["outbox_polled_only"]


# ── cost ──


async def test_moving_rows_scans_no_table(scene: Scene) -> None:
    await scene.endpoint()
    await scene.raw.execute(
        "INSERT INTO outbox (app, event_type, payload) SELECT $1, 'order.paid', '{}' FROM generate_series(1, 20000)",
        scene.app.id,
    )
    await scene.raw.execute("ANALYZE")
    store: Any = scene.store
    picked = ("org", True, 0, 20, 10**7, 10**6)
    for name in ("relay_find", "relay_rows"):
        plan = await explain(store, name, *picked)
        assert scanned(plan) <= {"application", "organization"}, name  # tables with a handful of rows
        assert buffers(plan) < 300, name
    row_id = await scene.raw.value("SELECT max(id) FROM outbox")
    plan = await explain(store, "relay_move", *moved(scene, row_id))
    assert scanned(plan) <= {"application", "endpoint"}
    assert buffers(plan) < 300


async def test_plans_kept_from_empty_tables_are_good_for_full_ones(scene: Scene) -> None:
    await scene.endpoint()
    store: Any = scene.store
    kept = ("relay_find", ("org", True, 0, 20, 10**7, 10**6)), ("relay_move", moved(scene, 1))

    async def prepare(connection: asyncpg.Connection) -> None:
        for name, given in kept:
            await keep(connection, store, name, *given)

    async def cost(connection: asyncpg.Connection) -> int:
        row_id = await scene.raw.value("SELECT max(id) FROM outbox")
        now = kept[0], ("relay_move", moved(scene, row_id))
        return sum([buffers(await explain_kept(connection, name, *given)) for name, given in now])

    await store._db.alone(prepare, cached_plans=True)
    await fill(scene)
    assert await store._db.alone(cost, cached_plans=True) < 500
    store._db._plan_at.clear()  # the plans are too old, so they are made again
    assert await store._db.alone(cost, cached_plans=True) < 500


def moved(scene: Scene, row_id: int) -> tuple[Any, ...]:
    one: list[list[Any]] = [["msg_1"], [scene.app.no], ["order.paid"], [b"{}"], ["evt"]]
    return (*one, *[[None]] * 6, [row_id], 3600.0, "{}", None, None, 60.0)


async def fill(scene: Scene) -> None:
    """Insert many rows without ANALYZE."""
    await scene.raw.execute(
        "INSERT INTO application (id, org_id, name) SELECT 'app_x' || n, $1, 'x' FROM generate_series(1, 5000) n",
        scene.organization.id,
    )
    await scene.raw.execute(
        "INSERT INTO endpoint (id, app_no, url, secrets)"
        " SELECT 'ep_x' || no, no, 'http://127.0.0.1', '' FROM application WHERE id LIKE 'app_x%'"
    )
    await scene.raw.execute(
        "INSERT INTO outbox (app, event_type, payload) SELECT $1, 'order.paid', '{}' FROM generate_series(1, 20000)",
        scene.app.id,
    )


async def test_a_long_transaction_elsewhere_does_not_slow_the_read_of_new_rows(
    scene: Scene, other: RawPostgres
) -> None:
    """A long transaction keeps deleted rows in the index. Rows with a lower id are found by the next full scan."""
    store: Any = scene.store
    async with other.connection.transaction(isolation="repeatable_read"):
        await other.value("SELECT count(*) AS n FROM outbox")
        await scene.raw.execute(
            "INSERT INTO outbox (app, event_type, payload) SELECT 'x', 'x', '{}' FROM generate_series(1, 20000)"
        )
        await scene.raw.execute("DELETE FROM outbox")
        await publish(scene.raw, scene.app.id, event_id="new")
        row_id = await scene.raw.value("SELECT max(id) FROM outbox")
        whole = buffers(await explain(store, "relay_find", "org", True, 0, 20, 10**7, 10**6))
        near = buffers(await explain(store, "relay_find", "org", False, row_id - 1000, 20, 10**7, 10**6))
    assert near < whole / 4
