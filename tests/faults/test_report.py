"""The page about reliability shows the stored figures, and the runner changes only its table."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.faults import report
from tests.faults.catalogue import ALL
from tests.faults.drill import Outcome
from tests.faults.history import Fault, Findings, History, Published, Told, Violation
from tests.faults.timeline import timeline

EMPTY = History(published=[], arrivals=[], stored=[], deliveries=[], attempts=[], faults=[])


def outcome(seed: int, *, drill: str = "kill-worker", engine: str = "sqlite", duplicates: int = 3) -> Outcome:
    findings = Findings(
        violations=[Violation("a promise", "a text")] if seed == 9 else [],
        delivered=90 + seed,
        dead={"permanent_failure": 2},
        duplicates={"worker killed": duplicates},
        unrecorded={"worker killed": 4},
        unseen={"refused": 5},
        late={},
    )
    published = Published(digest="d1", part="steady", told=Told.ACKNOWLEDGED, at=101.0)
    return Outcome(
        drill=drill,
        engine=engine,
        seed=seed,
        started=100.0,
        seconds=12.0,
        messages=1_000 + seed,
        requests=2_000 + seed,
        faults=[
            Fault(kind="worker killed", start=104.0, end=104.1),
            Fault(kind="worker killed", start=107.0, end=109.0),
        ],
        findings=findings,
        ended=[],
        notes=[],
        history=replace(EMPTY, published=[published]),
        logs="",
    )


def test_the_runs_of_a_drill_are_summed_up() -> None:
    row = report.row([outcome(7), outcome(9, duplicates=4)])
    assert (row.seeds, row.messages, row.faults, row.violations) == ([7, 9], 2_016, 4, 1)
    assert (row.duplicates, row.dead) == ({"worker killed": 7}, {"permanent_failure": 4})


def test_writing_keeps_the_text_and_the_rows_of_other_drills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, figures = tmp_path / "page.md", tmp_path / "reliability" / "figures.json"
    monkeypatch.setattr(report, "PAGE", page)
    monkeypatch.setattr(report, "FIGURES", figures)
    page.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    report.write(
        [report.row([outcome(1)]), report.row([outcome(2, drill="kill-api")])], {"kill-worker-sqlite": "<svg/>"}
    )
    report.write([report.row([outcome(5)])], {})
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert [row.messages for row in report.read()] == [1_005, 1_002]
    assert "| 1,005 |" in text
    assert "| 1,001 |" not in text
    assert "| **2** | **2,007** |" in text
    assert (tmp_path / "reliability" / "kill-worker-sqlite.svg").read_text() == "<svg/>"


def test_the_page_shows_the_stored_figures() -> None:
    page = report.PAGE.read_text()
    assert report.with_table(page, report.read()) == page


def test_a_timeline_shows_the_faults() -> None:
    drawn = timeline(outcome(7), "kill-worker")
    assert drawn.count("worker killed</text>") == 1
    assert drawn.count('class="away"') == 1
    assert drawn.count('class="mark"') == 1


def test_each_drill_has_its_own_name() -> None:
    assert len({drill.name for drill in ALL}) == len(ALL)
