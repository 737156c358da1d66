"""`AsyncPostgresKeys` with a function that creates the pool, because no event loop runs yet when the application is
imported."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hookline.errors import InvalidInput
from hookline.receive.idempotency.asgi import IdempotencyMiddleware
from hookline.receive.idempotency.keys import Answer, Fresh, InProgress, KeyStoreUnavailable
from hookline.receive.stores.postgres import AsyncPostgresKeys, table_sql
from tests.receive.stages import KEY, PRINT
from tests.receive.web import asgi_server


class Maker:
    """A function that creates a pool. It counts its calls, keeps the last pool, and raises each of the given failures
    once."""

    def __init__(self, make: Callable[[], Any], *failures: Exception) -> None:
        self._make = make
        self._failures = list(failures)
        self.calls = 0
        self.pool: Any = None

    def __call__(self) -> Any:
        self.calls += 1
        if self._failures:
            raise self._failures.pop(0)
        self.pool = self._make()
        return self.pool


@pytest.fixture
def url(keys_url: str) -> str:
    with psycopg.connect(keys_url, autocommit=True) as conn:
        conn.execute(table_sql())
    return keys_url


def small_pool(url: str) -> Any:
    return asyncpg.create_pool(url, min_size=1, max_size=2)


def psycopg_pool(url: str) -> Any:
    return AsyncConnectionPool(url, min_size=1, max_size=2, open=False)


async def made_pool(url: str) -> Any:
    return await small_pool(url)


async def unmade_pool(url: str) -> Any:
    return small_pool(url)


async def opened_psycopg_pool(url: str) -> Any:
    pool = psycopg_pool(url)
    await pool.open()
    return pool


def begin(keys: AsyncPostgresKeys, token: int = 0) -> Coroutine[Any, Any, Answer]:
    return keys.begin(KEY, PRINT, token=b"%d" % token, lease=30)


@pytest.mark.parametrize("make", [small_pool, psycopg_pool, made_pool, unmade_pool, opened_psycopg_pool])
async def test_one_of_several_concurrent_first_calls_creates_the_pool(url: str, make: Callable[[str], Any]) -> None:
    maker = Maker(lambda: make(url))
    keys = AsyncPostgresKeys(maker)
    assert maker.calls == 0
    answers = await asyncio.gather(*(begin(keys, n) for n in range(25)))
    assert Counter(type(answer).__name__ for answer in answers) == {"Fresh": 1, "InProgress": 24}
    assert maker.calls == 1
    await keys.aclose()


@pytest.mark.parametrize("make", [small_pool, psycopg_pool])
async def test_its_own_pool_is_closed_and_created_again_when_needed(url: str, make: Callable[[str], Any]) -> None:
    maker = Maker(lambda: make(url))
    keys = AsyncPostgresKeys(maker)
    await keys.aclose()  # No pool exists yet.
    assert await begin(keys) == Fresh(1)
    first = maker.pool
    await keys.aclose()
    await keys.aclose()
    assert _is_closed(first)
    assert await begin(keys) == Fresh(1)
    assert maker.calls == 2
    await keys.aclose()
    assert _is_closed(maker.pool)


@pytest.mark.parametrize("make", [small_pool, psycopg_pool])
async def test_a_pool_that_was_given_is_not_closed(url: str, make: Callable[[str], Any]) -> None:
    async with make(url) as pool:
        keys = AsyncPostgresKeys(pool)
        assert await begin(keys) == Fresh(1)
        await keys.aclose()
        assert not _is_closed(pool)
        assert isinstance(await begin(keys, 1), InProgress)


def _is_closed(pool: Any) -> bool:
    return bool(pool.closed if isinstance(pool, AsyncConnectionPool) else pool.is_closing())


@pytest.mark.parametrize("failure", [OSError("no route"), KeyError("DATABASE_URL"), asyncpg.PostgresError("starting")])
async def test_all_waiting_calls_get_the_failure_and_the_next_call_tries_again(url: str, failure: Exception) -> None:
    maker = Maker(lambda: small_pool(url), failure)
    keys = AsyncPostgresKeys(maker)
    answers = await asyncio.gather(*(begin(keys, n) for n in range(5)), return_exceptions=True)
    assert [type(answer) for answer in answers] == [KeyStoreUnavailable] * 5
    assert type(failure).__name__ in str(answers[0])
    assert maker.calls == 1
    assert await begin(keys) == Fresh(1)
    assert maker.calls == 2
    await keys.aclose()


async def test_the_store_becomes_available_when_the_database_does(url: str) -> None:
    place, _, name = url.rpartition("/")
    keys = AsyncPostgresKeys(lambda: small_pool(url))
    async with await psycopg.AsyncConnection.connect(f"{place}/postgres", autocommit=True) as admin:
        await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        try:
            with pytest.raises(KeyStoreUnavailable, match="not currently accepting"):
                await begin(keys)
        finally:
            await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    assert await begin(keys) == Fresh(1)
    await keys.aclose()


async def test_a_pool_that_is_never_created_makes_the_store_unavailable(url: str) -> None:
    first = [asyncio.Event()]

    async def make() -> Any:
        for event in first:
            await event.wait()
        return await small_pool(url)

    keys = AsyncPostgresKeys(make, timeout=0.05)
    with pytest.raises(KeyStoreUnavailable, match="TimeoutError"):
        await begin(keys)
    first.clear()
    keys._connections._timeout = 30.0  # type: ignore[attr-defined]
    assert await begin(keys) == Fresh(1)
    await keys.aclose()


async def test_a_cancelled_call_does_not_take_the_pool_from_other_calls(url: str) -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def make() -> Any:
        assert not started.is_set()
        started.set()
        await go_on.wait()
        return small_pool(url)

    keys = AsyncPostgresKeys(make)
    first, second = (asyncio.create_task(begin(keys, n)) for n in range(2))
    await started.wait()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    go_on.set()
    assert await second == Fresh(1)
    await keys.aclose()


async def test_a_result_that_is_no_pool_is_refused(url: str) -> None:
    async def nothing() -> None:
        pass

    with ConnectionPool(url, min_size=1, open=True) as sync_pool:
        for make in (lambda: url, nothing, lambda: sync_pool):
            with pytest.raises(InvalidInput, match="a pool of asyncpg"):
                await begin(AsyncPostgresKeys(make))
    with pytest.raises(InvalidInput, match="a pool of asyncpg"):
        AsyncPostgresKeys(sync_pool)


LOOPS = """
    import asyncio, sys, asyncpg
    from hookline.receive.stores.postgres import AsyncPostgresKeys

    keys = AsyncPostgresKeys(lambda: asyncpg.create_pool(sys.argv[1], min_size=1, max_size=1))
    for token in b"one", b"two", b"three":
        print(type(asyncio.run(keys.begin(b"key", b"f", token=token, lease=30))).__name__)
    assert len(keys._connections._by_loop) == 1
