"""Lanes that a worker passed over: they, or their applications, hold their whole share of it. Pure.

Whoever holds a share gives it back with each outcome that is recorded, so the record wakes who waits for it: the lane itself, and
of an application as many lanes as it gave slots back, those first that have waited longest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from hookline.model import ClaimBatch, LeasedDelivery


class Crowd:
    """What one worker remembers of them."""

    def __init__(self) -> None:
        self._lanes: set[int] = set()
        self._by_app: dict[int, dict[int, None]] = {}  # endpoints by application, in the order in which they came

    def __len__(self) -> int:
        return len(self._lanes) + sum(map(len, self._by_app.values()))

    @property
    def apps(self) -> Collection[int]:
        """The applications that hold their share, and have more waiting."""
        return self._by_app.keys()

    def note(self, batch: ClaimBatch) -> None:
        """Who was passed over waits; who got something does not any more."""
        if self._by_app:
            self._leave({job.endpoint_no: job.app_no for job in batch.jobs}.items())
        self._lanes.update(batch.crowded)
        for endpoint_no, app_no in batch.crowded_apps.items():
            self._by_app.setdefault(app_no, {}).setdefault(endpoint_no)

    def woken_by(self, done: Iterable[LeasedDelivery]) -> set[int]:
        """The endpoints that may go on once these are recorded; `forget` them when they are."""
        jobs = list(done) if self._lanes or self._by_app else []
        woken = self._lanes.intersection(job.endpoint_no for job in jobs)
        for app_no, freed in Counter(job.app_no for job in jobs if job.app_no in self._by_app).items():
            line = self._by_app[app_no]
            woken.update(endpoint_no for endpoint_no, _ in zip(line, range(freed), strict=False))
        return woken

    def forget(self, woken: set[int]) -> None:
        self._lanes -= woken
        self._leave([(no, app_no) for app_no, line in self._by_app.items() for no in woken if no in line])

    def _leave(self, lanes: Iterable[tuple[int, int]]) -> None:
        for endpoint_no, app_no in lanes:
            line = self._by_app.get(app_no)
            if line is not None:
                line.pop(endpoint_no, None)
                if not line:
                    del self._by_app[app_no]
