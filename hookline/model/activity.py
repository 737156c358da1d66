"""Numbers of attempts by time interval and outcome: delivered, retried, dead.

The store has one row per endpoint and time interval, and one row per application and time interval. A chart reads one
row for each of its points.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

MINUTE, QUARTER = 60, 900  # length of a row's time interval, in seconds
ALL = 0  # stands for all endpoints of an application, in place of an endpoint's number


# (application number, endpoint number) → numbers of attempts by outcome: delivered, retried, dead. A pulse counts only
# a limited number of endpoints separately. Further endpoints of an application are counted together, as endpoint `ALL`.
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
