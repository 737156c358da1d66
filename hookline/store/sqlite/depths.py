"""Count deliveries, dead letters, lanes and outbox rows in one snapshot, and cache the result in this process."""

from __future__ import annotations

import asyncio

from hookline import clock
from hookline.model.depths import Depths
from hookline.store.bounds import COUNTED
from hookline.store.plans.depths import Counted, cached_for, depths_of
from hookline.store.rows.reading import maybe
from hookline.store.sqlite.clock import instant
from hookline.store.sqlite.database import Database
from hookline.store.sqlite.transaction import Tx


class DepthCount:
    def __init__(self, database: Database) -> None:
        self._db = database
        self._cached: tuple[float, Depths] | None = None  # monotonic time of the count, and its result
        self._counting = asyncio.Lock()  # one count at a time, so that counting does not occupy every reader

    async def depths(self, *, fresh: float = 0.0) -> Depths:
        if fresh <= 0:
            return await self._db.read(_count)
        cached = self._cached
        if cached is not None and self._counting.locked():
            return cached[1]
        async with self._counting:
            cached = self._cached
            if cached is None or clock.monotonic() - cached[0] >= cached_for(cached[1].seconds, fresh):
                cached = self._cached = (clock.monotonic(), await self._db.read(_count))
            return cached[1]


def _count(tx: Tx) -> Depths:
    began = clock.monotonic()
    found = _found(tx)
    return depths_of(found, tx.at, clock.monotonic() - began)


def _found(tx: Tx) -> Counted:
    now = {"now": tx.now}
    ((waiting, scheduled),) = tx.tuples("depths_waiting")
    ((delivering, queued),) = tx.tuples("depths_open")
    (outbox,) = tx.rows("outbox", {"max_rows": COUNTED})
    due, held, first = 0, 0, []
    for back, in_lane, due_there, first_due in tx.tuples("depths_lanes", now):
        if back:
            held += in_lane
        elif due_there:
            due += due_there
            first.append(first_due)
    circuits = tx.rows("depths_circuits", now)
    lanes = {name: sum(row[name] for row in circuits) for name in ("paused", "disabled", "held_lanes", "slowed")}
    return Counted(
        pending=waiting - scheduled,
        scheduled=scheduled,
        delivering=delivering,
        queued=queued,
        due=due,
        oldest_due=instant(min(first)) if first else None,
        held=held,
        **lanes,
        outbox_waiting=outbox["waiting"],
        outbox_oldest=maybe(instant, outbox["oldest"]),
        outbox_set_aside=outbox["set_aside"],
        dead=dict(tx.tuples("depths_dead")),
        circuits={row["circuit"]: row["number"] for row in circuits},
        alerts=tx.tuples("depths_alerts"),
    )
