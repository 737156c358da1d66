"""Stores of keys that several processes share, and calls that were cancelled."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

from hookline.receive.idempotency.keys import (
    Fresh,
    InProgress,
    Mismatch,
    Replay,
    StoredResponse,
)
from tests.receive.conftest import OpenStage
from tests.receive.stages import LEASE, Stage
from tests.receive.taker import Taker

PRINT = b"f" * 32
DONE = StoredResponse(200, ((b"content-type", b"text/plain"),), b"done")


@pytest.fixture(params=["sqlite", "postgres", "redis"])
async def shared(request: pytest.FixtureRequest, open_stage: OpenStage) -> tuple[str, Stage]:
    name: str = request.param
    return name, await open_stage(name)


@pytest.fixture
def takers(shared: tuple[str, Stage]) -> Iterator[list[Taker]]:
    engine, stage = shared
    started = [Taker(engine, stage.place) for _ in range(3)]
    yield started
    for taker in started:
        taker.kill()


async def test_of_many_processes_one_is_fresh(shared: tuple[str, Stage], takers: list[Taker]) -> None:
    """On SQLite the first round also creates the file."""
    for _ in range(10):
        key = secrets.token_bytes(32)
        for taker in takers:
            taker.ask(key, PRINT, LEASE)
        answers = [answer for taker in takers for answer in await asyncio.to_thread(taker.answers)]
        assert sorted(answers) == ["Fresh"] + ["InProgress"] * 23


async def test_the_key_of_a_killed_holder_is_taken_over_after_its_lease(
    shared: tuple[str, Stage], takers: list[Taker]
) -> None:
    _, stage = shared
    key = secrets.token_bytes(32)
    takers[0].ask(key, PRINT, LEASE)
    assert "Fresh" in await asyncio.to_thread(takers[0].answers)
    takers[0].kill()
    assert isinstance(await stage.copy(key).begin(), InProgress)
    await stage.age(key, LEASE + 1)
    assert await stage.copy(key, fingerprint=b"o" * 32).begin() == Mismatch()
    successor = stage.copy(key)
    assert await successor.begin() == Fresh(2)
    assert await successor.finish(DONE)
    assert await stage.copy(key).begin() == Replay(DONE)


FORKS = """
    import os, sys
    from hookline.receive.idempotency.keys import Fresh, InProgress
    from tests.receive.taker import opened

    store = opened(*sys.argv[1:])
    assert store.begin(b"parent's", b"f", token=b"p", lease=30) == Fresh(1)
    child = os.fork()
    if child == 0:
        assert isinstance(store.begin(b"parent's", b"f", token=b"c", lease=30), InProgress)
        assert store.begin(b"child's", b"f", token=b"c", lease=30) == Fresh(1)
        os._exit(0)
    for n in range(50):
        assert store.begin(b"%d" % n, b"f", token=b"p", lease=30) == Fresh(1)
    assert os.waitpid(child, 0)[1] == 0
    assert store.renew(b"parent's", b"p", 30)
    assert isinstance(store.begin(b"child's", b"f", token=b"p", lease=30), InProgress)
"""


async def test_a_store_can_be_made_before_a_fork(shared: tuple[str, Stage]) -> None:
    """Some servers load the application before they fork. The test forks in a process without threads, because Python
    warns otherwise."""
    engine, stage = shared
    command = [sys.executable, "-c", textwrap.dedent(FORKS), engine, stage.place]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["sqlite-async", "postgres-asyncpg", "postgres-async-pool"])
async def test_release_frees_the_key_of_a_cancelled_begin(open_stage: OpenStage, name: str) -> None:
    stage = await open_stage(name)
    for steps in range(12):
        copy = stage.copy()
        beginning = asyncio.create_task(copy.begin())
        for _ in range(steps):
            await asyncio.sleep(0)
        beginning.cancel()
        await asyncio.gather(beginning, return_exceptions=True)
        await copy.release()
        assert await stage.copy(copy.key).begin() == Fresh(1)
