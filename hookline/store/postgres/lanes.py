"""Lock lanes and write their changes, for claim, record and sweep."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from hookline import clock
from hookline.model.lanes import Lane, LaneEvent, LaneEventKind
from hookline.rules.lane.circuit import Fold, LaneOutcome, fold
from hookline.rules.operational_events import of_lanes
from hookline.store import rows
from hookline.store.plans.operational_events import write_events
from hookline.store.postgres.database import READ, Connection, Database, run_steps

# endpoint number, time of the wake token, earliest due time of the deliveries that it announces
Wake = tuple[int, datetime, datetime]


class Lanes:
    """Locks lanes and writes them, in a transaction of the caller."""

    def __init__(self, database: Database) -> None:
        self._sql = database.sql
        self._circuit = database.options.circuit

    async def lock(
        self, connection: Connection, all_of: Sequence[int], always: Sequence[int]
    ) -> tuple[list[Lane], datetime | None]:
        """Lock the lanes in `always`, and those in `all_of` that are unhealthy. Return the locked lanes and the time
        at which the transaction started (None if no lane was locked).

        Lanes are locked in the order of endpoint numbers, so that concurrent transactions do not deadlock.
        """
        found = await connection.fetch(self._sql["record_lanes"], all_of, always)
        return [rows.lane(row, READ) for row in found], found[0]["now"] if found else None

    async def fold(
        self, connection: Connection, lanes: Sequence[Lane], outcomes: dict[int, list[LaneOutcome]], now: datetime
    ) -> tuple[LaneEvent, ...]:
        """Apply the outcomes to the locked lanes. Write changed lanes, events and wake tokens, and disable endpoints
        that answered 410 (Gone)."""
        folds = []
        for lane in lanes:
            found = outcomes.get(lane.endpoint_no)
            if found:
                folded = fold(lane, found, now=now, policy=self._circuit, chance=clock.chance)
                folds.append((lane, _with_revision(lane, folded)))
        await self.write(connection, [after.lane for before, after in folds if after.lane != before])
        await self.write_wakes(connection, [wake for _, after in folds if (wake := _wake_of(after)) is not None])
        events = tuple(event for _, after in folds for event in after.events)
        if events:
            await self._write_events(connection, events)
            await self._disable_gone(connection, events)
        return events

    async def write(self, connection: Connection, lanes: Sequence[Lane]) -> None:
        if lanes:
            columns = [[getattr(lane, name) for lane in lanes] for name in ("endpoint_no", *rows.LANE_WRITTEN)]
            await connection.execute(self._sql["lane_write"], *columns)

    async def write_wakes(self, connection: Connection, wakes: Sequence[Wake]) -> None:
        if wakes:
            columns = [list(column) for column in zip(*wakes, strict=True)]
            await connection.execute(self._sql["wake_lanes"], *columns)

    async def _write_events(self, connection: Connection, events: Sequence[LaneEvent]) -> None:
        await connection.execute(
            self._sql["lane_events_write"],
            [event.endpoint_no for event in events],
            [event.at for event in events],
            [event.kind.value for event in events],
            [event.cause for event in events],
            [rows.actor(event)[0] for event in events],
            [rows.actor(event)[1] for event in events],
        )
        await run_steps(connection, self._sql, write_events(of_lanes(events), READ))

    async def _disable_gone(self, connection: Connection, events: Sequence[LaneEvent]) -> None:
        disabled = [event for event in events if event.kind == LaneEventKind.ENDPOINT_DISABLED]
        if disabled:
            nos, causes = [event.endpoint_no for event in disabled], [event.cause for event in disabled]
            await connection.execute(self._sql["endpoints_disable"], nos, causes)


def _with_revision(before: Lane, folded: Fold) -> Fold:
    """Increase the revision of a changed lane if its status differs from before. The endpoint gets the same
    revision."""
    if folded.lane.status == before.status:
        return folded
    return replace(folded, lane=replace(folded.lane, revision=before.revision + 1))


def _wake_of(folded: Fold) -> Wake | None:
    if folded.wake_at is None or folded.wake_floor is None:
        return None
    return folded.lane.endpoint_no, folded.wake_at, folded.wake_floor
