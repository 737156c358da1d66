"""Idempotency keys in Redis 6.2 or later, or Valkey: for any number of machines.

    keys = RedisKeys(redis.Redis())            # or a RedisCluster: each key is one record
    keys = AsyncRedisKeys(redis.asyncio.Redis())

Each method is one script, which Redis runs atomically with its own clock. Redis deletes expired records by itself. If
Redis loses a record, the handler may run again. So set `maxmemory-policy noeviction` and `appendonly yes`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hookline import clock
from hookline.errors import InvalidInput
from hookline.outbox.coroutines import settled
from hookline.receive.idempotency import keys

__all__ = ["AsyncRedisKeys", "RedisKeys"]

PREFIX = "hookline:idempotency:"
MAX_CALLS = 16  # maximum calls at once per process and store; enough, as a call takes about a millisecond
_PAUSE = 0.01  # seconds before a refused call is retried; the pool does not say when a connection is free

_NOW = "local time = redis.call('TIME') local now = time[1] * 1000 + math.floor(time[2] / 1000)\n"


class _Script:
    """A script. It may use `now`, the time of Redis in milliseconds."""

    def __init__(self, text: str) -> None:
        self.source = _NOW + text
        self.sha = hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()


# ARGV: fingerprint, token, milliseconds of the lease, milliseconds for which the record is kept after the lease.
_BEGIN = _Script("""
local held = redis.call('HMGET', KEYS[1], 'fingerprint', 'token', 'lease_until', 'runs')
local runs = 1
if held[1] then
    if held[1] ~= ARGV[1] then return {'mismatch'} end
    local response = redis.call('HGET', KEYS[1], 'response')
    if response then return {'replay', response} end
    runs = tonumber(held[4])
    if held[2] ~= ARGV[2] then
        local left = tonumber(held[3]) - now
        if left > 0 then return {'in_progress', left} end
        runs = runs + 1
    end
