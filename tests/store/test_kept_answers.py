"""Stored answers to POST requests with an idempotency key: one holder at a time, encrypted, and deleted in time."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from hookline.errors import VaultError
from hookline.store import Store
from tests.support.raw import Raw
from tests.support.timeshift import age

KEY, REQUEST, OTHER = b"k" * 32, b"r" * 32, b"o" * 32
SECRET = b'{"key":"hk_shown_once"}'


async def hold(store: Store, request: bytes = REQUEST, seconds: float = 30.0) -> int:
    held = await store.access.hold_answer(KEY, request, seconds)
    assert held.claim is not None
    assert (held.request, held.status) == (request, None)
    return held.claim


async def test_a_stored_answer_is_returned_to_a_repeated_request(store: Store, second: Store) -> None:
    claim = await hold(store)
    assert await store.access.keep_answer(KEY, claim, 201, SECRET)

    for handle in (store, second):
        for found in (await handle.access.hold_answer(KEY, REQUEST, 30), await handle.access.answer(KEY)):
            assert found is not None
            assert (found.claim, found.request, found.status, found.response) == (None, REQUEST, 201, SECRET)
    assert (await store.access.hold_answer(KEY, OTHER, 30)).request == REQUEST


async def test_only_one_request_holds_a_key(store: Store, second: Store) -> None:
    held = await asyncio.gather(*(handle.access.hold_answer(KEY, REQUEST, 30) for handle in (store, second) * 5))
    assert len([each for each in held if each.claim is not None]) == 1
    assert {each.request for each in held} == {REQUEST}
    seen = await store.access.answer(KEY)
    assert seen is not None
    assert (seen.claim, seen.status) == (None, None)
    assert (await store.access.hold_answer(KEY, OTHER, 30)).claim is None


async def test_an_expired_lease_is_taken_over_by_the_same_request(store: Store, raw: Raw) -> None:
    first = await hold(store, seconds=30)
    await age(raw, 31)
    assert await store.access.answer(KEY) is None
    stranger = await store.access.hold_answer(KEY, OTHER, 30)
    assert (stranger.claim, stranger.request) == (None, REQUEST)
    second = await hold(store)

    assert not await store.access.keep_answer(KEY, first, 201, b"late")
    assert not await store.access.renew_answer(KEY, first, 30)
    await store.access.drop_answer(KEY, first)
    assert await store.access.keep_answer(KEY, second, 200, b"in time")
    found = await store.access.answer(KEY)
    assert found is not None
    assert (found.status, found.response) == (200, b"in time")


async def test_a_lease_can_be_renewed(store: Store, raw: Raw) -> None:
    claim = await hold(store, seconds=30)
    await age(raw, 20)
    assert await store.access.renew_answer(KEY, claim, 30)
    await age(raw, 20)
    assert (await store.access.hold_answer(KEY, REQUEST, 30)).claim is None
    assert await store.access.keep_answer(KEY, claim, 204, b"")
    assert not await store.access.renew_answer(KEY, claim, 30)


async def test_a_dropped_request_leaves_the_key_free(store: Store) -> None:
    claim = await hold(store)
    await store.access.drop_answer(KEY, claim)
    assert await store.access.answer(KEY) is None
    claim = await hold(store, OTHER)
    assert await store.access.keep_answer(KEY, claim, 201, b"{}")
    await store.access.drop_answer(KEY, claim)
    found = await store.access.answer(KEY)
    assert found is not None
    assert found.status == 201


@pytest.mark.store_options(idempotency_hours=2.0)
async def test_an_answer_is_deleted_after_its_time(store: Store, raw: Raw) -> None:
    assert await store.access.keep_answer(KEY, await hold(store), 201, SECRET)
    await age(raw, 2 * 3600 - 60)
    await store.upkeep.retire()
    assert await store.access.answer(KEY) is not None
    await age(raw, 120)
    assert await store.access.answer(KEY) is None
    assert (await store.upkeep.retire()).retired == 1
    assert await raw.count("answer") == 0
    await hold(store, OTHER)


@pytest.mark.store_options(idempotency_hours=2.0)
async def test_an_expired_key_is_free_before_retention_deletes_it(store: Store, raw: Raw) -> None:
    assert await store.access.keep_answer(KEY, await hold(store), 201, SECRET)
    await age(raw, 2 * 3600 + 1)
    claim = await hold(store, OTHER)
    found = await store.access.answer(KEY)
    assert found is not None
    assert (found.status, found.response, found.request) == (None, b"", OTHER)
    assert await store.access.keep_answer(KEY, claim, 200, b"new")


async def test_answers_are_encrypted_and_bound_to_their_row(store: Store, raw: Raw) -> None:
    assert await store.access.keep_answer(KEY, await hold(store), 201, SECRET)
    (row,) = await raw.rows("SELECT response FROM answer")
    assert b"hk_" not in bytes(row["response"])
    await raw.execute("UPDATE answer SET key = $1", b"x" * 32)
    with pytest.raises(VaultError):
        await store.access.answer(b"x" * 32)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_a_lease_made_while_the_clock_was_ahead_does_not_lock_the_key(store: Store, raw: Raw) -> None:
    await hold(store)
    ahead = await store.now() + timedelta(days=365)
    await raw.execute("UPDATE answer SET held_until = $1, expires_at = $1", ahead)
    assert await store.access.answer(KEY) is None
    await hold(store)
