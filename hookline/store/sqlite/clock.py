"""The database's clock on SQLite: the wall clock of this process, kept from running backwards."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

from hookline import clock

_EPOCH = clock.EPOCH
to_micros = clock.to_micros


def instant(micros: int) -> datetime:
    """`clock.from_micros`, at half its cost: a claim reads three of them for each delivery."""
    return _EPOCH + timedelta(microseconds=micros)


_HOUR, _DAY = 3_600_000_000, 86_400_000_000


class StoreClock:
    """Never goes back. After the wall clock was set back it runs at half speed until the wall has caught up:
    to stand still would hold every retry for as long as the step was."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0
        self._read_at = clock.monotonic()
        self._lead = to_micros(clock.wall()) - _micros(self._read_at)  # of the wall over the monotonic clock
        self._trusted_at = self._read_at

    def micros(self) -> int:
        with self._lock:
            self._read()
            return self._last

    def trusted(self) -> bool:
        """Whether the age of what is old can be believed. Not for a day after the wall has jumped against the monotonic
        clock by more than an hour, nor while this clock is ahead of the wall by as much."""
        with self._lock:
            wall = self._read()
            return self._read_at >= self._trusted_at and self._last - wall < _HOUR

    def _read(self) -> int:
        """The wall, with all that follows from it noted."""
        wall, now = to_micros(clock.wall()), clock.monotonic()
        self._last = max(wall, self._last + int((now - self._read_at) * 500_000))
        self._read_at = now
        lead = wall - _micros(now)
        if abs(lead - self._lead) > _HOUR:
            self._lead = lead
            self._trusted_at = now + _DAY / 1_000_000
        return wall


def _micros(seconds: float) -> int:
    return int(seconds * 1_000_000)
