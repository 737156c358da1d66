"""The store's clock on SQLite: the wall clock of this process, except that it never runs backwards."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

from hookline import clock
from hookline.rules.clock_jumps import ClockJumps

_EPOCH = clock.EPOCH
to_micros = clock.to_micros


def instant(micros: int) -> datetime:
    """Convert microseconds to an instant, as `clock.from_micros` does, at half the cost. A claim converts several
    values for each delivery."""
    return _EPOCH + timedelta(microseconds=micros)


_HOUR = 3_600_000_000


class StoreClock:
    """A clock that never runs backwards. If the wall clock is set back, this clock runs at half speed until the wall
    clock catches up. If this clock stood still instead, no retry would become due in that time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._read_at = clock.monotonic()
        self._jumps = ClockJumps()
        self._trusted = self._jumps.trusted(to_micros(clock.wall()) / 1_000_000, self._read_at)

    def micros(self) -> int:
        with self._lock:
            self._read()
            return self._last

    def trusted(self) -> bool:
        """Return whether the ages of rows can be trusted. They cannot for a day after the wall clock jumped by more
        than an hour against the monotonic clock, nor while this clock is more than an hour ahead of the wall clock."""
        with self._lock:
            wall = self._read()
            return self._trusted and self._last - wall < _HOUR

    def _read(self) -> int:
        """Read the wall clock and update this clock."""
        wall, now = to_micros(clock.wall()), clock.monotonic()
        self._last = max(wall, self._last + int((now - self._read_at) * 500_000))
        self._read_at = now
        self._trusted = self._jumps.trusted(wall / 1_000_000, now)
        return wall
