"""The results of drills: a table in the terminal, a file of figures, and the table of docs/reliability.md."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from rich.table import Table

from tests.faults.catalogue import ALL
from tests.faults.drill import Drill, Outcome

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "reliability.md"
FIGURES = DOCS / "reliability" / "figures.json"
BEGIN, END = "<!-- drills -->", "<!-- /drills -->"
ENGINE = {"postgres": "PostgreSQL", "sqlite": "SQLite"}


class Row(Struct, frozen=True, kw_only=True):
    """The figures of one drill on one engine: the sums of its runs."""

    drill: str
    engine: str
    seeds: list[int]
    messages: int
    requests: int
    faults: int
    lost: int
    violations: int
    dead: dict[str, int]
    duplicates: dict[str, int]
    unrecorded: dict[str, int]
    unseen: dict[str, int]
    late: dict[str, int]
    ended: int  # processes that ended by themselves
    gone: int = 0  # acknowledged after a backup, and removed by its restore

    @property
    def key(self) -> str:
        return f"{self.drill} {self.engine}"


def row(outcomes: Sequence[Outcome]) -> Row:
    """Sum up the runs of one drill on one engine."""
    found = [one.findings for one in outcomes]
    return Row(
        drill=outcomes[0].drill,
        engine=outcomes[0].engine,
        seeds=[one.seed for one in outcomes],
        messages=sum(one.messages for one in outcomes),
        requests=sum(one.requests for one in outcomes),
        faults=sum(len(one.faults) for one in outcomes),
        lost=sum(one.lost for one in found),
        violations=sum(len(one.violations) for one in found),
        dead=_sum(one.dead for one in found),
        duplicates=_sum(one.duplicates for one in found),
        unrecorded=_sum(one.unrecorded for one in found),
        unseen=_sum(one.unseen for one in found),
        late=_sum(one.late for one in found),
        ended=sum(len(one.ended) for one in outcomes),
        gone=sum(one.gone for one in found),
    )


def _sum(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(sorted(total.items()))


def table(rows: Sequence[Row]) -> Table:
    columns = ("drill", "engine", "runs", "messages", "requests", "faults", "lost", "violations", "dead")
    found = Table(*columns, "sent twice, and why", "requests without a record", "attempts that nobody saw")
    for one in rows:
        figures = (len(one.seeds), one.messages, one.requests, one.faults, one.lost, one.violations)
        dead = _causes(one.dead) or "0"
        causes = (_causes(one.duplicates), _causes(one.unrecorded), _causes(one.unseen))
        found.add_row(one.drill, one.engine, *(f"{figure:,}" for figure in figures), dead, *causes)
    found.add_section()
    total = f"{sum(one.messages for one in rows):,}"
    found.add_row("all", "", str(sum(len(one.seeds) for one in rows)), total)
    return found


def _causes(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {cause}" for cause, count in counts.items())


# ── the page ──────────────────────────────────────────────────────────────────────────────────────────────────────


def write(rows: Sequence[Row], pictures: Mapping[str, str]) -> None:
    """Replace the figures of the drills in `rows`, keep those of other drills, and rewrite the table of `PAGE`."""
    FIGURES.parent.mkdir(exist_ok=True)
    kept = {one.key: one for one in read()} | {one.key: one for one in rows}
    ordered = sorted(kept.values(), key=_place)
    FIGURES.write_bytes(msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n")
    for name, picture in pictures.items():
        (FIGURES.parent / f"{name}.svg").write_text(picture)
    PAGE.write_text(with_table(PAGE.read_text(), ordered))


def read() -> list[Row]:
    return msgspec.json.decode(FIGURES.read_bytes(), type=list[Row]) if FIGURES.exists() else []


def _place(one: Row) -> tuple[int, str]:
    names = [drill.name for drill in ALL]
    return (names.index(one.drill) if one.drill in names else len(names), one.engine)


def with_table(page: str, rows: Sequence[Row]) -> str:
    """Return the page with a new table of `rows` between the marks `BEGIN` and `END`."""
    text = f"{BEGIN}\n{markdown(rows)}\n{END}"
    return re.sub(f"{BEGIN}.*{END}", lambda _: text, page, flags=re.DOTALL)


def markdown(rows: Sequence[Row]) -> str:
    drills = {drill.name: drill for drill in ALL}
    head = (
        "| drill | fault | promise | engine | runs | messages | faults | lost | broken promises | dead letters"
        " | sent twice, and why |\n|---|---|---|---|---|---|---|---|---|---|---|"
    )
    lines = [_line(one, drills[one.drill]) for one in rows if one.drill in drills]
    sums = (sum(len(one.seeds) for one in rows), *(sum(each) for each in zip(*map(_figures, rows), strict=True)))
    total = " | ".join(f"**{number:,}**" for number in sums)
    return "\n".join([head, *lines, f"| **all** | | | | {total} | | |"])


def _figures(one: Row) -> tuple[int, int, int, int]:
    return one.messages, one.faults, one.lost, one.violations


def _line(one: Row, drill: Drill) -> str:
    twice = _causes(one.duplicates) or "0"
    dead = _causes(one.dead) or "0"
    name = f"[{one.drill}](reliability/{one.drill}-{one.engine}.svg)"
    figures = " | ".join(f"{number:,}" for number in (len(one.seeds), *_figures(one)))
    if one.gone:
        twice += f". {one.gone:,} acknowledged after the backup are gone"
    return f"| {name} | {drill.fault} | {drill.promise} | {ENGINE[one.engine]} | {figures} | {dead} | {twice} |"
