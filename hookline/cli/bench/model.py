"""Sizes of a run, and the figures that it measures. `Report` is the JSON document of `--json` and `--save`."""

from __future__ import annotations

import statistics
from datetime import datetime

from msgspec import Struct

from hookline.errors import HooklineError

EVENT_TYPE = "order.paid"
LIMITS = "limits"


class BenchFailed(HooklineError):
    """A measurement failed: a process ended, or requests are missing."""


class Size(Struct, frozen=True, kw_only=True):
    """How much one run measures."""

    name: str
    rounds: int
    longest: float | None = None  # seconds; no further round begins if it would end after them
    messages: int  # backlog of a drain
    seconds: float  # duration of each measurement at a rate or at full speed
    endpoints: int  # in the scenario `wide`
    held: int
    history: int
    processes: tuple[int, ...]


QUICK = Size(
    name="quick",
    rounds=1,
    messages=5_000,
    seconds=1.0,
    endpoints=1_000,
    held=10_000,
    history=50_000,
    processes=(1, 2, 4),
)
DEFAULT = Size(
    name="default",
    rounds=3,
    longest=570.0,
    messages=10_000,
    seconds=1.5,
    endpoints=10_000,
    held=50_000,
    history=250_000,
    processes=(1, 2, 3, 4),
)
FULL = Size(
    name="full",
    rounds=2,
    messages=30_000,
    seconds=5.0,
    endpoints=10_000,
    held=1_000_000,
    history=5_000_000,
    processes=(1, 2, 3, 4),
)


class Figure(Struct, frozen=True, kw_only=True):
    """One number that a scenario has measured."""

    name: str
    value: float
    unit: str
    more_is_better: bool = True
    limit: str = ""  # the name of a figure of the scenario `limits`, or of `store`, that bounds this one


class Measured(Struct, frozen=True, kw_only=True, rename="camel"):
    """One figure with its values of all rounds."""

    scenario: str
    figure: str
    engine: str  # empty if the figure does not depend on an engine
    unit: str
    more_is_better: bool
    limit: str
    values: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.scenario, self.figure, self.engine


class Machine(Struct, frozen=True, kw_only=True):
    processors: int
    system: str
    architecture: str
    python: str


class Report(Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of one run."""

    version: str
    at: datetime
    machine: Machine
    engines: dict[str, str]  # version of the database by engine
    size: Size
    seconds: float
    figures: list[Measured]

    @property
    def rounds(self) -> int:
        return max((len(each.values) for each in self.figures), default=0)


def share(ordered: list[float], part: float) -> float:
    """Return a percentile of sorted values."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]
