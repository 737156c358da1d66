"""Stores of keys in Redis: outages, clusters and scripts."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import pytest
import redis
import redis.asyncio
import redis.cluster

from hookline.errors import InvalidInput
from hookline.receive.idempotency.keys import (
    Answer,
    Fresh,
    KeyStoreUnavailable,
    Replay,
    key_of,
)
from hookline.receive.stores.redis import AsyncRedisKeys, RedisKeys
from tests.receive.stages import (
    DONE,
    KEY,
    PRINT,
    verbs,
)
from tests.support.redis import RedisServer


def test_a_client_of_the_other_kind_is_refused_when_the_store_is_made() -> None:
    class Own(redis.Redis): ...

    class OwnAsync(redis.asyncio.Redis): ...

    for waits in (redis.asyncio.Redis(), OwnAsync(), redis.asyncio.RedisCluster("localhost")):
        with pytest.raises(InvalidInput, match="AsyncRedisKeys"):
            RedisKeys(waits)
    for waits_not in (redis.Redis(), Own()):
        with pytest.raises(InvalidInput, match=r"redis\.asyncio"):
            AsyncRedisKeys(waits_not)


async def test_scripts_that_redis_lost_are_sent_again(redis_url: str) -> None:
    async with redis.asyncio.Redis.from_url(redis_url) as client:
        keys = AsyncRedisKeys(client)
        assert await keys.begin(KEY, PRINT, token=b"1", lease=30) == Fresh(1)
        await client.script_flush()
        assert await keys.renew(KEY, b"1", 30)
        await client.script_flush()
        assert await keys.finish(KEY, b"1", DONE, 60)


@pytest.fixture
def private_redis() -> Iterator[RedisServer]:
    server = RedisServer()
    server.start()
    yield server
    server.close()


async def test_the_store_is_available_again_after_an_outage_of_redis(private_redis: RedisServer) -> None:
    with redis.Redis.from_url(private_redis.url) as client:
        async with redis.asyncio.Redis.from_url(private_redis.url) as async_client:
            keys, async_keys = RedisKeys(client), AsyncRedisKeys(async_client)
            assert keys.begin(KEY, PRINT, token=b"1", lease=30) == Fresh(1)
            assert await async_keys.renew(KEY, b"1", 30)
            private_redis.stop()
            for verb in verbs(keys)[:4]:
                with pytest.raises(KeyStoreUnavailable):
                    verb()
            with pytest.raises(KeyStoreUnavailable):
                await async_keys.finish(KEY, b"1", DONE, 60)
            private_redis.start()
            assert keys.begin(KEY, PRINT, token=b"1", lease=30) == Fresh(1)
            assert await async_keys.finish(KEY, b"1", DONE, 60)


async def test_a_full_redis_makes_the_store_unavailable(private_redis: RedisServer) -> None:
    """Redis reports that its memory is full, and does not evict other keys."""
    with redis.Redis.from_url(private_redis.url) as client:
        client.config_set("maxmemory", "1")
        with pytest.raises(KeyStoreUnavailable, match="maxmemory"):
            RedisKeys(client).begin(KEY, PRINT, token=b"1", lease=30)


async def test_a_record_of_another_type_makes_the_store_unavailable(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.set(f"hookline:idempotency:{KEY.hex()}", "not ours")
        with pytest.raises(KeyStoreUnavailable):
            RedisKeys(client).begin(KEY, PRINT, token=b"1", lease=30)
        assert RedisKeys(client, prefix="shop:").begin(KEY, PRINT, token=b"1", lease=30) == Fresh(1)
        assert client.exists(f"shop:{KEY.hex()}")


async def test_the_store_works_on_a_cluster() -> None:
    server = RedisServer(cluster=True)
    try:
        server.start()
        with redis.Redis.from_url(server.url) as node:
            node.execute_command("CLUSTER", "ADDSLOTS", *range(16_384))
            while node.cluster("info")["cluster_state"] != "ok":
                await asyncio.sleep(0.05)  # Another process decides when the cluster is ready.
        with redis.cluster.RedisCluster(host="127.0.0.1", port=server.port) as client:
            keys = RedisKeys(client)
            for number in range(20):
                key = key_of([], str(number))
                assert keys.begin(key, PRINT, token=b"1", lease=30) == Fresh(1)
                assert keys.finish(key, b"1", DONE, 60)
                assert keys.begin(key, PRINT, token=b"2", lease=30) == Replay(DONE)
        async with redis.asyncio.cluster.RedisCluster(host="127.0.0.1", port=server.port) as async_client:
            assert await AsyncRedisKeys(async_client).begin(KEY, PRINT, token=b"2", lease=30) == Fresh(1)
    finally:
        server.close()


# ── a client with a limited number of connections ─────────────────────────────────────────────────────────────────

PAUSE = 100  # milliseconds in which the server answers nobody, so that all calls overlap


def _sorts(answers: list[Answer]) -> Counter[str]:
    return Counter(type(answer).__name__ for answer in answers)


async def test_tasks_at_once_wait_for_a_connection(redis_url: str) -> None:
    async with redis.asyncio.from_url(redis_url, max_connections=2) as client:
        keys = AsyncRedisKeys(client)
        await client.client_pause(PAUSE)
        answers = await asyncio.gather(*(keys.begin(KEY, PRINT, token=b"%d" % n, lease=30) for n in range(25)))
        assert _sorts(answers) == {"Fresh": 1, "InProgress": 24}


def test_threads_at_once_wait_for_a_connection(redis_url: str) -> None:
    together = threading.Barrier(25)
    with redis.from_url(redis_url, max_connections=2) as client, ThreadPoolExecutor(25) as threads:
        keys = RedisKeys(client)
        client.client_pause(PAUSE)

        def begin(number: int) -> Answer:
            together.wait(60)
            return keys.begin(KEY, PRINT, token=b"%d" % number, lease=30)

        assert _sorts(list(threads.map(begin, range(25)))) == {"Fresh": 1, "InProgress": 24}


async def test_half_of_the_connections_are_left_to_the_application(redis_url: str) -> None:
    async with redis.asyncio.from_url(redis_url, max_connections=4) as client:
        keys = AsyncRedisKeys(client)
        await client.client_pause(PAUSE)
        begun = [asyncio.create_task(keys.begin(KEY, PRINT, token=b"%d" % n, lease=30)) for n in range(25)]
        while len(client.connection_pool._in_use_connections) < 2:
            await asyncio.sleep(0)  # Wait until the store uses its share of the connections.
        assert await asyncio.gather(client.get("theirs"), client.get("also theirs")) == [None, None]
        assert _sorts(await asyncio.gather(*begun)) == {"Fresh": 1, "InProgress": 24}


async def test_a_task_waits_for_connections_that_the_application_holds(redis_url: str) -> None:
    async with redis.asyncio.from_url(redis_url, max_connections=2) as client:
        pool = client.connection_pool
        theirs = [await pool.get_connection() for _ in range(2)]
        with pytest.raises(KeyStoreUnavailable, match="Too many connections"):
            await AsyncRedisKeys(client, timeout=0.05).begin(KEY, PRINT, token=b"1", lease=30)
        beginning = asyncio.create_task(AsyncRedisKeys(client).begin(KEY, PRINT, token=b"1", lease=30))
        # The Redis client has no free connection and sends no notification of that, so the test waits.
        await asyncio.sleep(0.05)
        assert not beginning.done()
        for connection in theirs:
            await pool.release(connection)
        assert await beginning == Fresh(1)


def test_a_thread_waits_for_connections_that_the_application_holds(redis_url: str) -> None:
    with redis.from_url(redis_url, max_connections=2) as client, ThreadPoolExecutor(1) as thread:
        pool = client.connection_pool
        theirs = [pool.get_connection() for _ in range(2)]
        with pytest.raises(KeyStoreUnavailable, match="Too many connections"):
            RedisKeys(client, timeout=0.05).begin(KEY, PRINT, token=b"1", lease=30)
        beginning = thread.submit(RedisKeys(client).begin, KEY, PRINT, token=b"1", lease=30)
        with pytest.raises(TimeoutError):
            beginning.result(0.05)
        for connection in theirs:
            pool.release(connection)
        assert beginning.result(60) == Fresh(1)


async def test_a_call_that_waits_too_long_for_its_turn_fails(redis_url: str) -> None:
    """The store may use one of the client's two connections, and a slow call holds it."""
    async with redis.asyncio.from_url(redis_url, max_connections=2) as client:
        keys = AsyncRedisKeys(client, timeout=0.05)
        await client.client_pause(60_000, all=False)  # Pause only commands that write, such as scripts.
        first = asyncio.create_task(keys.begin(KEY, PRINT, token=b"1", lease=30))
        await asyncio.sleep(0)
        with pytest.raises(KeyStoreUnavailable, match="became free"):
            await keys.begin(KEY, PRINT, token=b"2", lease=30)
        await client.client_unpause()
        assert await first == Fresh(1)
        assert await keys.renew(KEY, b"1", 30)