"""


def test_each_event_loop_has_a_pool_of_its_own(url: str) -> None:
    """Some tests call the application in a new event loop for each request. The test uses a separate process because
    nothing closes those pools."""
    command = [sys.executable, "-c", textwrap.dedent(LOOPS), url]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (0, "Fresh\nInProgress\nInProgress\n"), done.stderr


# ── under a server ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("make", [small_pool, psycopg_pool])
def test_a_middleware_that_is_made_before_the_loop_runs(url: str, make: Callable[[str], Any]) -> None:
    maker = Maker(lambda: make(url))
    keys = AsyncPostgresKeys(maker)
    effects = []

    async def pay(request: Request) -> Response:
        effects.append(request.headers["idempotency-key"])
        return JSONResponse({"paid": len(effects)})

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await keys.aclose()

    app = Starlette(routes=[Route("/pay", pay, methods=["POST"])], lifespan=lifespan)
    app.add_middleware(IdempotencyMiddleware, store=keys)
    with asgi_server(app) as server:
        assert maker.calls == 0
        replies = [later.reply() for later in [server.later("/pay", "evt_1") for _ in range(10)]]
        last = server.call("/pay", "evt_1")
    assert {reply.status for reply in replies} <= {200, 409}
    assert (last.status, last.body, last.is_replay) == (200, b'{"paid":1}', True)
    assert effects == ["evt_1"]
    assert maker.calls == 1
    assert _is_closed(maker.pool)
