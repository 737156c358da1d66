"""The results: medians of the rounds, the ratios to Hookline, the tables, and the JSON file."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct
from rich.table import Table

Run = TypeVar("Run")
Key = TypeVar("Key")

BASELINE = "Hookline (PostgreSQL)"
STEADY = 0.75  # the share of the deliveries, the last ones, in the steady rate


class Drained(Struct, frozen=True, kw_only=True):
    name: str
    per_second: float  # from the first arrival to the last
    steady: float  # the same over the last 75 % of the arrivals
    arrived: int
    twice: int  # requests for a message that had arrived before


class Flowed(Struct, frozen=True, kw_only=True):
    name: str
    rate: int
    p50: float  # milliseconds
    p99: float
    lost: int  # messages that did not arrive in time
    twice: int


class Results(Struct, frozen=True, kw_only=True):
    messages: int
    loads: list[float] = []  # of the machine, before each round
    processors: int
    drains: list[Drained] = []
    flows: list[Flowed] = []

    def to_json(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"


def drained(name: str, times: Iterable[float], twice: int) -> Drained:
    ordered = sorted(times)
    steady = ordered[int(len(ordered) * (1 - STEADY)) :]
    return Drained(
        name=name, per_second=_per_second(ordered), steady=_per_second(steady), arrived=len(ordered), twice=twice
    )


def _per_second(ordered: Sequence[float]) -> float:
    """Return the rate between the first and the last of these times."""
    if len(ordered) < 2 or ordered[-1] == ordered[0]:
        return 0.0
    return (len(ordered) - 1) / (ordered[-1] - ordered[0])


def flowed(name: str, rate: int, waits: Iterable[float], lost: int, twice: int) -> Flowed:
    ordered = sorted(waits)
    return Flowed(name=name, rate=rate, p50=_share(ordered, 0.5), p99=_share(ordered, 0.99), lost=lost, twice=twice)


def _share(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else float("nan")


# ── tables ────────────────────────────────────────────────────────────────────────────────────────────────────────


def drain_table(results: Results) -> Table:
    table = Table(
        "what",
        "deliveries/s",
        "last 75 %",
        "Hookline / this",
        "rounds",
        title=f"drain of {results.messages:,} messages",
    )
    rows = _grouped(results.drains, lambda run: run.name)
    base = rows.get(BASELINE, [])
    for name, runs in rows.items():
        medians = [f"{_median(runs, field):,.0f}" for field in ("per_second", "steady")]
        ratios = _ratios(base, runs, ("per_second", "steady"))
        missing = results.messages - min(run.arrived for run in runs)
        rounds = ", ".join(f"{run.per_second:,.0f}" for run in runs)
        table.add_row(_with_missing(name, missing), *medians, ratios, rounds)
    return table


def flow_table(results: Results) -> Table:
    table = Table("messages/s", "what", "p50 ms", "p99 ms", "Hookline / this", "rounds", title="flow")
    rows = _grouped(results.flows, lambda run: (run.rate, run.name))
    for (rate, name), runs in rows.items():
        medians = [f"{_median(runs, field):,.1f}" for field in ("p50", "p99")]
        ratios = _ratios(rows.get((rate, BASELINE), []), runs, ("p50", "p99"))
        rounds = ", ".join(f"{run.p50:.1f}/{run.p99:.0f}" for run in runs)
        table.add_row(f"{rate:,}", _with_missing(name, max(run.lost for run in runs)), *medians, ratios, rounds)
    return table


def _with_missing(name: str, missing: int) -> str:
    return f"{name} ({missing:,} did not arrive)" if missing else name


def _grouped(runs: Iterable[Run], key: Callable[[Run], Key]) -> dict[Key, list[Run]]:
    groups: dict[Key, list[Run]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return groups


def _median(runs: Sequence[Struct], field: str) -> float:
    values: list[float] = [getattr(run, field) for run in runs]
    return statistics.median(values)


def _ratios(base: Sequence[Struct], runs: Sequence[Struct], fields: Iterable[str]) -> str:
    """Return Hookline's medians divided by these, or nothing if Hookline was not measured."""
    return ", ".join(_ratio(_median(base, field), _median(runs, field)) for field in fields) if base else ""


def _ratio(one: float, other: float) -> str:
    return f"{one / other:.2f}" if other else "–"
