"""Fast counters and histograms without locks. Only the thread of the event loop may write to them.

A histogram is a count per bucket and a sum, so that histograms of several processes or minutes can be added.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from hookline.model.measures import Family, Labels, Measured, Series, Snapshot


class Counter:
    """A number that only increases, per combination of labels.

    The series of the `expected` label values start with 0. Prometheus cannot see growth in a series that begins with
    its first event.
    """

    def __init__(self, name: str, about: str, *labels: str, expected: Iterable[str] = ()) -> None:
        self.family = Family(name, about, labels)
        self.values: dict[Labels, list[float]] = {(str(value),): [0.0] for value in expected} if labels else {(): [0.0]}

    def add(self, amount: float = 1.0, *labels: str) -> None:
        if amount:
            self.values.setdefault(labels, [0.0])[0] += amount


class Histogram:
    """A row of numbers per combination of labels: the count of each bucket, the count of values above the last bucket,
    and the sum of all values."""

    def __init__(self, name: str, about: str, bounds: tuple[float, ...], *labels: str) -> None:
        self.family = Family(name, about, labels, bounds)
        self.values: dict[Labels, list[float]] = {}
        if not labels:
            self.of()

    def of(self, *labels: str) -> list[float]:
        """Return the row of these labels. Create it if it is missing."""
        return self.values.setdefault(labels, [0.0] * (len(self.family.bounds) + 2))

    def observe(self, value: float, *labels: str) -> None:
        row = self.of(*labels)
        row[bisect_left(self.family.bounds, value)] += 1.0
        row[-1] += value

    def observe_all(self, values: list[float], *labels: str) -> None:
        """Add many values, faster than one `observe` for each. Sort `values` in place, then find the bounds in it."""
        if not values:
            return
        row, bounds = self.of(*labels), self.family.bounds
        values.sort()
        low = 0
        for at, bound in enumerate(bounds):
            high = bisect_right(values, bound, low)
            row[at] += high - low
            low = high
            if low == len(values):
                break
        row[len(bounds)] += len(values) - low
        row[-1] += sum(values)


Instrument = Counter | Histogram


def snapshot(instruments: Iterable[Instrument]) -> Snapshot:
    return {
        each.family.name: Measured(
            family=each.family, series=[Series(labels, list(values)) for labels, values in each.values.items()]
        )
        for each in instruments
    }
