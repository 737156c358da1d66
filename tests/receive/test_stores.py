"""The behaviour that every store of keys must have, sync and async."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import asyncpg
import psycopg
import pytest
import redis
import redis.asyncio

from hookline.errors import InvalidInput
from hookline.receive.idempotency.keys import (
    ABANDONED,
    Fresh,
    InProgress,
    Mismatch,
    Replay,
    StoredResponse,
    key_of,
)
from hookline.receive.stores.postgres import AsyncPostgresKeys, PostgresKeys
from hookline.receive.stores.redis import AsyncRedisKeys, RedisKeys
from hookline.receive.stores.sqlite import AsyncSqliteKeys, SqliteKeys
from tests.receive.stages import LEASE, TTL, Copy, Stage

OTHER = b"o" * 32
DONE = StoredResponse(200, ((b"content-type", b"text/plain"),), b"done")
DONE_ELSEWHERE = StoredResponse(201, ((b"content-type", b"text/html"),), b"done elsewhere")


# ── begin ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_first_copy_is_fresh(stage: Stage) -> None:
    assert await stage.copy().begin() == Fresh(1)


async def test_the_next_copy_is_told_how_long_the_lease_lasts(stage: Stage) -> None:
    first, second = stage.copies(2)
    await first.begin(lease=30)
    await stage.age(first.key, 20)
    answer = await second.begin(lease=77)
    assert isinstance(answer, InProgress)
    assert 0 < answer.retry_after <= 10


async def test_keys_are_independent(stage: Stage) -> None:
    first, second = stage.copy(), stage.copy()
    assert await first.begin() == Fresh(1)
    assert await second.begin() == Fresh(1)
    assert await first.finish(DONE)
    assert await second.finish(DONE_ELSEWHERE)
    assert await stage.copy(first.key).begin() == Replay(DONE)
    assert await stage.copy(second.key).begin() == Replay(DONE_ELSEWHERE)


async def test_scopes_are_independent(stage: Stage) -> None:
    scopes = [["acme", "/orders"], ["acme", "/orders/"], ["ac", "me/orders"], ["acme"], []]
    copies = [stage.copy(key_of(scope, "evt_1")) for scope in scopes]
    assert [await copy.begin() for copy in copies] == [Fresh(1)] * len(scopes)


@pytest.mark.parametrize("given", ["k" * 1_000_000, "\0", "", "\ud800", "ключ", b"\xff\x00\xfe", "a'b\"c\\d%s$1{x}"])
async def test_any_key_of_a_caller_can_be_kept(stage: Stage, given: str | bytes) -> None:
    key = key_of(["acme"], given)
    first = stage.copy(key)
    assert await first.begin() == Fresh(1)
    assert await first.finish(DONE)
    assert await stage.copy(key).begin() == Replay(DONE)


@pytest.mark.parametrize("raw", [bytes(32), b"\xff" * 32, b"'\"\\\0%s$1?:a{}" + bytes(19)])
async def test_keys_fingerprints_and_tokens_are_any_bytes(stage: Stage, raw: bytes) -> None:
    copy = stage.copy(raw, fingerprint=raw)
    copy.token = raw
    assert await copy.begin() == Fresh(1)
    assert isinstance(await stage.copy(raw, fingerprint=raw).begin(), InProgress)
    assert await stage.copy(raw, fingerprint=raw[:-1]).begin() == Mismatch()
    assert await copy.renew()
    assert await copy.finish(DONE)
    assert await stage.copy(raw, fingerprint=raw).begin() == Replay(DONE)


async def test_another_request_under_the_key_is_a_mismatch_while_it_runs_and_after(stage: Stage) -> None:
    first = stage.copy()
    await first.begin()
    other = stage.copy(first.key, fingerprint=OTHER)
    assert await other.begin() == Mismatch()
    await first.finish(DONE)
    assert await other.begin() == Mismatch()
    other.token = first.token
    assert await other.begin() == Mismatch()
    assert await stage.copy(first.key).begin() == Replay(DONE)


async def test_begin_can_be_repeated_after_a_lost_answer(stage: Stage) -> None:
    copy = stage.copy()
    assert await copy.begin() == Fresh(1)
    assert await copy.begin() == Fresh(1)
    assert isinstance(await stage.copy(copy.key).begin(), InProgress)
    assert await copy.finish(DONE)
    assert await copy.begin() == Replay(DONE)


# ── finish ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "response",
    [
        StoredResponse(204, (), b""),
        StoredResponse(200, ((b"Set-Cookie", b"a=1"), (b"set-cookie", b"b=2"), (b"Set-Cookie", b"a=1")), b"\0"),
        StoredResponse(299, ((b"x-empty", b""), (b"x-latin", b"caf\xe9 \xff\x80")), bytes(range(256))),
        StoredResponse(200, tuple((b"x-%d" % n, b"v" * n) for n in range(200)), b"\xff\xfe" * 524_288),
    ],
    ids=["empty", "twice the same header", "all bytes", "a megabyte"],
)
async def test_a_replay_is_exact(stage: Stage, response: StoredResponse) -> None:
    copy = stage.copy()
    await copy.begin()
    assert await copy.finish(response)
    assert await stage.copy(copy.key).begin() == Replay(response)
    assert await stage.copy(copy.key).begin() == Replay(response)


async def test_finish_can_be_repeated_after_a_lost_answer(stage: Stage) -> None:
    copy = stage.copy()
    await copy.begin()
    assert await copy.finish(DONE)
    assert await copy.finish(DONE)
    assert await stage.copy(copy.key).begin() == Replay(DONE)


async def test_finish_without_begin_fails(stage: Stage) -> None:
    copy = stage.copy()
    assert not await copy.finish(DONE)
    assert not await copy.renew()
    await copy.release()
    assert await stage.copy(copy.key).begin() == Fresh(1)


async def test_a_finished_key_is_neither_renewed_nor_released(stage: Stage) -> None:
    copy = stage.copy()
    await copy.begin()
    await copy.finish(DONE, ttl=40)
    assert not await copy.renew(lease=500)
    await copy.release()
    assert await stage.copy(copy.key).begin() == Replay(DONE)
    await stage.age(copy.key, 41)
    assert await stage.copy(copy.key).begin() == Fresh(1)


# ── leases ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_renewed_lease_lasts(stage: Stage) -> None:
    first, second = stage.copies(2)
    await first.begin(lease=30)
    await stage.age(first.key, 20)
    assert await first.renew(lease=30)
    await stage.age(first.key, 20)
    answer = await second.begin()
    assert isinstance(answer, InProgress)
    assert 0 < answer.retry_after <= 10


async def test_only_the_same_request_takes_over_an_expired_lease(stage: Stage) -> None:
    first, second, third = stage.copies(3)
    await first.begin()
    await stage.age(first.key, LEASE + 1)
    assert await stage.copy(first.key, fingerprint=OTHER).begin() == Mismatch()
    assert await second.begin() == Fresh(2)
    assert isinstance(await third.begin(), InProgress)
    await stage.age(first.key, LEASE + 1)
    assert await third.begin() == Fresh(3)


async def test_the_old_holder_changes_nothing(stage: Stage) -> None:
    old, new = stage.copies(2)
    await old.begin()
    await stage.age(old.key, LEASE + 1)
    await new.begin()
    await _is_powerless(old)
    assert isinstance(await stage.copy(old.key).begin(), InProgress)
    assert await new.renew()
    assert await new.finish(DONE)
    await _is_powerless(old)
    assert await stage.copy(old.key).begin() == Replay(DONE)


async def _is_powerless(copy: Copy) -> None:
    assert not await copy.finish(DONE_ELSEWHERE)
    assert not await copy.renew()
    await copy.release()


@pytest.mark.parametrize("verb", ["renew", "finish", "begin"])
async def test_an_expired_lease_stays_with_its_holder_until_another_takes_it(stage: Stage, verb: str) -> None:
    first, second = stage.copies(2)
    await first.begin()
    await stage.age(first.key, LEASE + 1)
    if verb == "finish":
        assert await first.finish(DONE)
        assert await second.begin() == Replay(DONE)
        return
    assert await (first.renew() if verb == "renew" else first.begin()) in (True, Fresh(1))
    assert isinstance(await second.begin(), InProgress)


async def test_release_frees_the_key_for_every_request(stage: Stage) -> None:
    first = stage.copy()
    await first.begin()
    await stage.copy(first.key).release()
    assert isinstance(await stage.copy(first.key).begin(), InProgress)
    await first.release()
    assert not await first.finish(DONE)
    assert await stage.copy(first.key, fingerprint=OTHER).begin() == Fresh(1)


# ── expiry ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_answer_is_kept_for_its_ttl(stage: Stage) -> None:
    first = stage.copy()
    await first.begin()
    await first.finish(DONE)
    await stage.age(first.key, TTL - 60)
    assert await stage.copy(first.key).begin() == Replay(DONE)
    await stage.age(first.key, 61)
    other = stage.copy(first.key, fingerprint=OTHER)
    assert await other.begin() == Fresh(1)
    await _is_powerless(first)
    assert isinstance(await stage.copy(first.key, fingerprint=OTHER).begin(), InProgress)
    assert await other.finish(DONE_ELSEWHERE)
    assert await stage.copy(first.key, fingerprint=OTHER).begin() == Replay(DONE_ELSEWHERE)


async def test_an_abandoned_key_stays_bound_to_its_request_until_it_expires(stage: Stage) -> None:
    first = stage.copy()
    await first.begin()
    await stage.age(first.key, ABANDONED - 60)
    assert await first.renew()
    await stage.age(first.key, LEASE + ABANDONED - 60)
    other = stage.copy(first.key, fingerprint=OTHER)
    assert await other.begin() == Mismatch()
    await stage.age(first.key, 61)
    assert await other.begin() == Fresh(1)


async def test_clean_removes_what_has_expired_and_nothing_else(stage: Stage) -> None:
    finished, running, dead, abandoned, *expired = copies = [stage.copy() for _ in range(7)]
    for copy in copies:
        await copy.begin()
    for copy in (finished, *expired):
        await copy.finish(DONE)
    await stage.age(dead.key, LEASE + 1)
    await stage.age(abandoned.key, LEASE + ABANDONED + 1)
    for seconds, copy in enumerate(expired, 1):
        await stage.age(copy.key, TTL + seconds)
    cleaned = [await stage.keys.clean(limit) for limit in (3, 100, 100)]
    assert cleaned == ([0, 0, 0] if stage.cleans_itself else [3, 1, 0])
    assert await stage.count() == 3
    assert await stage.copy(finished.key).begin() == Replay(DONE)
    assert isinstance(await stage.copy(running.key).begin(), InProgress)
    assert await stage.copy(dead.key).begin() == Fresh(2)


# ── concurrent calls ──────────────────────────────────────────────────────────────────────────────────────────────


def _sorts(answers: list[object]) -> Counter[str]:
    return Counter(type(answer).__name__ for answer in answers)


async def test_of_25_concurrent_copies_one_is_fresh(stage: Stage) -> None:
    for _ in range(4):
        copies = stage.copies(25)
        answers = await asyncio.gather(*(copy.begin() for copy in copies))
        assert _sorts(answers) == {"Fresh": 1, "InProgress": 24}
        assert all(0 < answer.retry_after < LEASE + 1 for answer in answers if isinstance(answer, InProgress))
        finished = await asyncio.gather(*(copy.finish(DONE) for copy in copies))
        assert finished == [answer == Fresh(1) for answer in answers]
        again = await asyncio.gather(*(stage.copy(copies[0].key).begin() for _ in range(25)))
        assert again == [Replay(DONE)] * 25


@pytest.mark.parametrize(("passed", "run"), [(LEASE + 1, 2), (LEASE + ABANDONED + 1, 1)], ids=["lease over", "expired"])
async def test_of_25_concurrent_takeovers_one_is_fresh(stage: Stage, passed: float, run: int) -> None:
    for _ in range(3):
        dead = stage.copy()
        await dead.begin()
        await stage.age(dead.key, passed)
        answers = await asyncio.gather(
            *(stage.copy(dead.key).begin() for _ in range(25)), *(stage.keys.clean(10) for _ in range(3))
        )
        assert _sorts(answers[:25]) == {"Fresh": 1, "InProgress": 24}
        assert Fresh(run) in answers[:25] or Fresh(1) in answers[:25]


async def test_of_two_different_concurrent_requests_with_one_key_one_wins(stage: Stage) -> None:
    key = stage.copy().key
    copies = [stage.copy(key, fingerprint) for fingerprint in (b"a" * 32, OTHER) * 12]
    answers = await asyncio.gather(*(copy.begin() for copy in copies))
    assert _sorts(answers) == {"Fresh": 1, "InProgress": 11, "Mismatch": 12}


async def test_concurrent_begin_and_release_never_fail(stage: Stage) -> None:
    """Each caller that gets the key releases it at once. The others find it released or held by yet another caller."""
    key, held, most = stage.copy().key, 0, 0

    async def take_turns() -> int:
        nonlocal held, most
        taken = 0
        for copy in itertools.islice(iter(lambda: stage.copy(key), None), 12):
            if isinstance(await copy.begin(), Fresh):
                held, taken = held + 1, taken + 1
                most = max(most, held)
                await asyncio.sleep(0)
                held -= 1
                await copy.release()
        return taken

    taken = await asyncio.gather(*(take_turns() for _ in range(8)))
    assert sum(taken) >= 1
    assert most == 1


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), "5", None])
def test_a_timeout_is_a_number_of_seconds(keys_file: str, timeout: Any) -> None:
    """A wrong timeout is refused when the store is created, and not at the first request."""
    makes: list[Callable[[], object]] = [
        lambda: SqliteKeys(keys_file, timeout=timeout),
        lambda: AsyncSqliteKeys(keys_file, timeout=timeout),
        lambda: PostgresKeys(psycopg.connect, timeout=timeout),
        lambda: AsyncPostgresKeys(asyncpg.create_pool, timeout=timeout),
        lambda: RedisKeys(redis.Redis(), timeout=timeout),
        lambda: AsyncRedisKeys(redis.asyncio.Redis(), timeout=timeout),
    ]
    for make in makes:
        with pytest.raises(InvalidInput, match="timeout: a number of seconds"):
            make()
