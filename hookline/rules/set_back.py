"""Whether the database's clock was set back, and how far."""

from __future__ import annotations

from datetime import datetime, timedelta

# A clock that runs does not go back. After a failover, the clock of the other server may be behind by a little.
TOLERANCE = timedelta(seconds=1)


def latest(seen: datetime, newest: datetime | None, handled: datetime | None) -> datetime:
    """Return the latest time that the clock has shown: when it was `seen`, or when the newest message was accepted.

    The message tells of a clock that was ahead between two looks. It does so only once: times up to `handled` are
    known from the last time that the clock was set back.
    """
    if newest is None or (handled is not None and newest <= handled):
        return seen
    return max(seen, newest)


def set_back(seen: datetime, now: datetime) -> timedelta:
    """Return how far the clock was set back since it showed `seen`; 0 if it was not.

    The time since that look is missing in the result, so the result is never too large.
    """
    behind = seen - now
    return behind if behind > TOLERANCE else timedelta()


def rebased(at: datetime, *, reckoned: datetime | None, now: datetime) -> datetime:
    """Return a time that a worker computed by its own idea of the database's time, `reckoned`, as a time of the
    database's clock. They differ if the clock was set back while the worker's request ran."""
    if reckoned is None:
        return at
    return at - set_back(reckoned, now)
