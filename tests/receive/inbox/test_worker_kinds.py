"""The worker on every kind of connection, sync and async."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from hookline.model.policy import RetryPolicy, Strategy
from hookline.receive import inbox
from hookline.receive.inbox import AsyncInboxWorker, Event, InboxWorker, NotInTransaction, UnknownConnection
from tests.outbox.desks import Desk
from tests.receive.inbox.shop import Shop

pytestmark = pytest.mark.filterwarnings("ignore:Accessing the database during app initialization")

AT_ONCE = RetryPolicy(strategy=Strategy.FIXED, schedule=(0.0,), max_attempts=2)
QUICK: dict[str, Any] = {"policy": AT_ONCE, "poll": 0.02, "keep": None}


async def _call(desk: Desk, sync: Callable[..., Any], asynchronous: Callable[..., Awaitable[Any]], *given: Any) -> Any:
    return await asynchronous(desk.conn, *given) if desk.is_async else sync(desk.conn, *given)


async def _drain(desk: Desk) -> int:
    """Run the worker on the desk's own connection. The worker does not close it, as with a connection from a pool."""

    async def pay_async(_conn: Any, event: Event) -> None:
        await desk.execute(f"INSERT INTO payments VALUES ('{event.key}')")
        if event.key == "poison":
            raise ValueError("not this one")

    def pay(conn: Any, event: Event) -> None:
        # `desk.execute` is async but never waits here, so one `send` runs it to its end.
        with pytest.raises(StopIteration):
            desk.execute(f"INSERT INTO payments VALUES ('{event.key}')").send(None)  # type: ignore[attr-defined]
        if event.key == "poison":
            raise ValueError("not this one")

    @asynccontextmanager
    async def lent() -> AsyncIterator[Any]:
        yield desk.conn

    class Lent:
        def __enter__(self) -> Any:
            return desk.conn

        def __exit__(self, *_: object) -> None:
            pass

    if desk.is_async:
        return await AsyncInboxWorker(lent, {"*": pay_async}, **QUICK).drain()
    return InboxWorker(Lent, {"*": pay}, **QUICK).drain()


async def _accept(desk: Desk, *keys: str) -> list[bool]:
    await desk.begin()
    if desk.is_async:
        new = [await inbox.accept_async(desk.conn, b"\x00\xff", key=key, event_type="t") for key in keys]
    else:
        new = [inbox.accept(desk.conn, b"\x00\xff", key=key, event_type="t") for key in keys]
    await desk.commit()
    return new


async def test_accept_handle_die_replay_report_clean(desk: Desk, shop: Shop) -> None:
    assert await _accept(desk, "a", "poison", "a") == [True, True, False]
    assert await _drain(desk) == 3
    assert (shop.payments(), shop.states()) == (["a"], {"a": "done", "poison": "dead"})
    await desk.begin()
    [found] = await _call(desk, inbox.dead, inbox.dead_async)
    assert (found.key, found.body, found.error) == ("poison", b"\x00\xff", "ValueError: not this one")
    assert await _call(desk, inbox.replay, inbox.replay_async, found.id) == 1
    await desk.commit()
    assert await _drain(desk) == 2
    await desk.begin()
    [found] = await _call(desk, inbox.dead, inbox.dead_async)
    assert await _call(desk, inbox.resolve, inbox.resolve_async, [found.id]) == 1
    report = await _call(desk, inbox.report, inbox.report_async, 3)
    assert await _call(desk, inbox.clean, inbox.clean_async) == 0
    await desk.commit()
    day = report.days[-1]
    assert (day.arrivals, day.first, day.duplicates_stopped) == (3, 2, 1)
    assert (day.effects, day.duplicate_effects, report.waiting, report.dead) == (1, 0, 0, 0)
    assert [other.arrivals for other in report.days[:-1]] == [0, 0]


# ── the asyncio variant ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def pg(shop_of: Callable[[str], Shop]) -> Shop:
    return shop_of("postgres")


async def _pay(conn: Any, event: Event) -> None:
    await conn.execute(f"INSERT INTO payments VALUES ('{event.key}')")


def _ways(pg: Shop) -> dict[str, Callable[[], Any]]:
    engine = create_async_engine(pg.url.replace("postgresql", "postgresql+asyncpg", 1), poolclass=sa.NullPool)
    return {
        "asyncpg": lambda: asyncpg.connect(pg.url),
        "psycopg": lambda: psycopg.AsyncConnection.connect(pg.url),
        "sqlalchemy": engine.connect,
    }


@pytest.mark.parametrize("way", ["asyncpg", "psycopg", "sqlalchemy"])
async def test_a_connection_is_opened_and_closed_again(pg: Shop, way: str) -> None:
    async def handler(conn: Any, event: Event) -> None:
        statement = f"INSERT INTO payments VALUES ('{event.key}')"
        await conn.execute(sa.text(statement) if way == "sqlalchemy" else statement)

    pg.accept("k")
    assert await AsyncInboxWorker(_ways(pg)[way], {"*": handler}, **QUICK).drain() == 1
    assert pg.payments() == ["k"]
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    while pg.rows(others) != [(0,)]:
        await asyncio.sleep(0.01)  # The server notices the closed connection a moment later.


