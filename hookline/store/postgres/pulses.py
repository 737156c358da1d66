"""Pulses: written by each process, read by whoever wants to see the fleet, rolled up by the sweep."""

from __future__ import annotations

from datetime import datetime

from hookline.model import SweepReport
from hookline.observe.pulse import Pulse
from hookline.store.postgres.base import READ
from hookline.store.postgres.database import Connection
from hookline.store.postgres.sweep import Chore, Sweep
from hookline.store.pulses import MOST_READ, MOST_ROLLED, encode, minutes, read


class Pulses(Sweep):
    async def add_pulse(self, process: str, pulse: Pulse) -> None:
        await self._db.execute("pulse_add", process, encode(pulse))

    async def pulses(self, since: datetime, until: datetime | None = None, *, minutes: bool = False) -> list[Pulse]:
        found = await self._db.fetch("pulses", int(minutes), since, until, MOST_READ)
        return [read(row, READ) for row in found]

    async def roll_pulses(self) -> SweepReport:
        async def work(connection: Connection) -> SweepReport:
            found = await connection.fetch(self._sql["pulses_unrolled"], MOST_ROLLED)
            for minute in minutes(found, READ, full=len(found) == MOST_ROLLED):
                await connection.execute(self._sql["pulse_roll"], minute.at, encode(minute))
            await connection.execute(self._sql["pulses_retire"])
            return SweepReport()

        return await self._guarded(Chore.PULSES, work, calm=True)
