"""Pulses: what one process did in a few seconds, kept in the database, so that the whole fleet can be seen from anywhere.

Alerts, `hookline top` and the dashboard read these; none of them asks a process, and none counts history. Pulses add up: over
processes, and over time. They are kept for two hours as they came, and by the minute for a week.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from operator import itemgetter

from msgspec import Struct
from msgspec.structs import fields

from hookline.model.activity import ALL, Did
from hookline.observe.instruments import ATTEMPTS, SECONDS, Measured, Snapshot, quantile
from hookline.observe.tally import Tally

EVERY = 10.0  # seconds between two pulses of a process
MAX_TOLD = 200  # endpoints of one pulse: those that failed most
REMEMBERED = 360  # beats, an hour: how long one that failed is told of
MAX_REMEMBERED = 400

Row = list[float]  # of a histogram
_Named = dict[str, float]


class Pulse(Struct, kw_only=True, omit_defaults=True):
    """Sums over `seconds`. Those of several processes have the sum of their seconds, and the length of none."""

    at: datetime  # its end; the latest of several
    process: str = ""  # a random name; empty: of all of them
    processes: int = 1
    in_flight: int = 0  # at its end
    slots: int = 0
    accepted: float = 0.0  # messages
    attempts: _Named = {}  # by outcome
    results: _Named = {}  # by status class or error
    retries: _Named = {}  # by outcome
    dead: _Named = {}  # by reason
    lane_events: _Named = {}  # by kind
    relayed: _Named = {}  # by outcome
    last_attempts: float = 0.0
    leases: float = 0.0
    repaired: float = 0.0
    stale: float = 0.0
    latency: Row = []  # accepted to delivered
    first_latency: Row = []
    lag: Row = []
    duration: Row = []  # of requests
    used: Row = []  # attempts of what was delivered
    outbox_lag: float = 0.0  # seconds, of applications' outboxes at its end; of several pulses the longest
    endpoints: dict[int, list[int]] = {}  # that failed lately, by number: attempts that went well, and that failed

    @property
    def delivered(self) -> float:
        return self.attempts.get("delivered", 0.0)

    @property
    def attempted(self) -> float:
        return sum(self.attempts.values())

    @property
    def died(self) -> float:
        return sum(self.dead.values())

    def latency_at(self, part: float) -> float | None:
        return quantile(part, self.latency, SECONDS) if self.latency else None

    def first_latency_at(self, part: float) -> float | None:
        return quantile(part, self.first_latency, SECONDS) if self.first_latency else None


def together(pulses: Iterable[Pulse], at: datetime) -> Pulse:
    """What they did in all. `processes`, `in_flight` and `slots` are summed too: of one instant, not of a stretch of time."""
    total = Pulse(at=at, processes=0)
    for pulse in pulses:
        for name in _SUMS:
            setattr(total, name, _sum(getattr(total, name), getattr(pulse, name)))
        total.outbox_lag = max(total.outbox_lag, pulse.outbox_lag)
    return total


_SUMS = tuple(field.name for field in fields(Pulse) if field.name not in ("at", "process", "outbox_lag"))


def _sum(one: object, other: object) -> object:
    match one, other:
        case dict(), dict():
            return {
                key: _sum(one[key], other[key]) if key in one and key in other else one.get(key, other.get(key))
                for key in one | other
            }
        case list(), list():
            if len(one) != len(other):  # empty, or of a release with other buckets
                return one or other
            return [a + b for a, b in zip(one, other, strict=True)]
        case ((int() | float()), (int() | float())):
            return one + other
    raise TypeError(f"pulses do not add up: {type(one).__name__} and {type(other).__name__}")


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

        def by(name: str, label: str) -> _Named:
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


def sickest(endpoints: dict[int, list[int]], most: int = MAX_TOLD, *, well: bool = False) -> dict[int, list[int]]:
    """Those with failures, or also those without; the worst, if there are too many."""
    failing = [(failed, no) for no, (_, failed) in endpoints.items() if failed or well]
    return {no: endpoints[no] for _, no in sorted(failing, reverse=True)[:most]}


def _by(now: Measured, before: Measured | None, label: str) -> _Named:
    at = now.family.labels.index(label)
    earlier = {} if before is None else {series.labels: series.values[0] for series in before.series}
    found: _Named = {}
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


__all__ = ["ATTEMPTS", "EVERY", "SECONDS", "Pulse", "Pulser", "Row", "sickest", "together"]
