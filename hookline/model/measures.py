"""Metrics as plain data: families, series and histograms that can be summed over processes and over time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum

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
QUICK = SECONDS[:13]  # up to 10 s: for operations inside Hookline, such as a commit
SIZES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
ATTEMPTS = tuple(float(number) for number in range(1, 13))


class EndpointLabels(StrEnum):
    """Whether metrics have a label with the endpoint."""

    OFF = "off"
    TOP = "top"  # label with the endpoint's id, for the endpoints with the most failures
    HASHED = "hashed"  # label with a hash of the endpoint's id, for the endpoints with the most failures


class Family(Struct, frozen=True):
    """The name, help text and labels of a metric, as in Prometheus."""

    name: str
    help: str
    labels: Labels = ()
    bounds: tuple[float, ...] = ()  # upper bounds of a histogram's buckets, without infinity; empty for a counter


class Series(Struct, frozen=True, array_like=True):
    labels: Labels
    values: list[float]


class Measured(Struct, frozen=True, kw_only=True):
    """One family with its series. Processes send their metrics to each other in this form."""

    family: Family
    series: list[Series]


Snapshot = dict[str, Measured]


def added(snapshots: Iterable[Snapshot]) -> Snapshot:
    """Return the sum of the snapshots of several processes."""
    total: dict[str, tuple[Family, dict[Labels, list[float]]]] = {}
    for each in snapshots:
        for name, measured in each.items():
            _, rows = total.setdefault(name, (measured.family, {}))
            for series in measured.series:
                row = rows.setdefault(series.labels, [0.0] * len(series.values))
                # Processes of two releases may have different buckets. A row of another length is left out of the sum.
                if len(row) == len(series.values):
                    rows[series.labels] = [one + other for one, other in zip(row, series.values, strict=True)]
    return {
        name: Measured(family=family, series=[Series(labels, values) for labels, values in rows.items()])
        for name, (family, rows) in total.items()
    }


def count(row: Sequence[float]) -> float:
    return sum(row[:-1])


def quantile(part: float, row: Sequence[float], bounds: Sequence[float]) -> float | None:
    """Estimate a quantile by linear interpolation within its bucket, as Prometheus does.

    The result is the last bound if the quantile lies beyond it, and None if the histogram is empty.
    """
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
    """Return the lower bound of the bucket that holds the quantile. The true value is at least this bound."""
    rank, seen = part * count(row), 0.0
    for low, inside in zip((0.0, *bounds), row[:-1], strict=True):
        seen += inside
        if inside and seen >= rank:
            return low
    return bounds[-1]
