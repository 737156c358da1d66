"""The relay from the outbox of another PostgreSQL database: every row becomes one message, whichever process dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

import asyncpg
import pytest
import structlog

from hookline import clock
from hookline.engine.relay import Relay
from hookline.engine.sources import postgres
from hookline.engine.sources.postgres import PostgresSource
from hookline.engine.sources.setup import install
from hookline.engine.sources.status import examine
from hookline.errors import SourceUnavailable, StoreUnavailable
from hookline.model.outbox import RelayReport
from hookline.model.policy import PolicyOverride
from hookline.store import Page, Store
from hookline.store.outage import Outage
from hookline.store.postgres import relay
from tests.support import factory
from tests.support.manual_clock import ManualClock
from tests.support.postgres import Databases, PostgresServer, private_server
from tests.support.scene import Scene
from tests.support.shop_database import CRASH_AT_COMMIT, CRASH_AT_DELETE, ShopDatabase

OpenSource = Callable[[], PostgresSource]

# Hookline's own database is SQLite here: these tests are about the source, not about how a store takes rows.
one_engine = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
async def open_source(store: Store, shop_url: str) -> AsyncIterator[OpenSource]:
    async with AsyncExitStack() as opened:

        def open_one() -> PostgresSource:
            source = PostgresSource(shop_url, store, poll=0.02)
            opened.push_async_callback(source.close)
            return source

        yield open_one


@pytest.fixture
def source(open_source: OpenSource) -> PostgresSource:
    return open_source()


async def messages(scene: Scene) -> list[str]:
    """Return the event ids of all messages, in the order in which they were accepted."""
    return [row["event_id"] for row in await scene.raw.rows("SELECT event_id FROM message ORDER BY seq")]


async def test_every_field_of_a_row_is_in_its_message(scene: Scene, shop: ShopDatabase, source: PostgresSource) -> None:
    await scene.endpoint(channels=("eu",))
    deliver_at = await scene.store.now() + timedelta(hours=5)
    (event_id,) = await shop.publish(
        scene.app.id,
        event_type="order.shipped",
        channels=["eu", "us"],
        tags=["red"],
        ordering_key="customer-4",
        deliver_at=deliver_at,
        max_age=timedelta(seconds=60.5),
        organization=scene.organization.id,
        trace=TRACE,
    )
    assert await source.move(10) == RelayReport(relayed=1)
    found = await scene.store.history.message(scene.app.no, event_id)
    assert found is not None
    assert found.event_type == "order.shipped"
    assert (found.channels, found.tags, found.ordering_key) == (("eu", "us"), ("red",), "customer-4")
    assert (found.deliver_at, found.policy) == (deliver_at, PolicyOverride(max_age=60.5))
    assert (await scene.raw.rows("SELECT trace FROM message")) == [{"trace": TRACE}]
    assert len(await scene.store.history.deliveries(found.id)) == 1
    assert await shop.waiting() == 0


async def test_the_time_budget_counts_from_publish_by_the_clock_of_the_source(
    scene: Scene, shop: ShopDatabase, source: PostgresSource
) -> None:
    await scene.endpoint()
    ages = {}
    for age in ("200 s", "-1 hour"):
        (event_id,) = await shop.publish(scene.app.id, max_age=timedelta(seconds=300))
        ages[age] = event_id
        await shop.connection.execute(
            f"UPDATE hookline.outbox SET created_at = now() - interval '{age}' WHERE event_id = $1", event_id
        )
    (endless,) = await shop.publish(scene.app.id, max_age=timedelta(seconds=300))
    await shop.connection.execute("UPDATE hookline.outbox SET created_at = '-infinity' WHERE event_id = $1", endless)
    assert (await source.move(10)).relayed == 3
    jobs = {job.message_id: job for job in await scene.claim_all()}
    left = {}
    for age, event_id in ages.items():
        message = await scene.store.history.message(scene.app.no, event_id)
        assert message is not None
        left[age] = (jobs[message.id].expires_at - await scene.store.now()).total_seconds()
    assert left["200 s"] == pytest.approx(100, abs=30)
    assert left["-1 hour"] == pytest.approx(300, abs=30)
    assert len(jobs) == 2  # the third event is too old
    assert await scene.raw.count("dead_letter", "reason = 'budget_exhausted'") == 1


async def test_an_empty_outbox_gives_no_messages(source: PostgresSource) -> None:
    assert await source.move(10) == RelayReport()


@one_engine
async def test_no_more_than_the_limit_is_taken(scene: Scene, shop: ShopDatabase, source: PostgresSource) -> None:
    await shop.publish(scene.app.id, 5)
    assert [(await source.move(2)).gone for _ in range(4)] == [2, 2, 1, 0]


@one_engine
async def test_large_payloads_are_read_in_small_batches(
    scene: Scene, shop: ShopDatabase, source: PostgresSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "MAX_BYTES", 1000)
    for size in (400, 400, 400, 4000, 4000, 1):
        await shop.write(scene.app.id, payload=f"convert_to('\"' || repeat('x', {size}) || '\"', 'UTF8')")
    reports = [await source.move(10) for _ in range(5)]
    assert [(report.gone, report.more) for report in reports] == [
        (3, True),
        (1, True),
        (1, True),
        (1, False),
        (0, False),
    ]


# ── crashes ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("trigger", [CRASH_AT_DELETE, CRASH_AT_COMMIT], ids=["at delete", "at commit"])
async def test_rows_whose_relay_is_killed_after_the_copy_are_one_message_each(
    scene: Scene, shop: ShopDatabase, source: PostgresSource, trigger: str
) -> None:
    published = await shop.publish(scene.app.id, 7)
    await shop.crash_relays(trigger, times=2)
    for _ in range(2):
        with pytest.raises(SourceUnavailable):
            await source.move(10)
        assert await shop.waiting() == 7
    report = await source.move(10)
    assert (report.relayed, report.repeated) == (0, 7)
    assert await messages(scene) == published
    assert await shop.waiting() == 0


async def test_rows_that_cannot_be_messages_are_set_aside_once_however_often_they_are_copied(
    scene: Scene, shop: ShopDatabase, source: PostgresSource
) -> None:
    await shop.publish("nobody", 2)
    await shop.crash_relays(CRASH_AT_COMMIT, times=1)
    with pytest.raises(SourceUnavailable):
        await source.move(10)
    report = await source.move(10)
    assert (report.repeated, report.set_aside) == (2, 0)
    assert len(await scene.store.repair.set_aside(Page())) == 2
    assert await shop.waiting() == 0


@one_engine
async def test_rows_stay_in_the_outbox_while_hooklines_database_is_down(
    scene: Scene, shop: ShopDatabase, source: PostgresSource
) -> None:
    await shop.publish(scene.app.id)
    closed = PostgresSource(shop.url, _Away(), poll=0.02)  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailable):
        await closed.move(10)
    assert await shop.waiting() == 1
    await closed.close()
    assert (await source.move(10)).relayed == 1


class _Away:
    @property
    def pipeline(self) -> _Away:
        return self

    async def take(self, *_: object, **__: object) -> RelayReport:
        raise StoreUnavailable("Hookline's database is away")


@one_engine
async def test_the_relay_continues_after_an_outage_of_the_source(scene: Scene) -> None:
    with private_server() as server:
        url = server.url("postgres")
        await install(url)
        async with ShopDatabase.open(url) as shop:
            published = await shop.publish(scene.app.id, 3)
        server.stop()
        with structlog.testing.capture_logs() as logs:
            async with relaying(PostgresSource(url, scene.store, poll=0.02)):
                await until(lambda: any(line["event"] == "outbox_away" for line in logs))
                server.start()
                await until_messages(scene, 3)
            async with ShopDatabase.open(url) as shop, relaying(PostgresSource(url, scene.store, poll=0.02)):
                published += await shop.publish(scene.app.id, 2)
                await until_messages(scene, 5)
                await asyncio.to_thread(server.restart)
                async with ShopDatabase.open(url) as again:
                    published += await again.publish(scene.app.id, 2)
                    await until_messages(scene, 7)
    assert await messages(scene) == published
    assert url not in str(logs)


@asynccontextmanager
async def relaying(source: PostgresSource) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(Relay(source, Outage(clock.chance)).run(stop))
    try:
        yield
    finally:
        stop.set()
        await task


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not done():
            await asyncio.sleep(0.01)  # the relay has no event for this


async def until_messages(scene: Scene, count: int) -> None:
    async with asyncio.timeout(60):
        while await scene.raw.count("message") < count:
            await asyncio.sleep(0.01)  # another task does the work


# ── set-up ────────────────────────────────────────────────────────────────────────────────────────────────────────


@one_engine
async def test_an_outbox_that_is_not_set_up_yet_is_found_when_it_is(
    scene: Scene, postgres: PostgresServer, postgres_databases: Databases
) -> None:
    name = postgres_databases.create()
    source = PostgresSource(postgres.url(name), scene.store, poll=0.02)
    with pytest.raises(SourceUnavailable, match="hookline migrate"):
        await source.move(10)
    assert await install(postgres.url(name))
    assert not await install(postgres.url(name))
    async with ShopDatabase.open(postgres.url(name)) as shop:
        await shop.publish(scene.app.id)
        assert (await source.move(10)).relayed == 1
        await shop.connection.execute("DROP TABLE hookline.outbox")
        with pytest.raises(SourceUnavailable, match="hookline migrate"):
            await source.move(10)
    await source.close()
    postgres_databases.drop(name)


@one_engine
async def test_the_database_of_a_hookline_is_no_source(
    store: Store, postgres: PostgresServer, postgres_databases: Databases, postgres_template: str
) -> None:
    name = postgres_databases.create(postgres_template)
    source = PostgresSource(postgres.url(name), store, poll=0.02)
    with pytest.raises(SourceUnavailable, match="a database of Hookline itself"):
        await source.move(10)
    postgres_databases.drop(name)


@one_engine
async def test_a_role_without_rights_gets_a_clear_error(scene: Scene, shop: ShopDatabase) -> None:
    role = f"stranger_{factory.number()}"
    await shop.connection.execute(f"CREATE ROLE {role} LOGIN")
    source = PostgresSource(shop.url.replace("//hookline@", f"//{role}@"), scene.store, poll=0.02)
    try:
        with pytest.raises(SourceUnavailable, match=r"permission denied for schema hookline.*GRANT"):
            await source.move(10)
        owner = await shop.connection.fetchval("SELECT quote_ident(current_user)")
        await shop.connection.execute(f"GRANT {owner} TO {role}")
        await shop.publish(scene.app.id)
        assert (await source.move(10)).relayed == 1
    finally:
        await source.close()
        await shop.connection.execute(f"DROP ROLE {role}")


@one_engine
@pytest.mark.parametrize(
    "url",
    ["postgresql://u:hunter2@127.0.0.1:port/x", "postgresql://u:hun/ter2@127.0.0.1/x", "postgresql://u:hunter2@[::1/x"],
)
async def test_a_url_that_cannot_be_used_is_not_shown(store: Store, url: str) -> None:
    source = PostgresSource(url, store, poll=0.02)
    with pytest.raises(SourceUnavailable) as caught:
        await source.move(10)
    assert "hun" not in str(caught.value) + source.name


# ── several relays ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_two_relays_share_the_work(scene: Scene, shop: ShopDatabase, open_source: OpenSource) -> None:
    published = await shop.publish(scene.app.id, 60)

    async def drain(source: PostgresSource) -> RelayReport:
        total = RelayReport()
        while await shop_count(shop):
            report = await source.move(7)
            total = RelayReport(relayed=total.relayed + report.relayed, repeated=total.repeated + report.repeated)
        return total

    turn = asyncio.Lock()

    async def shop_count(shop: ShopDatabase) -> int:
        async with turn:  # both tasks share one connection
            return await shop.waiting()

    first, second = await asyncio.gather(drain(open_source()), drain(open_source()))
    assert (first.relayed + second.relayed, first.repeated + second.repeated) == (60, 0)
    assert sorted(await messages(scene)) == sorted(published)


@one_engine
async def test_rows_that_another_relay_holds_are_left_to_it(
    scene: Scene, shop: ShopDatabase, source: PostgresSource
) -> None:
    published = await shop.publish(scene.app.id, 5)
    async with shop.connection.transaction():
        await shop.connection.execute("SELECT FROM hookline.outbox ORDER BY id LIMIT 2 FOR UPDATE")
        assert (await source.move(10)).relayed == 3
    assert (await source.move(10)).relayed == 2
    assert await messages(scene) == published[2:] + published[:2]


@one_engine
async def test_rows_with_a_key_wait_for_the_relay_that_holds_the_lock(
    scene: Scene, shop: ShopDatabase, source: PostgresSource
) -> None:
    keyed = await shop.publish(scene.app.id, 2, ordering_key="k")
    plain = await shop.publish(scene.app.id, 2)
    keyed += await shop.publish(scene.app.id, 2, ordering_key="k")
    async with shop.connection.transaction():
        await shop.connection.execute("SELECT pg_advisory_xact_lock(1214542, 1)")
        assert (await source.move(10)).relayed == 2
        assert (await source.move(10)).gone == 0
    assert (await source.move(10)).relayed == 4
    assert await messages(scene) == plain + keyed


@one_engine
async def test_a_late_commit_is_not_skipped(scene: Scene, shop: ShopDatabase, source: PostgresSource) -> None:
    late = await asyncpg.connect(shop.url)
    opened = late.transaction()
    await opened.start()
    first = await late.fetchval("SELECT hookline.publish($1, 'order.paid', '{}')", scene.app.id)
    second = await shop.publish(scene.app.id)
    assert (await source.move(10)).relayed == 1
    await opened.commit()
    await late.close()
    assert (await source.move(10)).relayed == 1
    assert await messages(scene) == [*second, first]


@one_engine
async def test_slow_scans_pause_even_while_they_find_rows(
    scene: Scene, shop: ShopDatabase, source: PostgresSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    monkeypatch.setattr(relay, "monotonic", clock)
    monkeypatch.setattr(postgres, "monotonic", clock)
    clock.step = 1.0  # each scan seems to take a second, as beside a long transaction
    for _ in range(5):
        await shop.publish(scene.app.id)
        assert (await source.move(10)).relayed == 1
    clock.step = 0.0
    (keyed,) = await shop.publish(scene.app.id, ordering_key="k")
    (plain,) = await shop.publish(scene.app.id)
    assert (await source.move(10)).relayed == 1
    assert (await source.move(10)).relayed == 0
    clock.now += 2.1
    assert (await source.move(10)).relayed == 1
    assert (await messages(scene))[-2:] == [plain, keyed]


# ── rows written by hand ──────────────────────────────────────────────────────────────────────────────────────────


async def test_rows_set_aside_can_be_retried_once_their_application_exists(
    scene: Scene, shop: ShopDatabase, source: PostgresSource
) -> None:
    (event_id,) = await shop.publish("later")
    (good,) = await shop.publish(scene.app.id)
    report = await source.move(10)
    assert (report.relayed, report.set_aside, report.reasons) == (1, 1, ("no such application: later",))
    (aside,) = await scene.store.repair.set_aside(Page())
    assert (aside.app, aside.event_id, aside.source) == ("later", event_id, source.name)

    await scene.store.catalogue.create_application(scene.organization.id, factory.new_application(uid="later"))
    assert await scene.store.repair.retry_set_aside([aside.id]) == 1
    assert (await scene.store.pipeline.relay(10)).relayed == 1
    assert await messages(scene) == [good, event_id]


HOSTILE = {
    "not JSON": {"payload": r"'\x7b'"},
    "not UTF-8": {"payload": r"'\xff'"},
    "an event type of spaces": {"event_type": "' '"},
    "an event id like ours": {"event_id": "'msg_1'"},
    "a list of lists": {"channels": "'{{a,b},{c,d}}'"},
    "a list with nothing in it": {"tags": "ARRAY['a', NULL]"},
    "an instant beyond Python": {"deliver_at": "'20000-01-01'"},
    "an instant without end": {"deliver_at": "'infinity'"},
    "an instant before Python": {"deliver_at": "'4000-01-01 BC'"},
    "a policy that is none": {"policy": """'{"max_age": "long"}'"""},
    "a policy out of bounds": {"policy": """'{"max_age": -1}'"""},
    "a policy that is a number": {"policy": "'7'"},
    "a key that is too long": {"ordering_key": "repeat('k', 5000)"},
    "an organization of nobody": {"org_id": "'org_nobody'"},
    "Hookline's own organization": {"org_id": "'org_00000000000SvixManagement00'"},
}


async def test_invalid_rows_are_set_aside_and_block_nothing(
    scene: Scene, shop: ShopDatabase, source: PostgresSource
) -> None:
    for fields in HOSTILE.values():
        await shop.write(scene.app.id, **fields)
    published = await shop.publish(scene.app.id, 2)
    report = await source.move(100)
    assert (report.relayed, report.set_aside) == (2, len(HOSTILE))
    assert await messages(scene) == published
    aside = await scene.store.repair.set_aside(Page())
    assert len({row.event_id for row in aside}) == len(HOSTILE)
    assert {row.source for row in aside} == {source.name}
    assert all(row.reason for row in aside)
    assert {row.payload for row in aside} == {b"{", b"\xff", b"{}"}
    assert await shop.waiting() == 0

    assert await scene.store.repair.retry_set_aside(None) == len(HOSTILE)
    again = await scene.store.pipeline.relay(100)
    assert (again.relayed, again.set_aside) == (0, len(HOSTILE)), (
        "a retry must not drop the part of a row that could not be read"
    )


async def test_a_row_without_an_event_id_has_the_same_one_each_time(
    scene: Scene, shop: ShopDatabase, source: PostgresSource
) -> None:
    await shop.write(scene.app.id, event_id="NULL")
    await shop.write(scene.app.id, event_id="NULL")
    await shop.crash_relays(CRASH_AT_DELETE, times=1)
    with pytest.raises(SourceUnavailable):
        await source.move(10)
    assert (await source.move(10)).repeated == 2
    assert len(set(await messages(scene))) == 2


async def test_a_row_too_large_to_copy_stays_in_the_outbox(
    scene: Scene, shop: ShopDatabase, source: PostgresSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row of 800 MB took three gigabytes of memory and longer than the statement timeout. It blocked all later rows."""
    monkeypatch.setattr(postgres, "LARGEST_PAYLOAD", 1000)
    await shop.write(scene.app.id, payload="convert_to('\"' || repeat('x', 2000) || '\"', 'UTF8')")
    published = await shop.publish(scene.app.id, 2)
    assert await source.move(10) == RelayReport(relayed=2)
    report = await source.move(10)
    reason = "payload: 2002 bytes, more than 1000: too large to be copied, it stays in this database"
    assert report == RelayReport(set_aside=1, reasons=(reason,))
    assert await messages(scene) == published
    assert await source.move(10) == RelayReport()
    kept = await shop.connection.fetchrow("SELECT octet_length(payload), error, set_aside_at FROM hookline.outbox")
    assert tuple(kept)[:2] == (2002, reason)
    assert kept["set_aside_at"] is not None
    view = await examine(shop.url, scene.store)
    assert view.waiting == 0
    assert "1 row is set aside there" in view.hints[0]


