"""Dead events and the clean-up of old rows. All functions work in the transaction of the given connection: commit it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from hookline.outbox import adapters
from hookline.outbox.coroutines import run_sync
from hookline.receive.inbox import queries, wake
from hookline.receive.inbox.checks import checked_age, checked_id, checked_ids, checked_step
from hookline.receive.inbox.model import DeadEvent

KEPT = timedelta(days=30)  # how long keys are kept: as long as a sender can replay a webhook
STEP = 1000  # rows of each table that one clean-up step deletes at most


def clean(conn: Any, older_than: float | timedelta = KEPT, *, limit: int = STEP) -> int:
    """Delete keys, copies and finished events that are older. Return how many rows were deleted, at most `limit` per table:

        while inbox.clean(conn):
            conn.commit()

    A copy that arrives after its key was deleted has an effect again. The report shows it, because effects are kept twice
    as long. Open and dead events stay.
    """
    return run_sync(queries.clean(adapters.of(conn), checked_age(older_than), checked_step(limit)))


async def clean_async(conn: Any, older_than: float | timedelta = KEPT, *, limit: int = STEP) -> int:
    return await queries.clean(adapters.of_async(conn), checked_age(older_than), checked_step(limit))


def dead(conn: Any, *, after: int = 0, limit: int = 100) -> list[DeadEvent]:
    """Return dead events, oldest first. `after` is the last id of the previous page."""
    return run_sync(queries.dead(adapters.of(conn), checked_id(after), checked_step(limit)))


async def dead_async(conn: Any, *, after: int = 0, limit: int = 100) -> list[DeadEvent]:
    return await queries.dead(adapters.of_async(conn), checked_id(after), checked_step(limit))


def replay(conn: Any, ids: int | Iterable[int]) -> int:
    """Let dead events start again, with all attempts and the whole time budget. Return how many were dead."""
    replayed = run_sync(queries.replay(adapters.of(conn), checked_ids(ids)))
    wake.wake_workers()
    return replayed


async def replay_async(conn: Any, ids: int | Iterable[int]) -> int:
    replayed = await queries.replay(adapters.of_async(conn), checked_ids(ids))
    wake.wake_workers()
    return replayed


def resolve(conn: Any, ids: int | Iterable[int]) -> int:
    """Close dead events without handling them. Their bodies are deleted, and copies are still ignored. Return how many."""
    return run_sync(queries.resolve(adapters.of(conn), checked_ids(ids)))


async def resolve_async(conn: Any, ids: int | Iterable[int]) -> int:
    return await queries.resolve(adapters.of_async(conn), checked_ids(ids))
