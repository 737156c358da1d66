"""Pulses: counters of one process over a few seconds, stored in the database so that any process can read
the counters of all processes.

Alerts, `hookline top` and the dashboard read pulses instead of asking processes or counting old rows. Pulses can be
summed over processes and over time. The store keeps single pulses for two hours and sums per minute for a week.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import add
from typing import Any

from msgspec import Struct
from msgspec.structs import fields

from hookline.model.measures import SECONDS, quantile

EVERY = 10.0  # seconds between two pulses of a process
MAX_ENDPOINTS = 200  # maximum number of endpoints in a pulse: the endpoints with the most failures

Row = list[float]  # the bucket counts of a histogram, then the sum of its values
Named = dict[str, float]


class Pulse(Struct, kw_only=True, omit_defaults=True):
    """Counters of one process since its previous pulse, or the sum of several pulses."""

    at: datetime  # end of the interval; in a sum, the latest end
    process: str = ""  # random name of the process; empty in a sum of pulses
    processes: int = 1
    in_flight: int = 0  # requests in flight at the end of the interval
    slots: int = 0
    accepted: float = 0.0  # messages accepted
    attempts: Named = {}  # number of attempts by outcome: delivered, retry, dead
    results: Named = {}  # number of attempts by status class or error
    retries: Named = {}  # number of attempts by outcome, without the first attempt of each delivery
    dead: Named = {}  # number of deaths by reason
    lane_events: Named = {}  # number of lane events by kind
    relayed: Named = {}  # number of outbox rows by outcome: relayed, repeated, set_aside
    last_attempts: float = 0.0
    leases: float = 0.0
    repaired: float = 0.0
    stale: float = 0.0
    latency: Row = []  # seconds from acceptance to delivery
    # Start delays in seconds: from the due time of an attempt, or from the end of a pause if that was later, to the
    # start of the attempt. Attempts in a lane with a limit, or with a circuit that is not closed, are left out.
    first_latency: Row = []  # the first attempts of deliveries
    lag: Row = []  # all attempts
    duration: Row = []  # seconds per request
    used: Row = []  # attempts that each successful delivery needed
    outbox_lag: float = 0.0  # seconds that the oldest outbox row has waited; in a sum, the longest wait
    endpoints: dict[int, list[int]] = {}  # endpoint number → successful and failed attempts, of failing endpoints

    @property
    def delivered(self) -> float:
        return self.attempts.get("delivered", 0.0)

    @property
    def attempted(self) -> float:
        return sum(self.attempts.values())

    @property
    def died(self) -> float:
        return sum(self.dead.values())

    def first_latency_at(self, part: float) -> float | None:
        return quantile(part, self.first_latency, SECONDS) if self.first_latency else None


_SUMS = tuple(field.name for field in fields(Pulse) if field.name not in ("at", "process", "outbox_lag"))


def together(pulses: Iterable[Pulse], at: datetime, names: Sequence[str] = _SUMS) -> Pulse:
    """Return the sum of `pulses`, for the fields in `names` only.

    `processes`, `in_flight` and `slots` are summed too, so these three fields are useful only for pulses of the same
    moment.
    """
    total = Pulse(at=at, processes=0)
    for pulse in pulses:
        for name in names:
            setattr(total, name, _sum(getattr(total, name), getattr(pulse, name)))
        total.outbox_lag = max(total.outbox_lag, pulse.outbox_lag)
    return total


def _sum(one: Any, other: Any) -> Any:
    if isinstance(one, dict):
        return one | other | {key: _sum(one[key], other[key]) for key in one.keys() & other}
    if isinstance(one, list):
        # If the lengths differ, one of the lists is empty, or comes from a release with other buckets.
        return list(map(add, one, other)) if len(one) == len(other) else one or other
    return one + other


def most_failing(
    endpoints: dict[int, list[int]], limit: int = MAX_ENDPOINTS, *, healthy: bool = False
) -> dict[int, list[int]]:
    """Return up to `limit` endpoints, those with the most failures first. Endpoints without failures are included only
    with `healthy`."""
    failing = [(failed, no) for no, (_, failed) in endpoints.items() if failed or healthy]
    return {no: endpoints[no] for _, no in sorted(failing, reverse=True)[:limit]}
