"""Dead events, and what is too old. Everything is done in the transaction of the connection that is given; commit it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from hookline import clock
from hookline.receive.inbox import adapters, plans, wake
from hookline.receive.inbox.checks import checked_age, checked_id, checked_ids, checked_step
from hookline.receive.inbox.model import DeadEvent

KEPT = timedelta(days=30)  # as long as a sender can replay
STEP = 1000


def clean(conn: Any, older_than: float | timedelta = KEPT, *, limit: int = STEP) -> int:
    """Forget keys, copies and finished events that are older; how many rows went. At most `limit` of each kind at a time:

        while inbox.clean(conn):
            conn.commit()

    A copy that comes after its key has gone has an effect again, and the report shows it: effects are kept twice as long. Open
    and dead events stay.
    """
    on = adapters.of(conn)
    return plans.run(on, plans.clean(on.engine, clock.wall(), checked_age(older_than), checked_step(limit)))


async def clean_async(conn: Any, older_than: float | timedelta = KEPT, *, limit: int = STEP) -> int:
    on = adapters.of_async(conn)
    plan = plans.clean(on.engine, clock.wall(), checked_age(older_than), checked_step(limit))
    return await plans.run_async(on, plan)


def dead(conn: Any, *, after: int = 0, limit: int = 100) -> list[DeadEvent]:
    """Events that were given up, oldest first; `after` is the last id of the page before."""
    on = adapters.of(conn)
    return plans.run(on, plans.dead(on.engine, checked_id(after), checked_step(limit)))


async def dead_async(conn: Any, *, after: int = 0, limit: int = 100) -> list[DeadEvent]:
    on = adapters.of_async(conn)
    return await plans.run_async(on, plans.dead(on.engine, checked_id(after), checked_step(limit)))


def replay(conn: Any, ids: int | Iterable[int]) -> int:
    """Dead events start anew, with all their attempts and their whole time budget; how many there were."""
    on = adapters.of(conn)
    revived = plans.run(on, plans.revive(on.engine, clock.wall(), checked_ids(ids)))
    wake.ring()
    return revived


async def replay_async(conn: Any, ids: int | Iterable[int]) -> int:
    on = adapters.of_async(conn)
    revived = await plans.run_async(on, plans.revive(on.engine, clock.wall(), checked_ids(ids)))
    wake.ring()
    return revived


def resolve(conn: Any, ids: int | Iterable[int]) -> int:
    """Dead events are laid to rest: their bodies go, and a copy is still a copy; how many there were."""
    on = adapters.of(conn)
    return plans.run(on, plans.resolve(on.engine, clock.wall(), checked_ids(ids)))


async def resolve_async(conn: Any, ids: int | Iterable[int]) -> int:
    on = adapters.of_async(conn)
    return await plans.run_async(on, plans.resolve(on.engine, clock.wall(), checked_ids(ids)))
