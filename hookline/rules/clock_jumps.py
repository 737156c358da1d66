"""Whether a clock jumped, so that the ages of stored rows cannot be trusted."""

from __future__ import annotations

HOUR, DAY = 3600.0, 86_400.0


class ClockJumps:
    """Compares a clock with the monotonic clock of this process. For a day after a jump of more than an hour, retention
    must delete nothing."""

    def __init__(self) -> None:
        self._lead: float | None = None  # seconds by which the clock is ahead of the monotonic clock
        self._trusted_at = 0.0

    def trusted(self, seconds: float, monotonic: float) -> bool:
        """Return False for a day after the clock jumped by more than an hour. `seconds` is the time of that clock, and
        `monotonic` the time of the monotonic clock."""
        lead = seconds - monotonic
        if self._lead is None or abs(lead - self._lead) > HOUR:
            self._trusted_at = monotonic if self._lead is None else monotonic + DAY
            self._lead = lead
        return monotonic >= self._trusted_at
