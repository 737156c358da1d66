"""Attempts per minute by outcome: delivered, retried, dead.

The store keeps one row per endpoint and one per application, so that a chart reads one row per point.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

MINUTE, QUARTER = 60, 900  # seconds that one row covers
ALL = 0  # the endpoint number in the row that covers a whole application


# Number of attempts that were delivered, retried and dead, by application and endpoint.
AttemptCounts = dict[tuple[int, int], list[int]]


class EndpointWork(Struct, frozen=True, kw_only=True):
    """Attempts at one endpoint since the last pulse."""

    app_no: int
    endpoint_no: int  # or `ALL` for the endpoints above the limit, which are counted together
    delivered: int = 0
    retried: int = 0
    dead: int = 0


class Activity(Struct, frozen=True, kw_only=True):
    """Attempts in one interval of `MINUTE` or `QUARTER` seconds."""

    at: datetime  # start of the interval
    delivered: int
    retried: int
    dead: int

    @property
    def attempts(self) -> int:
        return self.delivered + self.retried + self.dead


def add(total: AttemptCounts, more: AttemptCounts) -> None:
    """Add `more` to `total` in place."""
    for key, counts in more.items():
        known = total.get(key)
        total[key] = counts if known is None else [one + other for one, other in zip(known, counts, strict=True)]


def endpoint_work(counts: AttemptCounts) -> list[EndpointWork]:
    return [
        EndpointWork(app_no=app_no, endpoint_no=endpoint_no, delivered=delivered, retried=retried, dead=dead)
        for (app_no, endpoint_no), (delivered, retried, dead) in counts.items()
    ]
