"""Keys in Redis 6.2 or later, or Valkey: for any number of machines.

    keys = RedisKeys(redis.Redis())            # or a RedisCluster: each key is one record
    keys = AsyncRedisKeys(redis.asyncio.Redis())

Each verb is one script, run by Redis as a whole and timed by its clock; records expire by themselves. What Redis forgets runs
again: keep it from evicting (`maxmemory-policy noeviction`), and have it write its log (`appendonly yes`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hookline.errors import InvalidInput
from hookline.receive.idempotency.keys import (
    ABANDONED,
    Answer,
    Fresh,
    InProgress,
    KeyStoreUnavailable,
    Mismatch,
    Replay,
    StoredResponse,
    checked_timeout,
    decode,
    encode,
)
from hookline.receive.stores.redis_turns import AsyncTurns, Turns

__all__ = ["AsyncRedisKeys", "RedisKeys"]

PREFIX = "hookline:idempotency:"

_NOW = "local time = redis.call('TIME') local now = time[1] * 1000 + math.floor(time[2] / 1000)\n"


class _Script:
    def __init__(self, source: str) -> None:
        self.source = source
        self.sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()


# ARGV: fingerprint, token, lease, how long it stays after that. Times are milliseconds.
_BEGIN = _Script(
    _NOW
    + """
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
"""
)
# ARGV: token, lease, how long it stays after that.
_RENEW = _Script(
    _NOW
    + """
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] or redis.call('HEXISTS', KEYS[1], 'response') == 1 then return 0 end
local lease_until = now + ARGV[2]
redis.call('HSET', KEYS[1], 'lease_until', string.format('%.0f', lease_until))
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', lease_until + ARGV[3]))
return 1
"""
)
# ARGV: token, response, how long it is kept.
_FINISH = _Script(
    _NOW
    + """
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'response', ARGV[2])
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', now + ARGV[3]))
return 1
"""
)
# ARGV: token.
_RELEASE = _Script(
    """
if redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] or redis.call('HEXISTS', KEYS[1], 'response') == 1 then return 0 end
return redis.call('DEL', KEYS[1])
"""
)


class _Records:
    """What both faces have in common."""

    def __init__(self, client: Any, prefix: str) -> None:
        if not callable(getattr(client, "execute_command", None)):
            raise InvalidInput("give a client of redis-py, such as redis.Redis() or redis.asyncio.Redis()")
        self._client = client
        self._prefix = prefix

    def _command(self, name: str, script: str, key: bytes, *values: bytes | int) -> tuple[Any, ...]:
        return (name, script, 1, f"{self._prefix}{key.hex()}", *values)


def _is_async(client: Any) -> bool | None:
    """None: it is not of redis-py, and known only by what it does."""
    for kind in type(client).__mro__:
        if kind.__module__.startswith("redis.asyncio."):
            return True
        if kind.__module__ in ("redis.client", "redis.cluster"):
            return False
    return None


class RedisKeys(_Records):
    def __init__(self, client: Any, *, prefix: str = PREFIX, timeout: float = 5.0) -> None:
        """`timeout`: seconds to wait for a connection of the client's pool; the store takes half of them at most."""
        super().__init__(client, prefix)
        if _is_async(client) is True:
            raise InvalidInput("RedisKeys does not await: give this client to AsyncRedisKeys")
        self._turns = Turns(client, checked_timeout(timeout))

    def begin(self, key: bytes, fingerprint: bytes, *, token: bytes, lease: float) -> Answer:
        return _answer(self._run(_BEGIN, key, fingerprint, token, _millis(lease), _millis(ABANDONED)))

    def renew(self, key: bytes, token: bytes, lease: float) -> bool:
        return bool(self._run(_RENEW, key, token, _millis(lease), _millis(ABANDONED)))

    def finish(self, key: bytes, token: bytes, response: StoredResponse, ttl: float) -> bool:
        return bool(self._run(_FINISH, key, token, encode(response), _millis(ttl)))

    def release(self, key: bytes, token: bytes) -> None:
        self._run(_RELEASE, key, token)

    def clean(self, limit: int) -> int:  # noqa: ARG002
        """Nothing: records expire by themselves."""
        return 0

    def _run(self, script: _Script, key: bytes, *values: bytes | int) -> Any:
        from redis.exceptions import NoScriptError

        with _failing_closed():
            try:
                return self._execute(self._command("EVALSHA", script.sha, key, *values))
            except NoScriptError:
                return self._execute(self._command("EVAL", script.source, key, *values))

    def _execute(self, command: tuple[Any, ...]) -> Any:
        return self._turns.run(lambda: self._client.execute_command(*command, **_RAW))


class AsyncRedisKeys(_Records):
    def __init__(self, client: Any, *, prefix: str = PREFIX, timeout: float = 5.0) -> None:
        """`timeout`: as for `RedisKeys`."""
        super().__init__(client, prefix)
        if _is_async(client) is False:
            raise InvalidInput("AsyncRedisKeys needs a client that awaits, such as redis.asyncio.Redis()")
        self._turns = AsyncTurns(client, checked_timeout(timeout))

    async def begin(self, key: bytes, fingerprint: bytes, *, token: bytes, lease: float) -> Answer:
        return _answer(await self._run(_BEGIN, key, fingerprint, token, _millis(lease), _millis(ABANDONED)))

    async def renew(self, key: bytes, token: bytes, lease: float) -> bool:
        return bool(await self._run(_RENEW, key, token, _millis(lease), _millis(ABANDONED)))

    async def finish(self, key: bytes, token: bytes, response: StoredResponse, ttl: float) -> bool:
        return bool(await self._run(_FINISH, key, token, encode(response), _millis(ttl)))

    async def release(self, key: bytes, token: bytes) -> None:
        await self._run(_RELEASE, key, token)

    async def clean(self, limit: int) -> int:  # noqa: ARG002
        """Nothing: records expire by themselves."""
        return 0

    async def _run(self, script: _Script, key: bytes, *values: bytes | int) -> Any:
        from redis.exceptions import NoScriptError

        with _failing_closed():
            try:
                return await self._execute(self._command("EVALSHA", script.sha, key, *values))
            except NoScriptError:
                return await self._execute(self._command("EVAL", script.source, key, *values))

    async def _execute(self, command: tuple[Any, ...]) -> Any:
        return await self._turns.run(lambda: self._client.execute_command(*command, **_RAW))


# A client may be set to turn what it reads into text, which an answer's bytes need not be; `register_script` has no way to
# say so.
_RAW: dict[str, Any] = {"NEVER_DECODE": True}


def _answer(found: list[Any]) -> Answer:
    verdict, *value = found
    if verdict == b"fresh":
        return Fresh(value[0])
    if verdict == b"replay":
        return Replay(decode(value[0]))
    return InProgress(value[0] / 1000) if verdict == b"in_progress" else Mismatch()


def _millis(seconds: float) -> int:
    return max(1, round(seconds * 1000))


@contextmanager
def _failing_closed() -> Iterator[None]:
    from redis.exceptions import RedisError

    try:
        yield
    except (RedisError, OSError) as error:
        raise KeyStoreUnavailable(f"the Redis of the keys is not available now: {error}") from error
