"""Pulses: written by each process, read by whoever wants to see the fleet, rolled up by the sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from hookline.clock import to_micros
from hookline.model import SweepReport
from hookline.model.activity import ALL, MINUTE, QUARTER, Activity, EndpointWork
from hookline.model.pulses import Pulse
from hookline.store import pulses as shared
from hookline.store.activity import KEPT, MAX_RETIRED, activity, counted
from hookline.store.sqlite.base import Base
from hookline.store.sqlite.transaction import READ, Tx

_SECOND = 10**6
_HOUR = 3600 * _SECOND


class Pulses(Base):
    async def add_pulse(self, process: str, pulse: Pulse, deeds: Sequence[EndpointWork] = ()) -> None:
        await self._write(_add, process, pulse, deeds)

    async def activity(
        self, since: datetime, *, org_id: str, app_no: int | None = None, endpoint_no: int | None = None, grain: int
    ) -> list[Activity]:
        return await self._read(_activity, since, org_id, app_no, endpoint_no, grain)

    async def endpoint_activity(
        self, nos: Sequence[tuple[int, int]], since: datetime, *, grain: int, first: datetime, step: timedelta
    ) -> dict[int, list[Activity]]:
        steps = {"first": to_micros(first), "step": step // timedelta(microseconds=1)}
        return await self._read(_endpoint_activity, nos, _stretch(since, grain) | steps)

    async def pulses(self, since: datetime, until: datetime | None = None, *, minutes: bool = False) -> list[Pulse]:
        return await self._read(_between, since, until, minutes)

    async def roll_pulses(self) -> SweepReport:
        return await self._write(_roll)


def _add(tx: Tx, process: str, pulse: Pulse, deeds: Sequence[EndpointWork]) -> None:
    tx.run("pulse_add", {"now": tx.now, "process": process, "data": shared.encode(pulse)})
    written = counted(deeds)
    for grain in (MINUTE, QUARTER):
        start = tx.now - tx.now % (grain * _SECOND)
        tx.many("activity_add", [(app_no, no, grain, start, *numbers) for (app_no, no), numbers in written])
        whole = [(app_no, grain, start, *numbers) for (app_no, no), numbers in written if no == ALL]
        tx.many("org_activity_add", whole)


def _activity(
    tx: Tx, since: datetime, org_id: str, app_no: int | None, endpoint_no: int | None, grain: int
) -> list[Activity]:
    stretch = {"org_id": org_id, **_stretch(since, grain)}
    if app_no is None:
        return [activity(row, READ) for row in tx.rows("org_activity", stretch)]
    of = {"app_no": app_no, "endpoint_no": ALL if endpoint_no is None else endpoint_no}
    return [activity(row, READ) for row in tx.rows("activity", of | stretch)]


def _endpoint_activity(
    tx: Tx, nos: Sequence[tuple[int, int]], stretches: Mapping[str, int]
) -> dict[int, list[Activity]]:
    found: dict[int, list[Activity]] = {}
    for app_no, endpoint_no in nos:
        of = {"app_no": app_no, "endpoint_no": endpoint_no, **stretches}
        found[endpoint_no] = [activity(row, READ) for row in tx.rows("endpoint_activity", of)]
    return found


def _stretch(since: datetime, grain: int) -> dict[str, int]:
    return {"grain": grain, "before": to_micros(since) - grain * _SECOND}


def _between(tx: Tx, since: datetime, until: datetime | None, minutes: bool) -> list[Pulse]:
    end = tx.now if until is None else to_micros(until)
    span = {"grain": int(minutes), "since": to_micros(since), "until": end, "most": shared.MAX_READ}
    return [shared.read(row, READ) for row in tx.rows("pulses", span)]


def _roll(tx: Tx) -> SweepReport:
    found = tx.rows("pulses_unrolled", {"now": tx.now, "most": shared.MAX_ROLLED})
    for minute in shared.minutes(found, READ, full=len(found) == shared.MAX_ROLLED):
        tx.run("pulse_roll", {"at": to_micros(minute.at), "data": shared.encode(minute)})
    tx.run("pulses_retire", {"grain": 0, "before": tx.now - 2 * _HOUR})
    tx.run("pulses_retire", {"grain": 1, "before": tx.now - 7 * 24 * _HOUR})
    for grain, seconds in KEPT.items():
        old = {"grain": grain, "before": tx.now - seconds * _SECOND, "limit": MAX_RETIRED}
        tx.run("activity_retire", old)
        tx.run("org_activity_retire", old)
    return SweepReport()
