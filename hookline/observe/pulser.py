"""Makes the pulses of one process from its counters."""

from __future__ import annotations

from datetime import datetime
from operator import itemgetter

from hookline.model.activity import ALL, Did
from hookline.model.measures import Measured, Snapshot
from hookline.model.pulses import Named, Pulse, Row, sickest
from hookline.observe.tally import Tally

REMEMBERED = 360  # beats, an hour: how long one that failed is told of
MAX_REMEMBERED = 400


class Pulser:
    """Makes the pulses of one process from its tally."""

    def __init__(self, tally: Tally) -> None:
        self._failed: dict[int, int] = {}  # endpoints that failed lately: for how many beats more they are told of
        self._tally = tally
        self._before: Snapshot = tally.snapshot()
        self.did: Did = {}  # by endpoint, in the last beat

    def beat(self, at: datetime) -> Pulse:
        """What happened since the last one."""
        now = self._tally.snapshot()
        before, self._before = self._before, now
        tally = self._tally
        self.did, tally.did = tally.did, {}

        def by(name: str, label: str) -> Named:
            return _by(now[name], before.get(name), label)

        def row(name: str, **only: str) -> Row:
            return _row(now[name], before.get(name), only)

        return Pulse(
            at=at,
            in_flight=tally.in_flight,
            slots=tally.slots,
            accepted=sum(by("hookline_messages_accepted_total", "via").values()),
            attempts=by("hookline_attempts_total", "outcome"),
            results=by("hookline_attempts_total", "result"),
            retries=by("hookline_retries_total", "outcome"),
            dead=by("hookline_dead_letters_total", "reason"),
            lane_events=by("hookline_lane_events_total", "kind"),
            relayed=by("hookline_outbox_rows_total", "outcome"),
            last_attempts=sum(row("hookline_last_attempts_total")),
            leases=sum(row("hookline_leases_expired_total")),
            repaired=sum(row("hookline_lanes_repaired_total")),
            stale=sum(row("hookline_stale_outcomes_total")),
            latency=row("hookline_delivery_latency_seconds"),
            first_latency=row("hookline_first_attempt_latency_seconds"),
            lag=row("hookline_send_lag_seconds"),
            duration=row("hookline_attempt_duration_seconds"),
            used=row("hookline_delivery_attempts", outcome="delivered"),
            outbox_lag=tally.outbox_lag(),
            endpoints=self._endpoints(),
        )

    def _endpoints(self) -> dict[int, list[int]]:
        """Those that failed lately are told of also when they do well: failures alone do not say which part of all they are."""
        made = {no: [well, retried + dead] for (_, no), (well, retried, dead) in self.did.items() if no != ALL}
        self._failed = {no: beats - 1 for no, beats in self._failed.items() if beats > 1}
        self._failed |= dict.fromkeys(sickest(made), REMEMBERED)
        if len(self._failed) > MAX_REMEMBERED:
            latest = sorted(self._failed.items(), key=itemgetter(1), reverse=True)
            self._failed = dict(latest[:MAX_REMEMBERED])
        return sickest({no: made[no] for no in self._failed if no in made}, well=True)


def _by(now: Measured, before: Measured | None, label: str) -> Named:
    at = now.family.labels.index(label)
    earlier = {} if before is None else {series.labels: series.values[0] for series in before.series}
    found: Named = {}
    for series in now.series:
        grown = series.values[0] - earlier.get(series.labels, 0.0)
        if grown:
            found[series.labels[at]] = found.get(series.labels[at], 0.0) + grown
    return found


def _row(now: Measured, before: Measured | None, only: dict[str, str]) -> Row:
    """All series of a family in one; nothing if nothing happened."""
    wanted = {now.family.labels.index(name): value for name, value in only.items()}
    earlier = {} if before is None else {series.labels: series.values for series in before.series}
    total: Row = []
    for series in now.series:
        if all(series.labels[at] == value for at, value in wanted.items()):
            start = earlier.get(series.labels) or [0.0] * len(series.values)
            grown = [after - first for after, first in zip(series.values, start, strict=True)]
            total = [one + other for one, other in zip(total, grown, strict=True)] if total else grown
    return total if any(total) else []
