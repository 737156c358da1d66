"""Whether the database's clock was set back, and how far."""

from __future__ import annotations

from datetime import datetime, timedelta

# If the clock is behind by at most this much, it does not count as set back. After a failover, the clock of the new
# server may be slightly behind.
TOLERANCE = timedelta(seconds=1)


def latest(seen: datetime, newest: datetime | None, handled: datetime | None) -> datetime:
    """Return the latest time that the clock is known to have shown.

    This is `seen`, the time at the last check, or `newest`, the time at which the newest message was accepted. A later
    `newest` shows that the clock was ahead between two checks. A `newest` up to `handled` is ignored, because an
    earlier correction has already used it.
    """
    if newest is None or (handled is not None and newest <= handled):
        return seen
    return max(seen, newest)


def set_back(seen: datetime, now: datetime) -> timedelta:
    """Return how far the clock was set back since it showed `seen`; 0 if it was not.

    The result is too small by the time that has passed since the clock showed `seen`. It is never too large.
    """
    behind = seen - now
    return behind if behind > TOLERANCE else timedelta()


def rebased(at: datetime, *, reckoned: datetime | None, now: datetime) -> datetime:
    """Convert `at`, a time that a worker computed, to the database's clock, which shows `now`.

    `reckoned` is the worker's estimate of the database's time. If the clock was set back while the worker's request
    ran, `reckoned` is later than `now`, and `at` is moved back by the difference. If `reckoned` is None, `at` is not
    changed.
    """
    if reckoned is None:
        return at
    return at - set_back(reckoned, now)
