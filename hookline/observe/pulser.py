"""Creates the pulses of one process from its counters."""

from __future__ import annotations

from datetime import datetime
from operator import itemgetter, sub

from hookline.model.activity import ALL, AttemptCounts, add
from hookline.model.measures import Labels
from hookline.model.pulses import Named, Pulse, Row, most_failing
from hookline.observe.instruments import Counter, Instrument
from hookline.observe.tally import Tally

REMEMBERED = 360  # number of pulses (one hour) for which an endpoint is listed after its last failure
MAX_REMEMBERED = 400  # maximum number of endpoints whose last failure is remembered

_Values = dict[str, dict[Labels, Row]]  # the values of all series, by the name of their metric


class Pulser:
    """Creates pulses. A pulse has all counts since the last stored pulse, so a failed write loses no counts."""

    def __init__(self, tally: Tally) -> None:
        self._failed: dict[int, int] = {}  # endpoint number → in how many more pulses the endpoint is listed
        self._tally = tally
        self._now = self._stored = self._values()
        self.attempt_counts: AttemptCounts = {}  # attempts since the last stored pulse

    def _values(self) -> _Values:
        return {
            each.family.name: {labels: list(row) for labels, row in each.values.items()}
            for each in self._tally.instruments()
        }

    def pulse(self, at: datetime) -> Pulse:
        """Return a pulse with everything counted since the last one that was stored."""
        tally = self._tally
        self._now = self._values()
        add(self.attempt_counts, tally.attempt_counts)
        tally.attempt_counts = {}
        return Pulse(
            at=at,
            in_flight=tally.in_flight,
            slots=tally.slots,
            accepted=sum(self._by(tally.accepted, "via").values()),
            attempts=self._by(tally.attempts, "outcome"),
            results=self._by(tally.attempts, "result"),
            retries=self._by(tally.retries, "outcome"),
            dead=self._by(tally.dead, "reason"),
            lane_events=self._by(tally.lane_events, "kind"),
            relayed=self._by(tally.relayed, "outcome"),
            last_attempts=sum(self._row(tally.last_attempts)),
            leases=sum(self._row(tally.leases)),
            repaired=sum(self._row(tally.repaired)),
            stale=sum(self._row(tally.stale)),
            latency=self._row(tally.latency),
            first_latency=self._row(tally.first_latency),
            lag=self._row(tally.lag),
            duration=self._row(tally.attempt_seconds),
            used=self._row(tally.used, "delivered"),
            outbox_lag=tally.outbox_lag(),
            endpoints=self._endpoints(),
        )

    def stored(self) -> None:
        """Mark the last pulse as stored."""
        self._stored = self._now
        self.attempt_counts = {}

    def _endpoints(self) -> dict[int, list[int]]:
        """Return the attempts of endpoints that failed recently. Successes are included, because alerts need the
        failure rate."""
        counts = self.attempt_counts
        made = {no: [good, retried + dead] for (_, no), (good, retried, dead) in counts.items() if no != ALL}
        self._failed = {no: beats - 1 for no, beats in self._failed.items() if beats > 1}
        self._failed |= dict.fromkeys(most_failing(made), REMEMBERED)
        if len(self._failed) > MAX_REMEMBERED:
            latest = sorted(self._failed.items(), key=itemgetter(1), reverse=True)
            self._failed = dict(latest[:MAX_REMEMBERED])
        return most_failing({no: made[no] for no in self._failed if no in made}, healthy=True)

    def _grown(self, metric: Instrument) -> dict[Labels, Row]:
        """Return how much each series of a metric has grown since the last stored pulse."""
        name = metric.family.name
        before = self._stored[name]
        return {
            labels: list(map(sub, row, before[labels])) if labels in before else row
            for labels, row in self._now[name].items()
        }

    def _by(self, counter: Counter, label: str) -> Named:
        """Return how much a counter has grown since the last stored pulse, summed for each value of one label."""
        at = counter.family.labels.index(label)
        total: Named = {}
        for labels, (grown,) in self._grown(counter).items():
            if grown:
                total[labels[at]] = total.get(labels[at], 0.0) + grown
        return total

    def _row(self, metric: Instrument, label: str | None = None) -> Row:
        """Return the total growth since the last stored pulse of all series that have this label value, or of all
        series if `label` is None. The row is empty if no series has grown."""
        rows = [row for labels, row in self._grown(metric).items() if label is None or label in labels]
        total: Row = [sum(values) for values in zip(*rows, strict=True)]
        return total if any(total) else []
