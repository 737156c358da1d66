"""Pulses: what one process did in a few seconds, kept in the database, so that the whole fleet can be seen from anywhere.

Alerts, `hookline top` and the dashboard read these; none of them asks a process, and none counts history. Pulses add up: over
processes, and over time. They are kept for two hours as they came, and by the minute for a week.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct
from msgspec.structs import fields

from hookline.model.measures import ATTEMPTS, SECONDS, quantile

EVERY = 10.0  # seconds between two pulses of a process
MAX_TOLD = 200  # endpoints of one pulse: those that failed most

Row = list[float]  # of a histogram
Named = dict[str, float]


class Pulse(Struct, kw_only=True, omit_defaults=True):
    """Sums over `seconds`. Those of several processes have the sum of their seconds, and the length of none."""

    at: datetime  # its end; the latest of several
    process: str = ""  # a random name; empty: of all of them
    processes: int = 1
    in_flight: int = 0  # at its end
    slots: int = 0
    accepted: float = 0.0  # messages
    attempts: Named = {}  # by outcome
    results: Named = {}  # by status class or error
    retries: Named = {}  # by outcome
    dead: Named = {}  # by reason
    lane_events: Named = {}  # by kind
    relayed: Named = {}  # by outcome
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


def sickest(endpoints: dict[int, list[int]], most: int = MAX_TOLD, *, well: bool = False) -> dict[int, list[int]]:
    """Those with failures, or also those without; the worst, if there are too many."""
    failing = [(failed, no) for no, (_, failed) in endpoints.items() if failed or well]
    return {no: endpoints[no] for _, no in sorted(failing, reverse=True)[:most]}


__all__ = ["ATTEMPTS", "EVERY", "SECONDS", "Pulse", "Row", "sickest", "together"]
