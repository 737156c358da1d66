"""Counters and histograms that cost next to nothing. Only the event loop's thread adds to them; there are no locks.

A histogram is kept as counts per bucket and a sum, so that those of several processes, or of several minutes, simply add up.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from msgspec import Struct

Labels = tuple[str, ...]

SECONDS = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    120.0,
    300.0,
    3600.0,
    21600.0,
    86400.0,
)
QUICK = SECONDS[:13]  # up to 10 s: of what we do ourselves
SIZES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
ATTEMPTS = tuple(float(number) for number in range(1, 13))


class Family(Struct, frozen=True):
    """What is measured, in Prometheus's words."""

    name: str
    help: str
    labels: Labels = ()
    bounds: tuple[float, ...] = ()  # of a histogram's buckets, without infinity; empty: a counter


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


class Series(Struct, frozen=True, array_like=True):
    labels: Labels
    values: list[float]


class Measured(Struct, frozen=True, kw_only=True):
    """One family with its series, as it goes from process to process."""

    family: Family
    series: list[Series]


Snapshot = dict[str, Measured]


def snapshot(instruments: Iterable[Instrument]) -> Snapshot:
    return {
        each.family.name: Measured(
            family=each.family, series=[Series(labels, list(values)) for labels, values in each.values.items()]
        )
        for each in instruments
    }


def added(snapshots: Iterable[Snapshot]) -> Snapshot:
    """What several processes did together."""
    total: dict[str, tuple[Family, dict[Labels, list[float]]]] = {}
    for each in snapshots:
        for name, measured in each.items():
            _, rows = total.setdefault(name, (measured.family, {}))
            for series in measured.series:
                row = rows.get(series.labels)
                # Of two releases side by side the buckets may differ; what does not fit is left out.
                if row is None:
                    rows[series.labels] = list(series.values)
                elif len(row) == len(series.values):
                    rows[series.labels] = [one + other for one, other in zip(row, series.values, strict=True)]
    return {
        name: Measured(family=family, series=[Series(labels, values) for labels, values in rows.items()])
        for name, (family, rows) in total.items()
    }


# ── reading a histogram ──


def count(row: Sequence[float]) -> float:
    return sum(row[:-1])


def quantile(part: float, row: Sequence[float], bounds: Sequence[float]) -> float | None:
    """Between the bounds of the bucket where it falls, as Prometheus does; the last bound if it lies beyond. None: no values."""
    total = count(row)
    if total <= 0:
        return None
    rank, seen, low = part * total, 0.0, 0.0
    for bound, inside in zip(bounds, row[: len(bounds)], strict=True):
        if inside and seen + inside >= rank:
            return low + (bound - low) * (rank - seen) / inside
        seen += inside
        low = bound
    return bounds[-1] if bounds else math.nan


def at_least(part: float, row: Sequence[float], bounds: Sequence[float]) -> float:
    """The lower bound of the bucket where it falls: what is known of it, where `quantile` guesses."""
    rank, seen = part * count(row), 0.0
    for low, inside in zip((0.0, *bounds), row[:-1], strict=True):
        seen += inside
        if inside and seen >= rank:
            return low
    return bounds[-1]
