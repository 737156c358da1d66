"""How long a lease must be over before the sweep gives its delivery to another worker."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct


class Period(Struct, frozen=True):
    """A period in which the database was available. Times are monotonic seconds."""

    began: float
    seconds: float  # less than the time since `began` if the period was joined with later ones


def overdue(periods: Sequence[Period], *, now: float, grace: float) -> float | None:
    """Return how many seconds ago a lease must have ended to count as lost. None: no lease counts as lost yet.

    While the database is unavailable, live workers cannot record their outcomes. So after an outage, they get `grace`
    seconds with an available database. If the database fails again and again, the seconds of its available periods are
    added up, so that the sweep does not wait forever. `periods` are those since this process started, oldest first,
    and the last one lasts until now.
    """
    if len(periods) == 1 or periods[-1].seconds >= grace:
        return 0.0
    available = 0.0
    for period in reversed(periods):
        available += period.seconds
        if available >= grace:
            return now - period.began
    return None
