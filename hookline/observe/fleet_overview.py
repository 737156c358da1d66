"""The fleet at a glance, from its pulses: rates, latencies, who is sick. Pure; `hookline top` and the dashboard show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from hookline.model.measures import ATTEMPTS, SECONDS, quantile
from hookline.model.pulses import EVERY, Pulse, together

RECENT = timedelta(minutes=1)
WINDOW = timedelta(minutes=5)
ALIVE = timedelta(seconds=3 * EVERY)  # a process that was silent for longer is gone
STEPS = 30  # of the curves: ten seconds each

_PARTS = (0.5, 0.95, 0.99)


class Rate(Struct, frozen=True, kw_only=True):
    """A second."""

    recent: float  # over the last minute
    window: float  # over the last five
    curve: list[float]  # of these, step by step, oldest first


class Quantiles(Struct, frozen=True, kw_only=True):
    """Seconds; None: there was nothing to measure."""

    p50: float | None
    p95: float | None
    p99: float | None


class FailingEndpoint(Struct, frozen=True, kw_only=True):
    """What an endpoint did with its attempts in the last five minutes."""

    endpoint_no: int
    good: int
    failed: int

    @property
    def part(self) -> float:
        return self.failed / (self.good + self.failed)


class Overview(Struct, frozen=True, kw_only=True):
    at: datetime
    processes: int
    in_flight: int
    slots: int
    rates: dict[str, Rate]  # accepted, delivered, retries, dead
    latency: Quantiles  # accepted to delivered, in the last five minutes
    first_attempt: Quantiles  # accepted to the first attempt
    request: Quantiles
    attempts: list[float]  # part of what was delivered that took 1, 2, ... 12 attempts, and more
    results: dict[str, float]  # attempts by status class or error
    sick: list[FailingEndpoint]  # the worst first
    outbox_lag: float  # seconds, of applications' outboxes


def overview(pulses: Sequence[Pulse], now: datetime, *, most: int = 10) -> Overview:
    """`pulses` are those of all processes in the last five minutes, oldest first."""
    total = together(pulses, now)
    last = living(pulses, now)
    return Overview(
        at=now,
        processes=len(last),
        in_flight=sum(pulse.in_flight for pulse in last),
        slots=sum(pulse.slots for pulse in last),
        rates={name: _rate(pulses, now, count) for name, count in _COUNTS.items()},
        latency=_quantiles(total.latency),
        first_attempt=_quantiles(total.first_latency),
        request=_quantiles(total.duration),
        attempts=_shares(total.used),
        results=total.results,
        sick=_sick(total, most),
        outbox_lag=max((pulse.outbox_lag for pulse in last), default=0.0),
    )


_COUNTS: dict[str, Callable[[Pulse], float]] = {
    "accepted": lambda pulse: pulse.accepted,
    "delivered": lambda pulse: pulse.delivered,
    "retries": lambda pulse: sum(pulse.retries.values()),
    "dead": lambda pulse: pulse.died,
}


def living(pulses: Sequence[Pulse], now: datetime) -> list[Pulse]:
    """The newest of each process that lives."""
    newest = {pulse.process: pulse for pulse in pulses}
    return [pulse for pulse in newest.values() if now - pulse.at <= ALIVE]


def _rate(pulses: Sequence[Pulse], now: datetime, count: Callable[[Pulse], float]) -> Rate:
    step = WINDOW / STEPS
    curve = [0.0] * STEPS
    for pulse in pulses:
        age = now - pulse.at
        if timedelta(0) <= age < WINDOW:
            curve[STEPS - 1 - int(age / step)] += count(pulse)
    known = min(WINDOW, _known_for(pulses, now))
    lately = min(RECENT, known)
    recent = sum(count(pulse) for pulse in pulses if now - pulse.at < lately)
    seconds = step.total_seconds()
    return Rate(
        recent=recent / lately.total_seconds(),
        window=sum(curve) / known.total_seconds(),
        curve=[amount / seconds for amount in curve],
    )


def _known_for(pulses: Sequence[Pulse], now: datetime) -> timedelta:
    """Since when anybody tells us anything: a fleet that has just started is not slow."""
    told = timedelta(seconds=EVERY)
    return told if not pulses else max(told, now - min(pulse.at for pulse in pulses) + told)


def _quantiles(row: Sequence[float]) -> Quantiles:
    p50, p95, p99 = (quantile(part, row, SECONDS) if row else None for part in _PARTS)
    return Quantiles(p50=p50, p95=p95, p99=p99)


def _shares(used: Sequence[float]) -> list[float]:
    """The last of a row is its sum, not a bucket."""
    counts = list(used[: len(ATTEMPTS) + 1])
    total = sum(counts)
    return [each / total for each in counts] if total else []


def _sick(total: Pulse, most: int) -> list[FailingEndpoint]:
    found = [
        FailingEndpoint(endpoint_no=no, good=good, failed=failed)
        for no, (good, failed) in total.endpoints.items()
        if failed
    ]
    return sorted(found, key=lambda each: (-each.failed, -each.part, each.endpoint_no))[:most]
