"""Current rates, latencies and failing endpoints of all processes together, from their pulses, for `hookline top` and
the dashboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from hookline.model.measures import ATTEMPTS, SECONDS, quantile
from hookline.model.pulses import EVERY, Pulse, together

RECENT = timedelta(minutes=1)
WINDOW = timedelta(minutes=5)
ALIVE = timedelta(seconds=3 * EVERY)  # a process without a pulse for longer than this counts as ended
STEPS = 30  # points of a curve, one for each ten seconds

_PARTS = {"p50": 0.5, "p95": 0.95, "p99": 0.99}

Quantiles = dict[str, float | None]  # seconds, by the name of the quantile; None means that there were no values


class Rate(Struct, frozen=True, kw_only=True):
    """Events of one kind per second, such as accepted messages per second."""

    recent: float  # events per second, averaged over the last minute
    window: float  # events per second, averaged over the last five minutes
    curve: list[float]  # events per second in each of the last 30 steps of ten seconds, oldest first


class Overview(Struct, frozen=True, kw_only=True):
    at: datetime
    processes: int
    in_flight: int
    slots: int
    rates: dict[str, Rate]  # by name: accepted, delivered, retries, dead
    latency: Quantiles  # from acceptance to delivery, in the last five minutes
    first_attempt: Quantiles  # from acceptance to the first attempt, in the last five minutes
    request: Quantiles  # duration of a request, in the last five minutes
    attempts: list[float]  # fractions of the deliveries that needed 1, 2, ... 12, or more attempts
    results: dict[str, float]  # number of attempts by status class or error
    failing: dict[int, tuple[int, int]]  # by endpoint number, most failures first: successful and failed attempts
    outbox_lag: float  # longest time in seconds that a row of an application's outbox can have waited


def overview(pulses: Sequence[Pulse], now: datetime, *, limit: int = 10) -> Overview:
    """Summarize the pulses of all processes in the last five minutes. `pulses` is sorted, oldest first."""
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
        failing=_failing(total, limit),
        outbox_lag=max((pulse.outbox_lag for pulse in last), default=0.0),
    )


_COUNTS: dict[str, Callable[[Pulse], float]] = {
    "accepted": lambda pulse: pulse.accepted,
    "delivered": lambda pulse: pulse.delivered,
    "retries": lambda pulse: sum(pulse.retries.values()),
    "dead": lambda pulse: pulse.died,
}


def living(pulses: Sequence[Pulse], now: datetime) -> list[Pulse]:
    """Return the newest pulse of each process that is still running."""
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
    """Return the time from the start of the oldest pulse to now.

    A rate is a count divided by this time, or by `RECENT` or `WINDOW` if that is shorter. Divided by the whole `RECENT`
    or `WINDOW`, the rates would be too low in the first minutes after the first process started.
    """
    return timedelta(seconds=EVERY) + max(timedelta(0), now - min((pulse.at for pulse in pulses), default=now))


def _quantiles(row: Sequence[float]) -> Quantiles:
    return {name: quantile(part, row, SECONDS) if row else None for name, part in _PARTS.items()}


def _shares(used: Sequence[float]) -> list[float]:
    """Return the fraction of deliveries in each bucket. The last element of `used` is not a bucket but the number of
    attempts of all deliveries."""
    counts = list(used[: len(ATTEMPTS) + 1])
    total = sum(counts)
    return [each / total for each in counts] if total else []


def _failing(total: Pulse, limit: int) -> dict[int, tuple[int, int]]:
    failing = {no: (good, failed) for no, (good, failed) in total.endpoints.items() if failed}
    order = sorted(failing, key=lambda no: (-failing[no][1], failing[no][0], no))
    return {no: failing[no] for no in order[:limit]}
