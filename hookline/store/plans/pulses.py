"""Pulses, which each process writes and the sweep aggregates, and the activity of endpoints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby

import msgspec
from msgspec.structs import replace

from hookline.clock import EPOCH
from hookline.model.activity import ALL, MINUTE, QUARTER, Activity, AttemptCounts, add
from hookline.model.pulses import Pulse, together
from hookline.model.sweep import SweepReport
from hookline.store.plans.plan import Bulk, Plan, Plans, Step, changes, reads, value
from hookline.store.plans.sweep_locks import SweepLock, try_lock
from hookline.store.rows import Reading, Row

# Maximum pulses that one call reads. Enough for two hours of 27 processes, or for a week with one pulse per minute.
MAX_READ = 20_000
MAX_ROLLED = 5_000
# Maximum rows that one statement deletes. `roll_pulses` runs four such statements: for the sums per minute and those
# per quarter hour, in each of the two activity tables.
MAX_RETIRED = 20_000

_MINUTE = timedelta(minutes=1)
# This long after the end of a minute, every process has written its pulses of that minute.
_SETTLED = timedelta(seconds=30)
_SHORT, _LONG = timedelta(hours=2), timedelta(days=7)
_KEPT = {MINUTE: _SHORT, QUARTER: _LONG}  # how long activity is kept, by its interval: minutes or quarter hours

_decode = msgspec.json.Decoder(Pulse).decode
_encode = msgspec.json.Encoder().encode


class Pulses(Plans):
    """Store what processes did (pulses) and what happened at each endpoint (activity)."""

    @changes
    def add_pulse(self, process: str, pulse: Pulse, attempts: AttemptCounts | None = None) -> Plan[None]:
        """Store what the process did since its last pulse, in total and per endpoint. The database sets `at`."""
        yield Step("pulse_add", process=process, data=_encode(pulse))
        counted = _counted(attempts or {})
        yield Bulk("activity_add", counted)
        yield Bulk("org_activity_add", [each for each in counted if each["endpoint_no"] == ALL])

    @reads
    def activity(
        self, since: datetime, *, org_id: str, app_no: int | None = None, endpoint_no: int | None = None, grain: int
    ) -> Plan[list[Activity]]:
        """Return activity of an organization, an application or an endpoint, oldest first, from the interval that
        contains `since`. Empty intervals are left out.

        `grain` is the length of the stored intervals in seconds: MINUTE or QUARTER. Minutes are kept for two hours,
        quarter hours for a week.
        """
        before = since - timedelta(seconds=grain)
        if app_no is None:
            found = yield Step("org_activity", org_id=org_id, grain=grain, before=before)
        else:
            no = ALL if endpoint_no is None else endpoint_no
            found = yield Step("activity", org_id=org_id, app_no=app_no, endpoint_no=no, grain=grain, before=before)
        return [self._reading.struct(Activity, each) for each in found]

    @reads
    def endpoint_activity(
        self, nos: Sequence[tuple[int, int]], since: datetime, *, grain: int, first: datetime, step: timedelta
    ) -> Plan[dict[int, list[Activity]]]:
        """Return activity of several endpoints, given as (application number, endpoint number), by endpoint number.

        This reads stored intervals of `grain` seconds (see `activity`), from the one that contains `since`, and sums
        them in intervals of length `step`. One of the sums begins at `first`, which must not be later than `since`.
        """
        found: dict[int, list[Activity]] = {endpoint_no: [] for _, endpoint_no in nos}
        of = {"apps": [app_no for app_no, _ in nos], "endpoints": list(found)}
        stored = {"grain": grain, "before": since - timedelta(seconds=grain)}
        listed = yield Step("endpoint_activity", **of, **stored, first=first, step=step)
        for each in listed:
            found[each["endpoint_no"]].append(self._reading.struct(Activity, each))
        return found

    @reads
    def pulses(self, since: datetime, until: datetime | None = None, *, minutes: bool = False) -> Plan[list[Pulse]]:
        """Return the pulses of all processes after `since`, up to and including `until`, oldest first. With `minutes`,
        return one pulse per minute for the whole fleet."""
        found = yield Step("pulses", grain=int(minutes), since=since, until=until, max_rows=MAX_READ)
        return [_pulse(each, self._reading) for each in found]

    @changes
    def roll_pulses(self) -> Plan[SweepReport]:
        """Aggregate the pulses of all processes into one pulse per minute, and delete old pulses and activity. Does
        nothing if another worker is doing it."""
        if not (yield from try_lock(SweepLock.PULSES)):
            return SweepReport()
        now = self._reading.instant((yield from value("now")))
        found = yield Step("pulses_unrolled", first=EPOCH, before=_floor(now - _SETTLED), max_rows=MAX_ROLLED)
        pulses = [_pulse(each, self._reading) for each in found]
        for minute in _minutes(pulses, full=len(pulses) == MAX_ROLLED):
            yield Step("pulse_roll", at=minute.at, data=_encode(minute))
        yield Step("pulses_retire", grain=0, kept=_SHORT)
        yield Step("pulses_retire", grain=1, kept=_LONG)
        for grain, kept in _KEPT.items():
            yield Step("activity_retire", grain=grain, kept=kept, max_rows=MAX_RETIRED)
            yield Step("org_activity_retire", grain=grain, kept=kept, max_rows=MAX_RETIRED)
        return SweepReport()


def _pulse(row: Row, read: Reading) -> Pulse:
    """Return the pulse of a row. Its time is the database's, because the clock of the process may be wrong."""
    return replace(_decode(row["data"]), at=read.instant(row["at"]), process=row["process"])


def _minutes(pulses: Sequence[Pulse], *, full: bool) -> Iterator[Pulse]:
    """Return the sum of each minute. If the read reached its limit (`full`), leave out the last minute, which may be
    incomplete."""
    groups = [(start, list(group)) for start, group in groupby(pulses, key=lambda pulse: _floor(pulse.at))]
    for start, group in groups[:-1] if full and len(groups) > 1 else groups:
        yield _minute(group, start + _MINUTE)


def _floor(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)


def _minute(pulses: Sequence[Pulse], at: datetime) -> Pulse:
    """Sum a minute's pulses. For gauges, only the last pulse of each process counts, because the sum of a gauge over
    time has no meaning."""
    last = {pulse.process: pulse for pulse in pulses}.values()
    in_flight = sum(pulse.in_flight for pulse in last)
    slots = sum(pulse.slots for pulse in last)
    return replace(together(pulses, at), processes=len(last), in_flight=in_flight, slots=slots)


def _counted(attempts: AttemptCounts) -> list[dict[str, int]]:
    """Return one row per endpoint and one per application. They are sorted, because all processes must lock rows in
    the same order."""
    total: AttemptCounts = {}
    for (app_no, no), made in attempts.items():
        add(total, {(app_no, ALL): made})
        if no != ALL:
            add(total, {(app_no, no): made})
    return [
        {"app_no": app_no, "endpoint_no": no, "delivered": delivered, "retried": retried, "dead": dead}
        for (app_no, no), (delivered, retried, dead) in sorted(total.items())
    ]
