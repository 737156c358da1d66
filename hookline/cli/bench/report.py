"""The result of a run: its table, and the comparison with a saved run."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from hookline.cli.bench.model import Figure, Machine, Measured, Report
from hookline.cli.output import Cell, Output
from hookline.errors import InvalidInput

NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
PERCENT = "A percentage is the part of the limit that the same run measured: `limits` and `store`."
ONLY_SAME = "Compare only runs on the same machine, with nothing else running on it."


def this_machine() -> Machine:
    return Machine(
        processors=os.cpu_count() or 1,
        system=platform.system(),
        architecture=platform.machine(),
        python=platform.python_version(),
    )


class Ledger:
    """The figures of all rounds, in the order in which they were first measured."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], Measured] = {}

    def add(self, scenario: str, engine: str, figures: Sequence[Figure]) -> None:
        for figure in figures:
            measured = Measured(
                scenario=scenario,
                figure=figure.name,
                engine=engine,
                unit=figure.unit,
                more_is_better=figure.more_is_better,
                limit=figure.limit,
                values=[],
            )
            self._found.setdefault(measured.key, measured).values.append(figure.value)

    def figures(self, order: Sequence[str]) -> list[Measured]:
        """Return the figures in the order of the scenarios."""
        return sorted(self._found.values(), key=lambda each: order.index(each.scenario))


def read(file: Path) -> Report:
    """Read a saved run."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Report)
    except OSError as error:
        raise InvalidInput(f"--against {file}: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise InvalidInput(f"--against {file}: not a run that `hookline bench --save` wrote") from None


# ── the table ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Line(Struct, frozen=True, kw_only=True):
    """One row of the table: a figure on all engines."""

    scenario: str
    figure: str
    unit: str
    by_engine: dict[str, Measured]

    def of(self, engine: str) -> Measured | None:
        return self.by_engine.get(engine) or self.by_engine.get("")


def lines(report: Report) -> list[Line]:
    found: dict[tuple[str, str], Line] = {}
    for each in report.figures:
        line = Line(scenario=each.scenario, figure=each.figure, unit=each.unit, by_engine={})
        found.setdefault((each.scenario, each.figure), line).by_engine[each.engine] = each
    return list(found.values())


def show(out: Output, report: Report, before: Report | None) -> None:
    engines = list(report.engines)
    columns = ["scenario", "figure", "unit"]
    for engine in engines:
        columns += [NAMES[engine], *(["ratio"] if before else [])]
    earlier = {} if before is None else {each.key: each for each in before.figures}
    rows: list[list[Cell]] = []
    for line in lines(report):
        row: list[Cell] = [line.scenario, line.figure, line.unit]
        for engine in engines:
            measured = line.of(engine)
            row.append(_cell(measured, report))
            if before is not None:
                row.append(_ratio(measured, earlier))
        rows.append(row)
    out.table(columns, rows, empty="nothing was measured")
    for text in notes(report, before):
        out.note(text)


def _cell(measured: Measured | None, report: Report) -> str | None:
    """Return the median, the range of the rounds, and the part of the limit."""
    if measured is None:
        return None
    text = number(measured.median)
    if len(measured.values) > 1:
        text += f" ({number(min(measured.values))} to {number(max(measured.values))})"
    bound = next((each for each in report.figures if _bounds(each, measured)), None)
    return text if bound is None else f"{text}, {measured.median / bound.median:.0%}"


def _bounds(limit: Measured, measured: Measured) -> bool:
    return limit.figure == measured.limit and limit.engine in ("", measured.engine)


def number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio(measured: Measured, before: Measured) -> float | None:
    return measured.median / before.median if before.median else None


def _ratio(measured: Measured | None, earlier: dict[tuple[str, str, str], Measured]) -> str | None:
    if measured is None or measured.key not in earlier:
        return None
    found = ratio(measured, earlier[measured.key])
    return None if found is None else f"× {found:.2f}"


def notes(report: Report, before: Report | None) -> list[str]:
    databases, rounds = ", ".join(report.engines.values()), report.rounds
    ran = f"{report.machine.processors} processors; {report.seconds:.0f} s in all"
    found = [f"{databases}; medians of {rounds} round{'s' if rounds > 1 else ''}; {ran}.", PERCENT]
    if rounds < report.size.rounds:
        found.append(
            f"The run ended after {rounds} of {report.size.rounds} rounds, so that it takes less than ten minutes."
        )
    if before is None:
        return [*found, ONLY_SAME]
    if before.machine != report.machine:
        found.append("The earlier run is from another machine or another Python: its ratios say nothing.")
    elif before.size != report.size:
        found.append(f"The sizes differ: the earlier run was {before.size.name}.")
    return [*found, f"Ratios: this run divided by the run of {before.at:%Y-%m-%d %H:%M} UTC. {ONLY_SAME}"]


def document(report: Report, before: Report | None) -> dict[str, Any]:
    """Return the JSON document, with the ratio of each figure if there is an earlier run."""
    found: dict[str, Any] = msgspec.to_builtins(report)
    earlier = {} if before is None else {each.key: each for each in before.figures}
    for shown, each in zip(found["figures"], report.figures, strict=True):
        shown["median"] = each.median
        if each.key in earlier:
            shown |= {"before": earlier[each.key].median, "ratio": ratio(each, earlier[each.key])}
    return found
