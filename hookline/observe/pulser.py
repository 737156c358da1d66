"""Creates the pulses of one process from its counters."""

from __future__ import annotations

from datetime import datetime
from operator import itemgetter

from hookline.model.activity import ALL, AttemptCounts
from hookline.model.measures import Measured, Snapshot
from hookline.model.pulses import Named, Pulse, Row, most_failing
from hookline.observe.tally import Tally

REMEMBERED = 360  # pulses (one hour) in which an endpoint is listed after its last failure
MAX_REMEMBERED = 400  # endpoints that failed recently


class Pulser:
    def __init__(self, tally: Tally) -> None:
        self._failed: dict[int, int] = {}  # number of further pulses that list an endpoint, by its number
        self._tally = tally
        self._before: Snapshot = tally.snapshot()
        self.attempt_counts: AttemptCounts = {}  # of the last pulse

    def beat(self, at: datetime) -> Pulse:
        """Return a pulse with everything counted since the previous one."""
        now = self._tally.snapshot()
        before, self._before = self._before, now
        tally = self._tally
        self.attempt_counts, tally.attempt_counts = tally.attempt_counts, {}

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
        """Return the attempts of endpoints that failed recently. Successes are included, because alerts need the failure rate."""
        counts = self.attempt_counts
        made = {no: [good, retried + dead] for (_, no), (good, retried, dead) in counts.items() if no != ALL}
        self._failed = {no: beats - 1 for no, beats in self._failed.items() if beats > 1}
        self._failed |= dict.fromkeys(most_failing(made), REMEMBERED)
        if len(self._failed) > MAX_REMEMBERED:
            latest = sorted(self._failed.items(), key=itemgetter(1), reverse=True)
            self._failed = dict(latest[:MAX_REMEMBERED])
        return most_failing({no: made[no] for no in self._failed if no in made}, healthy=True)


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
    """Return the growth of all matching series of a family as one row; empty if nothing happened."""
    wanted = {now.family.labels.index(name): value for name, value in only.items()}
    earlier = {} if before is None else {series.labels: series.values for series in before.series}
    total: Row = []
    for series in now.series:
        if all(series.labels[at] == value for at, value in wanted.items()):
            start = earlier.get(series.labels) or [0.0] * len(series.values)
            grown = [after - first for after, first in zip(series.values, start, strict=True)]
            total = [one + other for one, other in zip(total, grown, strict=True)] if total else grown
    return total if any(total) else []
