"""Keys in Redis: outages, clusters, scripts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import redis
import redis.asyncio
import redis.cluster

from hookline.receive.idempotency.keys import (
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


async def test_scripts_that_redis_forgot_are_sent_again(redis_url: str) -> None:
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


async def test_a_redis_that_is_away_is_unavailable_and_then_available(private_redis: RedisServer) -> None:
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


async def test_a_redis_that_has_no_room_is_unavailable(private_redis: RedisServer) -> None:
    """It says so, and does not throw out other keys."""
    with redis.Redis.from_url(private_redis.url) as client:
        client.config_set("maxmemory", "1")
        with pytest.raises(KeyStoreUnavailable, match="maxmemory"):
            RedisKeys(client).begin(KEY, PRINT, token=b"1", lease=30)


async def test_a_record_of_another_kind_is_unavailable(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.set(f"hookline:idempotency:{KEY.hex()}", "not ours")
        with pytest.raises(KeyStoreUnavailable):
            RedisKeys(client).begin(KEY, PRINT, token=b"1", lease=30)
        assert RedisKeys(client, prefix="shop:").begin(KEY, PRINT, token=b"1", lease=30) == Fresh(1)
        assert client.exists(f"shop:{KEY.hex()}")


async def test_a_cluster_keeps_keys_where_they_belong() -> None:
    server = RedisServer(cluster=True)
    try:
        server.start()
        with redis.Redis.from_url(server.url) as node:
            node.execute_command("CLUSTER", "ADDSLOTS", *range(16_384))
            while node.cluster("info")["cluster_state"] != "ok":
                await asyncio.sleep(0.05)  # another process decides when it is
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