async def test_tasks_share_the_work_on_a_pool_and_return_all_connections(pg: Shop) -> None:
    keys = [f"k{number:02}" for number in range(30)]
    done = asyncio.Semaphore(0)

    async def handler(conn: Any, event: Event) -> None:
        await _pay(conn, event)
        done.release()

    async with asyncpg.create_pool(pg.url, min_size=3, max_size=3) as pool:
        async with AsyncInboxWorker(pool.acquire, {"*": handler}, tasks=3, **QUICK):
            await asyncio.to_thread(pg.accept, *keys)
            for _ in keys:
                await done.acquire()
        assert pool.get_idle_size() == 3  # All connections are back in the pool.
    assert pg.payments() == keys


async def test_stop_ends_run_and_the_running_handler_finishes(pg: Shop) -> None:
    running, go_on = asyncio.Event(), asyncio.Event()

    async def handler(conn: Any, event: Event) -> None:
        running.set()
        await go_on.wait()
        await _pay(conn, event)

    pg.accept("a", "b")
    worker = AsyncInboxWorker(lambda: asyncpg.connect(pg.url), {"*": handler}, **QUICK)
    run = asyncio.create_task(worker.run())
    await running.wait()
    stop = asyncio.create_task(worker.stop())
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(run, stop)
    assert pg.states() == {"a": "done", "b": "open"}


async def test_another_worker_gets_the_event_of_a_cancelled_task(pg: Shop) -> None:
    running = asyncio.Event()

    async def handler(conn: Any, event: Event) -> None:
        await _pay(conn, event)
        running.set()
        await asyncio.Event().wait()

    pg.accept("k")
    worker = AsyncInboxWorker(lambda: asyncpg.connect(pg.url), {"*": handler}, **(QUICK | {"lease": 0.01}))
    run = asyncio.create_task(worker.run())
    await running.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert pg.payments() == []
    other = AsyncInboxWorker(lambda: asyncpg.connect(pg.url), {"*": _pay}, **QUICK)
    while not await other.drain():
        await asyncio.sleep(0.01)  # Wait until the lease has expired.
    assert pg.payments() == ["k"]


async def test_a_cancelled_task_inside_a_handler_is_a_failure(pg: Shop) -> None:
    async def handler(_conn: Any, _event: Event) -> None:
        task = asyncio.create_task(asyncio.sleep(60))
        task.cancel()
        await task

    pg.accept("k")
    assert await AsyncInboxWorker(lambda: asyncpg.connect(pg.url), {"*": handler}, **QUICK).drain() == 2
    assert pg.states() == {"k": "dead"}


async def test_a_plain_function_is_a_handler_too(pg: Shop) -> None:
    seen: list[str] = []
    pg.accept("k")
    worker = AsyncInboxWorker(lambda: asyncpg.connect(pg.url), {"*": lambda _, event: seen.append(event.key)}, **QUICK)
    assert (await worker.drain(), seen) == (1, ["k"])


async def test_a_database_outage_does_not_end_the_worker(pg: Shop) -> None:
    handled = asyncio.Event()
    tries: list[int] = []

    async def connect() -> Any:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("nobody there")
        return await asyncpg.connect(pg.url)

    pg.accept("k")
    async with AsyncInboxWorker(connect, {"*": lambda *_: handled.set()}, **QUICK):
        await handled.wait()


async def test_a_session_that_the_handler_commits(pg: Shop, caplog: pytest.LogCaptureFixture) -> None:
    async def handler(session: AsyncSession, event: Event) -> None:
        await session.execute(sa.text("INSERT INTO payments VALUES (:key)"), {"key": event.key})
        await session.commit()

    bind = create_async_engine(pg.url.replace("postgresql", "postgresql+asyncpg", 1), poolclass=sa.NullPool)
    pg.accept("k")
    assert await AsyncInboxWorker(lambda: AsyncSession(bind), {"*": handler}, **QUICK).drain() == 1
    assert (pg.payments(), pg.states()) == (["k"], {"k": "done"})
    assert "'k': is not retried" in caplog.text


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_a_connection_without_transactions_is_refused(shop_of: Callable[[str], Shop], engine: str) -> None:
    shop = shop_of(engine)
    url = f"sqlite:///{shop.url}" if engine == "sqlite" else shop.url.replace("postgresql", "postgresql+psycopg", 1)
    bind = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    shop.accept("k")
    with pytest.raises(NotInTransaction):
        InboxWorker(bind.connect, {"*": lambda *_: None}, **QUICK).drain()
    assert shop.states() == {"k": "open"}


async def test_the_error_names_the_wrong_kind_of_connection(pg: Shop) -> None:
    with pytest.raises(UnknownConnection, match="not async"):
        await AsyncInboxWorker(pg.connect, {"*": _pay}).drain()
