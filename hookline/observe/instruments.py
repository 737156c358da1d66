"""Counters and histograms that cost next to nothing. Only the event loop's thread adds to them; there are no locks.

A histogram is kept as counts per bucket and a sum, so that those of several processes, or of several minutes, simply add up.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from hookline.model.measures import Family, Labels, Measured, Series, Snapshot


class Counter:
    """Only ever grows."""

    def __init__(self, name: str, about: str, *labels: str) -> None:
        self.family = Family(name, about, labels)
        self.values: dict[Labels, list[float]] = {} if labels else {(): [0.0]}

    def expect(self, *labels: str) -> None:
        """Shown from the start: Prometheus sees no growth in a series that begins with its first event."""
        self.values.setdefault(labels, [0.0])

    def add(self, amount: float = 1.0, *labels: str) -> None:
        if amount:
            held = self.values.get(labels)
            if held is None:
                self.values[labels] = [amount]
            else:
                held[0] += amount


class Histogram:
    """Counts per bucket, the last one for what is beyond every bound; then the sum."""

    def __init__(self, name: str, about: str, bounds: tuple[float, ...], *labels: str) -> None:
        self.family = Family(name, about, labels, bounds)
        self.values: dict[Labels, list[float]] = {}
        if not labels:
            self.of()

    def of(self, *labels: str) -> list[float]:
        """The row to `observe` into: looked up once for a batch."""
        row = self.values.get(labels)
        if row is None:
            row = self.values[labels] = [0.0] * (len(self.family.bounds) + 2)
        return row

    def observe(self, value: float, *labels: str) -> None:
        put(self.of(*labels), self.family.bounds, value)

    def observe_all(self, values: list[float], *labels: str) -> None:
        """Many at once, for a fraction of the cost. Sorts them."""
        if values:
            spread(self.of(*labels), self.family.bounds, values)


Instrument = Counter | Histogram


def put(row: list[float], bounds: Sequence[float], value: float) -> None:
    row[bisect_left(bounds, value)] += 1.0
    row[-1] += value


def spread(row: list[float], bounds: Sequence[float], values: list[float]) -> None:
    """As `put` for each of them: the bounds are looked for among the values, which are many, instead of the reverse."""
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


# ── snapshots: they add up over processes, and their difference is what happened in between ──


def snapshot(instruments: Iterable[Instrument]) -> Snapshot:
    return {
        each.family.name: Measured(
            family=each.family, series=[Series(labels, list(values)) for labels, values in each.values.items()]
        )
        for each in instruments
    }


# ── reading a histogram ──
