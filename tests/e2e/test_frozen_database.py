"""A database that hangs: PostgreSQL's processes are stopped with SIGSTOP, or another process holds SQLite's lock.

Callers get 503 within the promised time. When the database continues, everything works again, and nothing is lost or
doubled.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from hookline.clock import monotonic
from tests.api.conftest import Client
from tests.dashboard.client import Client as Browser
from tests.support.postgres import private_server
from tests.support.receiver import Receiver
from tests.support.serving import Served, serving

# The promise is 5 seconds. On a busy machine a request may wait for its turn, so the test allows more. Without a
# deadline, a caller would wait as long as the database hangs.
LATE = 12.0

Freeze = Callable[[], AbstractContextManager[None]]


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold the write lock of a SQLite file."""
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


@pytest.fixture
def database(engine: str, tmp_path: Path) -> Iterator[tuple[str, Freeze]]:
    """A database, and how to make it hang."""
    if engine == "sqlite":
        yield f"sqlite:///{tmp_path}/hookline.db", lambda: _locked(tmp_path / "hookline.db")
        return
    with private_server() as postgres:
        yield postgres.url("postgres"), postgres.frozen


class Caller:
    """Calls the API and a page of one server."""

    def __init__(self, served: Served) -> None:
        address = served.address.removeprefix("http://")
        self.api = Client(address, served.token)
        self.browser = Browser(address)

    async def set_up(self, receiver: Receiver) -> None:
        (await self.api.post("/api/v1/app", {"name": "Shop", "uid": "shop"})).json(201)
        (await self.api.post("/api/v1/app/shop/endpoint", {"url": receiver.url})).json(201)
        await self.browser.sign_in(token=self.api.token or "")

    async def publish(self, number: int) -> int:
        answer = await self.api.post(
            "/api/v1/app/shop/msg", {"eventType": "order.paid", "payload": {"n": number}}, idempotency_key=f"n{number}"
        )
        return answer.status

    async def ready(self) -> int:
        return (await self.api.get("/health/ready")).status

    async def read(self) -> int:
        return (await self.api.get("/api/v1/app")).status

    async def page(self) -> int:
        return (await self.browser.get("/")).status


async def timed(call: Awaitable[Any]) -> tuple[Any, float]:
    began = monotonic()
    return await call, monotonic() - began


async def becomes(call: Callable[[], Awaitable[int]], status: int) -> None:
    async with asyncio.timeout(60):
        while await call() != status:
            await asyncio.sleep(0.05)  # another process changes its state, so there is no event to await


@pytest.mark.timeout(300)
async def test_callers_get_503_in_time_while_the_database_hangs(
    engine: str, database: tuple[str, Freeze], tmp_path: Path
) -> None:
    url, freeze = database
    # A thread for each request. The default is a few more threads than the machine has cores.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(16))
    with Receiver() as receiver, serving(url, tmp_path) as served:
        caller = Caller(served)
        await caller.set_up(receiver)
        assert await caller.publish(1) == 202
        await receiver.arrived(1)
        with freeze():
            writes = [caller.publish(number) for number in range(2, 6)]
            reads = [] if engine == "sqlite" else [caller.ready(), caller.read(), caller.page()]
            answers = await asyncio.gather(*map(timed, writes + reads))
            # Requests that come later wait no longer than the first ones.
            answers += await asyncio.gather(timed(caller.publish(6)), timed(caller.publish(7)))
            if engine == "sqlite":  # readers see the last commit; readiness notices that writes fail
                await becomes(caller.ready, 503)
                assert (await caller.read(), await caller.page()) == (200, 200)
        assert {status for status, _ in answers} == {503}
        assert max(seconds for _, seconds in answers) < LATE, answers
        await becomes(caller.ready, 200)
        for number in range(2, 8):
            await becomes(lambda number=number: caller.publish(number), 202)  # type: ignore[misc]
        assert (await caller.read(), await caller.page()) == (200, 200)
        received = await receiver.arrived(7)
        served.ended_well()
    assert sorted(request.body for request in received) == [b'{"n":%d}' % number for number in range(1, 8)]
