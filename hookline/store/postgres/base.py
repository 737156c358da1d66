"""The base class of the engine's parts: the database, the vault and the conversion of rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from msgspec.structs import replace

from hookline import clock
from hookline.model import Lane, LaneEvent, LaneEventKind
from hookline.rules.lane.circuit import Fold, LaneOutcome, fold
from hookline.rules.operational_events import of_lanes
from hookline.security.vault import Vault
from hookline.store import rows
from hookline.store.plans.plan import Plan, Shared
from hookline.store.postgres.database import READ, Connection, Database, run, storable
from hookline.store.postgres.operational_events import write_events
from hookline.store.protocols import StoreOptions

T = TypeVar("T")


Wake = tuple[int, datetime, datetime]  # endpoint number, wake instant, floor


class Part(Shared):
    """A part of `PostgresStore`."""

    _reading = READ

    def __init__(self, database: Database, vault: Vault, options: StoreOptions) -> None:
        self._db = database
        self._sql = database.sql
        self._vault = vault
        self._options = options
        self._chance = clock.chance
        self._loop = asyncio.get_running_loop()
        self.task_added = asyncio.Event()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._loop.call_soon_threadsafe(self._woken.set)

    # ── shared plans ──

    async def _run_read(self, plan: Callable[[], Plan[T]], *, indexed: bool = False) -> T:
        with storable():
            async with self._db.indexed() if indexed else self._db.calm() as connection:
                return await run(connection, self._sql, plan())

    async def _run_change(self, plan: Callable[[], Plan[T]], *, indexed: bool = False) -> T:
        async def work(connection: Connection) -> T:
            return await run(connection, self._sql, plan())

        with storable():
            return await self._db.transact(work, calm=not indexed)

    # ── lanes, under their locks ──

    async def _lock_lanes(
        self, connection: Connection, all_of: Sequence[int], always: Sequence[int]
    ) -> tuple[list[Lane], datetime | None]:
        """Lock the lanes in `always`, and the unhealthy ones of the others. They are locked in endpoint order, so that
        concurrent recorders do not deadlock."""
        found = await connection.fetch(self._sql["record_lanes"], all_of, always)
        return [rows.lane(row, READ) for row in found], found[0]["now"] if found else None

    async def _fold_lanes(
        self, connection: Connection, lanes: Sequence[Lane], outcomes: dict[int, list[LaneOutcome]], now: datetime
    ) -> tuple[LaneEvent, ...]:
        """Apply the outcomes to the locked lanes. Write changed lanes, events, tokens and endpoints that are gone
        (410)."""
        folds = []
        for lane in lanes:
            found = outcomes.get(lane.endpoint_no)
            if found:
                folded = fold(lane, found, now=now, policy=self._options.circuit, chance=self._chance)
                folds.append((lane, _with_revision(lane, folded)))
        await self._write_lanes(connection, [after.lane for before, after in folds if after.lane != before])
        await self._write_wakes(connection, [wake for _, after in folds if (wake := _wake_of(after)) is not None])
        events = tuple(event for _, after in folds for event in after.events)
        if events:
            await self._write_lane_events(connection, events)
            await self._disable_gone(connection, events)
        return events

    async def _write_lanes(self, connection: Connection, lanes: Sequence[Lane]) -> None:
        if lanes:
            columns = [[getattr(lane, name) for lane in lanes] for name in ("endpoint_no", *rows.LANE_WRITTEN)]
            await connection.execute(self._sql["lane_write"], *columns)

    async def _write_wakes(self, connection: Connection, wakes: Sequence[Wake]) -> None:
        if wakes:
            columns = [list(column) for column in zip(*wakes, strict=True)]
            await connection.execute(self._sql["wake_lanes"], *columns)

    async def _write_lane_events(
        self, connection: Connection, events: Sequence[LaneEvent], *, by_hand: bool = False
    ) -> None:
        await connection.execute(
            self._sql["lane_events_write"],
            [event.endpoint_no for event in events],
            [event.at for event in events],
            [event.kind.value for event in events],
            [event.cause for event in events],
            [rows.actor(event)[0] for event in events],
            [rows.actor(event)[1] for event in events],
        )
        await write_events(connection, self._sql, of_lanes(events, by_hand=by_hand))

    async def _disable_gone(self, connection: Connection, events: Sequence[LaneEvent]) -> None:
        disabled = [event for event in events if event.kind == LaneEventKind.ENDPOINT_DISABLED]
        if disabled:
            nos, causes = [event.endpoint_no for event in disabled], [event.cause for event in disabled]
            await connection.execute(self._sql["endpoints_disable"], nos, causes)


def _with_revision(before: Lane, folded: Fold) -> Fold:
    """Set the lane's new revision if its status changed. The endpoint gets the same revision."""
    if folded.lane.status == before.status:
        return folded
    return replace(folded, lane=replace(folded.lane, revision=before.revision + 1))


def _wake_of(folded: Fold) -> Wake | None:
    if folded.wake_at is None or folded.wake_floor is None:
        return None
    return folded.lane.endpoint_no, folded.wake_at, folded.wake_floor