async def test_unreadable_rows_with_the_same_event_id_are_kept_apart(
    scene: Scene, shop: ShopDatabase, source: PostgresSource
) -> None:
    """Two applications may give the same id to an event."""
    unreadable = {"deliver_at": "'4713-01-01 00:00 BC'", "event_id": "'order-1'"}
    for app in ("app_a", "app_b"):
        await shop.write(app, **unreadable)
        assert (await source.move(10)).set_aside == 1
    assert len(await scene.store.repair.set_aside(Page())) == 2


@pytest.mark.parametrize(("encoding", "letter"), [("SQL_ASCII", r"\xe9"), ("WIN1252", r"\x81")])
async def test_bytes_that_are_not_text_are_set_aside_and_block_nothing(
    scene: Scene, postgres: PostgresServer, encoding: str, letter: str
) -> None:
    name = f"shop_{encoding}_{factory.number()}".lower()
    admin = await asyncpg.connect(postgres.url("postgres"))
    await admin.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0")
    url = postgres.url(name)
    await install(url)
    source = PostgresSource(url, scene.store, poll=0.02)
    try:
        async with ShopDatabase.open(url) as shop:
            await shop.connection.execute(f"SET client_encoding = {encoding}")
            first = await shop.publish(scene.app.id, 2)
            await shop.write(scene.app.id, tags=f"ARRAY[E'{letter}']")
            published = first + await shop.publish(scene.app.id, 2)
            report = await source.move(10)
            assert (report.relayed, report.set_aside) == (4, 1)
            assert await messages(scene) == published
            assert await shop.waiting() == 0
    finally:
        await source.close()
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await admin.close()