def test_a_thread_that_waits_too_long_for_its_turn_fails(redis_url: str) -> None:
    with redis.from_url(redis_url, max_connections=2) as client, ThreadPoolExecutor(2) as threads:
        keys = RedisKeys(client, timeout=0.05)
        client.client_pause(60_000, all=False)
        calls = [threads.submit(keys.begin, KEY, PRINT, token=b"%d" % n, lease=30) for n in range(2)]
        (late,), (first,) = wait(calls, 60, FIRST_COMPLETED)
        with pytest.raises(KeyStoreUnavailable, match="became free"):
            late.result()
        client.client_unpause()
        assert first.result(60) == Fresh(1)


async def test_a_cancelled_call_gives_its_turn_back(redis_url: str) -> None:
    async with redis.asyncio.from_url(redis_url, max_connections=2) as client:
        keys = AsyncRedisKeys(client)
        for steps in range(12):
            calls = [asyncio.create_task(keys.begin(KEY, PRINT, token=b"1", lease=30)) for _ in range(3)]
            for _ in range(steps):
                await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            assert await keys.begin(KEY, PRINT, token=b"1", lease=30) == Fresh(1)


FORKS = """
    import os, sys, threading, redis
    from hookline.receive.idempotency.keys import Fresh
    from hookline.receive.stores.redis import RedisKeys

    client = redis.from_url(sys.argv[1], max_connections=2)
    keys = RedisKeys(client)
    client.client_pause(60_000, all=False)  # Pause only commands that write, such as scripts.
    beginning = threading.Thread(target=keys.begin, args=(b"parent's", b"f"), kwargs={"token": b"p", "lease": 30})
    beginning.start()
    while not client.connection_pool._in_use_connections:
        pass
    child = os.fork()
    if child == 0:
        assert keys.begin(b"child's", b"f", token=b"c", lease=30) == Fresh(1)
        os._exit(0)
    client.client_unpause()
    beginning.join()
    assert os.waitpid(child, 0)[1] == 0
"""


def test_a_fork_during_a_call_does_not_block_the_child(redis_url: str) -> None:
    """The test uses a separate process, because Python warns about a fork beside threads."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(FORKS), redis_url]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
