"""Attempts per minute by outcome: delivered, retried, dead.

The store keeps one row per endpoint and one per application, so that a chart reads one row per point.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

MINUTE, QUARTER = 60, 900  # seconds that one row covers
ALL = 0  # the endpoint number in the row that covers a whole application


# Number of attempts that were delivered, retried and dead, by application and endpoint. The number `ALL` stands for the
# endpoints above the limit of a pulse, which are counted together.
AttemptCounts = dict[tuple[int, int], list[int]]


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
