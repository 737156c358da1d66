"""Pulses: written by each process, read by whoever wants to see the fleet, rolled up by the sweep."""

from __future__ import annotations

from datetime import datetime

from hookline.clock import to_micros
from hookline.model import SweepReport
from hookline.observe.pulse import Pulse
from hookline.store import pulses as shared
from hookline.store.sqlite.base import Base
from hookline.store.sqlite.tx import READ, Tx

_HOUR = 3600 * 10**6


class Pulses(Base):
    async def add_pulse(self, process: str, pulse: Pulse) -> None:
        await self._write(_add, process, pulse)

    async def pulses(self, since: datetime, until: datetime | None = None, *, minutes: bool = False) -> list[Pulse]:
        return await self._read(_between, since, until, minutes)

    async def roll_pulses(self) -> SweepReport:
        return await self._write(_roll)


def _add(tx: Tx, process: str, pulse: Pulse) -> None:
    tx.run("pulse_add", {"now": tx.now, "process": process, "data": shared.encode(pulse)})


def _between(tx: Tx, since: datetime, until: datetime | None, minutes: bool) -> list[Pulse]:
    end = tx.now if until is None else to_micros(until)
    span = {"grain": int(minutes), "since": to_micros(since), "until": end, "most": shared.MOST_READ}
    return [shared.read(row, READ) for row in tx.rows("pulses", span)]


def _roll(tx: Tx) -> SweepReport:
    found = tx.rows("pulses_unrolled", {"now": tx.now, "most": shared.MOST_ROLLED})
    for minute in shared.minutes(found, READ, full=len(found) == shared.MOST_ROLLED):
        tx.run("pulse_roll", {"at": to_micros(minute.at), "data": shared.encode(minute)})
    tx.run("pulses_retire", {"grain": 0, "before": tx.now - 2 * _HOUR})
    tx.run("pulses_retire", {"grain": 1, "before": tx.now - 7 * 24 * _HOUR})
    return SweepReport()
