"""Sweep: returns expired leases, turns deliveries into dead letters, stops failing endpoints, and finds stuck lanes.

The sweep gives up on a delivery if its time budget is used up, or if its endpoint was deleted. It pauses an endpoint
with too many dead letters in a day, and disables an endpoint that has failed for too long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hookline.model.lanes import LaneEvent
from hookline.model.states import EndpointStatus, Health, Reason
from hookline.model.sweep import SweepReport
from hookline.rules.lane.circuit import LaneOutcome
from hookline.store import rows
from hookline.store.bounds import FAR_LEASE
from hookline.store.plans.endpoint_state import stop
from hookline.store.plans.operational_events import of_deaths, write_events
from hookline.store.plans.sweep_locks import SweepLock
from hookline.store.postgres.clock import ClockGuard
from hookline.store.postgres.database import READ, Connection, Database, run_steps
from hookline.store.postgres.lanes import Lanes
from hookline.store.postgres.retire import Retention, guarded


class Sweep:
    def __init__(self, database: Database, lanes: Lanes) -> None:
        self._db = database
        self._sql = database.sql
        self._options = database.options
        self._lanes = lanes
        self.retire = Retention(database).retire
        self.sweep_clock = ClockGuard(database).sweep_clock

    async def sweep_leases(self, limit: int = 1000, *, overdue: float = 0.0) -> SweepReport:
        return await guarded(self._db, SweepLock.LEASES, lambda conn: self._sweep_leases(conn, limit, overdue))

    async def _sweep_leases(self, connection: Connection, limit: int, overdue: float) -> SweepReport:
        found = await connection.fetch(self._sql["sweep_leases_find"], limit, FAR_LEASE, overdue)
        if not found:
            return SweepReport()
        counted = sorted({row["endpoint_no"] for row in found if row["counted"]})
        lanes, now = await self._lanes.lock(connection, counted, counted)
        ids = [row["id"] for row in found]
        back = await connection.fetch(self._sql["sweep_leases_back"], ids, FAR_LEASE, overdue)
        if now is None:
            return SweepReport(leases=len(back))
        epochs = {lane.endpoint_no: lane.epoch for lane in lanes}
        outcomes: dict[int, list[LaneOutcome]] = {}
        for row in back:
            if row["counted"] and row["endpoint_no"] in epochs:
                lost = LaneOutcome(health=Health.NONE, epoch=epochs[row["endpoint_no"]], counted=True)
                outcomes.setdefault(row["endpoint_no"], []).append(lost)
        events = await self._lanes.fold(connection, lanes, outcomes, now)
        return SweepReport(leases=len(back), events=events)

    async def sweep_expired(self, limit: int = 1000) -> SweepReport:
        async def work(connection: Connection) -> SweepReport:
            dead = await connection.fetch(self._sql["sweep_expired"], limit)
            await run_steps(connection, self._sql, write_events(of_deaths(dead, Reason.BUDGET_EXHAUSTED, READ), READ))
            return SweepReport(deaths=tuple(rows.death(row, Reason.BUDGET_EXHAUSTED, READ) for row in dead))

        return await guarded(self._db, SweepLock.EXPIRED, work)

    async def sweep_deleted(self, limit: int = 1000) -> SweepReport:
        async def work(connection: Connection) -> SweepReport:
            dead = await connection.fetch(self._sql["sweep_deleted"], limit)
            await run_steps(connection, self._sql, write_events(of_deaths(dead, Reason.ENDPOINT_DELETED, READ), READ))
            await connection.execute(self._sql["sweep_lanes_drop"], limit)
            await connection.execute(self._sql["sweep_tokens"], limit)
            return SweepReport(deaths=tuple(rows.death(row, Reason.ENDPOINT_DELETED, READ) for row in dead))

        return await guarded(self._db, SweepLock.DELETED, work)

    async def sweep_failing(self, *, pause_dead: int, disable_after: float) -> SweepReport:
        async def work(connection: Connection) -> SweepReport:
            disabled = await self._disable_failing(connection, disable_after)
            paused = await self._pause_dying(connection, pause_dead)
            return SweepReport(paused=len(paused), disabled=len(disabled), events=paused + disabled)

        return await guarded(self._db, SweepLock.FAILING, work, any_scan=True)

    async def _pause_dying(self, connection: Connection, pause_dead: int) -> tuple[LaneEvent, ...]:
        found = await connection.fetch(self._sql["sweep_failing_dead"], pause_dead)
        causes = {row["endpoint_no"]: f"more than {pause_dead} dead letters in a day" for row in found}
        return await run_steps(connection, self._sql, stop(EndpointStatus.PAUSED, causes, self._options, READ))

    async def _disable_failing(self, connection: Connection, after: float) -> tuple[LaneEvent, ...]:
        found = await connection.fetch(self._sql["sweep_failing_long"], after)
        causes = {row["endpoint_no"]: f"failing since {row['failing_since']:%Y-%m-%d %H:%M:%S} UTC" for row in found}
        return await run_steps(connection, self._sql, stop(EndpointStatus.DISABLED, causes, self._options, READ))

    async def find_stuck_lanes(self, *, repair: bool) -> list[int]:
        async def work(connection: Connection) -> list[int]:
            asleep = await connection.fetch(self._sql["stuck_lanes"])
            if repair and asleep:
                await connection.execute(self._sql["stuck_lanes_wake"], *_columns(asleep))
            stuck = await connection.fetch(self._sql["stuck_queues"])
            if repair and stuck:
                await connection.execute(self._sql["stuck_queues_wake"], *_columns(stuck))
            return sorted({row["endpoint_no"] for row in (*asleep, *stuck)})

        return await self._db.transact(work, any_scan=True)


def _columns(found: Sequence[Any]) -> list[list[Any]]:
    return [list(column) for column in zip(*found, strict=True)]
