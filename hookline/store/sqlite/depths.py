"""Count depths in one snapshot, and cache the result in this process."""

from __future__ import annotations

import asyncio
from collections import Counter

from hookline import clock
from hookline.model import Counts, Depths
from hookline.model.states import DeliveryState
from hookline.store.plans.depths import LANES, Counted, by_name, cached_for, depths_of
from hookline.store.sqlite import relay
from hookline.store.sqlite.base import Base, WakeEvents
from hookline.store.sqlite.clock import instant
from hookline.store.sqlite.readers import Readers
from hookline.store.sqlite.transaction import Context, Tx
from hookline.store.sqlite.writer import Writer


class DepthsOf(Base):
    def __init__(self, writer: Writer, readers: Readers, context: Context, events: WakeEvents) -> None:
        super().__init__(writer, readers, context, events)
        self._cached: tuple[float, Depths] | None = None  # monotonic time of the count, and its result
        self._counting = asyncio.Lock()  # one count at a time, so that counting does not occupy every reader

    async def counts(self) -> Counts:
        return await self._read(_counts)

    async def depths(self, *, fresh: float = 0.0) -> Depths:
        if fresh <= 0:
            return await self._read(_count)
        cached = self._cached
        if cached is not None and self._counting.locked():
            return cached[1]
        async with self._counting:
            cached = self._cached
            if cached is None or clock.monotonic() - cached[0] >= cached_for(cached[1].seconds, fresh):
                cached = self._cached = (clock.monotonic(), await self._read(_count))
            return cached[1]


def _counts(tx: Tx) -> Counts:
    waiting = dict(tx.tuples("counts_waiting"))
    oldest = min((row["first_due"] for row in tx.rows("waiting_lanes")), default=None)
    return Counts(
        pending=waiting.get(DeliveryState.PENDING, 0),
        scheduled=waiting.get(DeliveryState.SCHEDULED, 0),
        queued=tx.value("counts_queued"),
        delivering=tx.value("counts_delivering"),
        dead=tx.value("counts_dead"),
        lanes_open=tx.value("counts_lanes_open"),
        oldest_due=None if oldest is None else instant(oldest),
    )


def _count(tx: Tx) -> Depths:
    began = clock.monotonic()
    found = _found(tx)
    return depths_of(found, tx.at, clock.monotonic() - began)


def _found(tx: Tx) -> Counted:
    now = {"now": tx.now}
    ((waiting, scheduled),) = tx.tuples("depths_waiting")
    due, held, first = 0, 0, []
    for back, in_lane, due_there, first_due in tx.tuples("depths_lanes", now):
        if back:
            held += in_lane
        elif due_there:
            due += due_there
            first.append(first_due)
    circuits: dict[int, int] = {}
    lanes: Counter[str] = Counter()
    for circuit, number, *states in tx.tuples("depths_circuits", now):
        circuits[circuit] = number
        lanes.update(dict(zip(LANES, states, strict=True)))
    return Counted(
        pending=waiting - scheduled,
        scheduled=scheduled,
        delivering=tx.value("counts_delivering"),
        queued=tx.value("counts_queued"),
        due=due,
        oldest_due=instant(min(first)) if first else None,
        held=held,
        dead=dict(tx.tuples("depths_dead")),
        circuits=circuits,
        lanes=lanes,
        outbox=relay.view(tx),
        alerts=by_name(tx.tuples("depths_alerts")),
    )
