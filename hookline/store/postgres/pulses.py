"""Pulses: written by each process, read by whoever wants to see the fleet, rolled up by the sweep."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from hookline.model import SweepReport
from hookline.observe.activity import ALL, Activity, Deed
from hookline.observe.pulse import Pulse
from hookline.store.activity import KEPT, MOST_RETIRED, activity, counted
from hookline.store.postgres.database import READ, Connection
from hookline.store.postgres.sweep import Chore, Sweep
from hookline.store.pulses import MOST_READ, MOST_ROLLED, encode, minutes, read


class Pulses(Sweep):
    async def add_pulse(self, process: str, pulse: Pulse, deeds: Sequence[Deed] = ()) -> None:
        written = [(app_no, no, *numbers) for (app_no, no), numbers in counted(deeds)]

        async def work(connection: Connection) -> None:
            await connection.execute(self._sql["pulse_add"], process, encode(pulse))
            if written:
                await connection.execute(self._sql["activity_add"], *map(list, zip(*written, strict=True)))
                whole = [(app_no, *numbers) for app_no, no, *numbers in written if no == ALL]
                await connection.execute(self._sql["org_activity_add"], *map(list, zip(*whole, strict=True)))

        await self._db.transact(work, calm=True)

    async def activity(
        self, since: datetime, *, org_id: str, app_no: int | None = None, endpoint_no: int | None = None, grain: int
    ) -> list[Activity]:
        if app_no is None:
            found = await self._db.fetch("org_activity", org_id, grain, since)
        else:
            no = ALL if endpoint_no is None else endpoint_no
            found = await self._db.fetch("activity", org_id, app_no, no, grain, since)
        return [activity(row, READ) for row in found]

    async def endpoint_activity(
        self, nos: Sequence[tuple[int, int]], since: datetime, *, grain: int, first: datetime, step: timedelta
    ) -> dict[int, list[Activity]]:
        apps, endpoints = [app_no for app_no, _ in nos], [endpoint_no for _, endpoint_no in nos]
        found: dict[int, list[Activity]] = {endpoint_no: [] for endpoint_no in endpoints}
        for row in await self._db.fetch("endpoint_activity", apps, endpoints, grain, since, first, step):
            found[row["endpoint_no"]].append(activity(row, READ))
        return found

    async def pulses(self, since: datetime, until: datetime | None = None, *, minutes: bool = False) -> list[Pulse]:
        found = await self._db.fetch("pulses", int(minutes), since, until, MOST_READ)
        return [read(row, READ) for row in found]

    async def roll_pulses(self) -> SweepReport:
        async def work(connection: Connection) -> SweepReport:
            found = await connection.fetch(self._sql["pulses_unrolled"], MOST_ROLLED)
            for minute in minutes(found, READ, full=len(found) == MOST_ROLLED):
                await connection.execute(self._sql["pulse_roll"], minute.at, encode(minute))
            await connection.execute(self._sql["pulses_retire"])
            for grain, seconds in KEPT.items():
                await connection.execute(self._sql["activity_retire"], grain, seconds, MOST_RETIRED)
                await connection.execute(self._sql["org_activity_retire"], grain, seconds, MOST_RETIRED)
            return SweepReport()

        return await self._guarded(Chore.PULSES, work, calm=True)