end
local lease_until = now + ARGV[3]
redis.call('HSET', KEYS[1], 'fingerprint', ARGV[1], 'token', ARGV[2],
    'lease_until', string.format('%.0f', lease_until), 'runs', runs)
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', lease_until + ARGV[4]))
return {'fresh', runs}
""")
# ARGV: token, milliseconds of the lease, milliseconds for which the record is kept after the lease.
_RENEW = _Script("""
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] or redis.call('HEXISTS', KEYS[1], 'response') == 1 then return 0 end
local lease_until = now + ARGV[2]
redis.call('HSET', KEYS[1], 'lease_until', string.format('%.0f', lease_until))
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', lease_until + ARGV[3]))
return 1
""")
# ARGV: token, response, milliseconds until the record expires.
_FINISH = _Script("""
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'response', ARGV[2])
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', now + ARGV[3]))
return 1
""")
# ARGV: token.
_RELEASE = _Script("""
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] or redis.call('HEXISTS', KEYS[1], 'response') == 1 then return 0 end
return redis.call('DEL', KEYS[1])
""")


class _CallLimit:
    """A limit for the calls of one store that run at once, so that redis-py's pool has a connection for each call.

    Without the limit, the pool would refuse a call immediately if all its connections are in use. With the limit, the
    call waits. A store takes at most half of the pool, so that many requests leave connections for the application. If
    the application itself uses all connections, a refused call is retried. With a synchronous client there is no event
    loop, so a waiting call blocks its thread.
    """

    def __init__(self, client: Any, timeout: float, *, is_async: bool) -> None:
        pool_size = getattr(getattr(client, "connection_pool", None), "max_connections", None)
        # A client of a cluster has one pool per node and does not know the nodes yet, so its pool size is unknown.
        self._count = max(1, min(MAX_CALLS, pool_size // 2)) if isinstance(pool_size, int) else MAX_CALLS
        self._timeout = timeout
        self._is_async = is_async
        # Each process has its own semaphore. If threads of the parent hold the semaphore at a fork, its copy in the
        # child is never released.
        self._by_process: dict[int, Any] = {}

    async def run(self, call: Callable[[], Any]) -> Any:
        from redis.exceptions import MaxConnectionsError

        give_up = clock.monotonic() + self._timeout
        make = asyncio.Semaphore if self._is_async else threading.Semaphore
        semaphore = self._by_process.setdefault(os.getpid(), make(self._count))
        if not await self._is_acquired(semaphore):
            raise TimeoutError(f"no connection became free for this store in {self._timeout:g} seconds")
        try:
            while True:
                try:
                    return await settled(call())
                except MaxConnectionsError:
                    if clock.monotonic() > give_up:
                        raise
                if self._is_async:
                    await asyncio.sleep(_PAUSE)
                else:
                    time.sleep(_PAUSE)  # noqa: ASYNC251  there is no event loop
        finally:
            semaphore.release()

    async def _is_acquired(self, semaphore: Any) -> bool:
        """Wait for the semaphore and take it. Return False if the timeout passes first."""
        if not self._is_async:
            return bool(semaphore.acquire(timeout=self._timeout))
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timeout):
                return bool(await semaphore.acquire())
        return False


class _Keys:
    """The methods of `RedisKeys` and `AsyncRedisKeys`, as coroutines."""

    def __init__(self, client: Any, prefix: str, timeout: float, *, is_async: bool) -> None:
        self._client = client
        self._prefix = prefix
        self._limit = _CallLimit(client, keys.checked_timeout(timeout), is_async=is_async)

    async def begin(self, key: bytes, fingerprint: bytes, *, token: bytes, lease: float) -> keys.Answer:
        begun = await self._run(_BEGIN, key, fingerprint, token, _millis(lease), _millis(keys.ABANDONED))
        verdict, value = begun[0].decode(), begun[-1]
        return keys.answer_of(verdict, value / 1000 if verdict == "in_progress" else value)

    async def renew(self, key: bytes, token: bytes, lease: float) -> bool:
        return bool(await self._run(_RENEW, key, token, _millis(lease), _millis(keys.ABANDONED)))

    async def finish(self, key: bytes, token: bytes, response: keys.StoredResponse, ttl: float) -> bool:
        return bool(await self._run(_FINISH, key, token, keys.encode(response), _millis(ttl)))

    async def release(self, key: bytes, token: bytes) -> None:
        await self._run(_RELEASE, key, token)

    async def clean(self, limit: int) -> int:  # noqa: ARG002
        """Do nothing: Redis deletes expired records by itself."""
        return 0

    async def _run(self, script: _Script, key: bytes, *values: bytes | int) -> Any:
        from redis.exceptions import NoScriptError, RedisError

        try:
            try:
                return await self._execute("EVALSHA", script.sha, key, *values)
            except NoScriptError:
                return await self._execute("EVAL", script.source, key, *values)
        except (RedisError, OSError) as error:
            raise keys.KeyStoreUnavailable(f"the Redis of the keys is not available now: {error}") from error

    async def _execute(self, name: str, script: str, key: bytes, *values: bytes | int) -> Any:
        """Run a script in Redis and return its result. Texts in the result are bytes, even if the client is set to
        decode responses.

        redis-py's `register_script` has no option that returns bytes.
        """
        command = (name, script, 1, f"{self._prefix}{key.hex()}", *values)
        return await self._limit.run(lambda: self._client.execute_command(*command, NEVER_DECODE=True))


class RedisKeys(keys.SyncKeyStore):
    def __init__(self, client: Any, *, prefix: str = PREFIX, timeout: float = 5.0) -> None:
        """`timeout`: seconds to wait for a connection of the client's pool. The store uses at most half of the
        pool."""
        if _is_async(client) is True:
            raise InvalidInput("RedisKeys is not async: give this client to AsyncRedisKeys")
        super().__init__(_Keys(client, prefix, timeout, is_async=False))


class AsyncRedisKeys(_Keys):
    def __init__(self, client: Any, *, prefix: str = PREFIX, timeout: float = 5.0) -> None:
        """`timeout`: as for `RedisKeys`."""
        if _is_async(client) is False:
            raise InvalidInput("AsyncRedisKeys needs an async client, such as redis.asyncio.Redis()")
        super().__init__(client, prefix, timeout, is_async=True)


def _is_async(client: Any) -> bool | None:
    """Return whether the client is async, or None if its class is not one of redis-py."""
    if not callable(getattr(client, "execute_command", None)):
        raise InvalidInput("give a client of redis-py, such as redis.Redis() or redis.asyncio.Redis()")
    for kind in type(client).__mro__:
        if kind.__module__.startswith("redis.asyncio."):
            return True
        if kind.__module__ in ("redis.client", "redis.cluster"):
            return False
    return None


def _millis(seconds: float) -> int:
    return max(1, round(seconds * 1000))
