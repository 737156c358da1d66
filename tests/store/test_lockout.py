"""Failed sign-ins, on both engines. A guess is counted before the password is checked, also for concurrent guesses."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from hookline.model.operators import Guesses
from hookline.store import Store
from hookline.store.plans.operators import GUESSES_KEPT
from tests.support.raw import Raw
from tests.support.timeshift import age

NAME, ADDRESS, OTHER = b"n" * 32, b"a" * 32, b"o" * 32
FREE, LOCKED = 3, timedelta(minutes=5)


def lock(known: Guesses | None, now: datetime) -> Guesses:
    """A rule that locks from the third guess on."""
    failures = 1 if known is None else known.failures + 1
    since = now if known is None else known.since
    return Guesses(failures=failures, since=since, locked_until=now + LOCKED if failures >= FREE else None)


async def test_the_first_guesses_are_not_locked(store: Store) -> None:
    assert [await store.access.take_guess({NAME: lock}) for _ in range(FREE)] == [None] * FREE
    until = await store.access.take_guess({NAME: lock})
    assert until is not None
    assert LOCKED - timedelta(seconds=30) < until - await store.now() <= LOCKED


async def test_the_stored_guesses_are_passed_to_the_rule(store: Store, raw: Raw) -> None:
    seen: list[Guesses | None] = []

    def watching(known: Guesses | None, now: datetime) -> Guesses:
        seen.append(known)
        return Guesses(failures=7, since=now - timedelta(hours=2), locked_until=now - timedelta(hours=1))

    before = await store.now()
    await store.access.take_guess({NAME: watching})
    await store.access.take_guess({NAME: watching})
    first, again = seen
    assert first is None
    assert again is not None
    assert again.failures == 7
    assert again.locked_until is not None
    assert before - timedelta(hours=2) <= again.since <= await store.now() - timedelta(hours=2)
    assert again.locked_until - again.since == timedelta(hours=1)


async def test_a_guess_during_a_lock_is_not_counted(store: Store, raw: Raw) -> None:
    for _ in range(FREE):
        await store.access.take_guess({NAME: lock})
    until = await store.access.take_guess({NAME: lock})
    before = await raw.rows("SELECT * FROM guess ORDER BY subject")

    assert await store.access.take_guess({ADDRESS: lock, NAME: lock}) == until
    assert await raw.rows("SELECT * FROM guess ORDER BY subject") == before
    assert await store.access.take_guess({ADDRESS: lock}) is None


async def test_the_longest_of_several_locks_applies(store: Store, raw: Raw) -> None:
    for _ in range(FREE):
        await store.access.take_guess({NAME: lock})
    await age(raw, 60)
    for _ in range(FREE):
        await store.access.take_guess({ADDRESS: lock})
    assert await store.access.take_guess({NAME: lock, ADDRESS: lock}) == await store.access.take_guess({ADDRESS: lock})
    assert await store.access.take_guess({ADDRESS: lock, NAME: lock}) == await store.access.take_guess({ADDRESS: lock})


async def test_a_lock_ends(store: Store, raw: Raw) -> None:
    for _ in range(FREE):
        await store.access.take_guess({NAME: lock})
    await age(raw, LOCKED.total_seconds() - 30)
    assert await store.access.take_guess({NAME: lock}) is not None
    await age(raw, 31)
    assert await store.access.take_guess({NAME: lock}) is None


async def test_a_correct_password_clears_the_failed_guesses(store: Store) -> None:
    for _ in range(FREE):
        await store.access.take_guess({NAME: lock})
        await store.access.take_guess({OTHER: lock})
    await store.access.forgive([NAME, ADDRESS])
    assert await store.access.take_guess({NAME: lock}) is None
    assert await store.access.take_guess({OTHER: lock}) is not None


async def test_concurrent_guesses_are_all_counted(store: Store, second: Store) -> None:
    """Two processes guess in different orders. Every guess is counted, and no process deadlocks."""
    counted: list[None] = []

    async def guess(handle: Store, subjects: list[bytes]) -> None:
        if await handle.access.take_guess(dict.fromkeys(subjects, lock)) is None:
            counted.append(None)

    async with asyncio.TaskGroup() as group:
        for number in range(20):
            subjects = [NAME, ADDRESS] if number % 4 < 2 else [ADDRESS, NAME]
            group.create_task(guess(store if number % 2 else second, subjects))
    assert len(counted) == FREE


async def test_each_subject_has_its_own_rule(store: Store) -> None:
    def strict(known: Guesses | None, now: datetime) -> Guesses:
        return Guesses(failures=1, since=now, locked_until=now + 2 * LOCKED)

    assert await store.access.take_guess({NAME: lock, ADDRESS: strict}) is None
    assert await store.access.take_guess({NAME: lock}) is None
    assert await store.access.take_guess({NAME: lock, ADDRESS: lock}) is not None


async def test_old_guesses_are_deleted(store: Store, raw: Raw) -> None:
    await store.access.take_guess({OTHER: lock})
    await age(raw, GUESSES_KEPT - 60)
    await store.access.take_guess({NAME: lock})
    assert (await store.upkeep.retire()).retired == 0
    await age(raw, 120)
    assert (await store.upkeep.retire()).retired == 1
    assert [bytes(row["subject"]) for row in await raw.rows("SELECT subject FROM guess")] == [NAME]
