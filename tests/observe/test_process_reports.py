"""Several processes shown as one: their metrics add up, and counters never fall."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hookline.clock import monotonic
from hookline.model.measures import Snapshot
from hookline.observe.process_reports import ProcessReports, Report, report, write
from hookline.observe.tally import OTHER, Tally
from hookline.server.supervised_worker import reporting


def accepted(found: Report) -> float:
    return sum(each.values[0] for each in found.snapshot["hookline_messages_accepted_total"].series)


def event_types(snapshot: Snapshot) -> dict[str, float]:
    family = snapshot["hookline_delivery_latency_seconds"]
    return {each.labels[0]: sum(each.values[:-1]) for each in family.series}


def busy(messages: int, *, in_flight: int = 0, slots: int = 0) -> Tally:
    tally = Tally()
    tally.ingested(messages, 0.001)
    tally.in_flight, tally.slots = in_flight, slots
    return tally


def test_processes_add_up(tmp_path: Path) -> None:
    fleet = ProcessReports(tmp_path)
    own = report(busy(1, in_flight=1, slots=2))
    assert fleet.together(own).processes == 1
    for messages in (10, 100):
        write(fleet.born(), report(busy(messages, in_flight=3, slots=64)))
    found = fleet.together(own)
    assert (accepted(found), found.processes, found.in_flight, found.slots) == (111, 3, 7, 130)


def test_the_largest_lag_of_several_outboxes_is_reported(tmp_path: Path) -> None:
    fleet = ProcessReports(tmp_path)
    long, short = Tally(), Tally()
    long.fell_behind("one", monotonic() - 90)
    long.fell_behind("other", monotonic() - 30)
    long.fell_behind("one", monotonic())  # the relay of "one" is still behind, so the first time counts
    short.fell_behind("one", monotonic() - 60)
    write(fleet.born(), report(long))
    assert 90 <= fleet.together(report(short)).outbox_lag < 120
    long.caught_up("one")
    assert 30 <= report(long).outbox_lag < 60


def test_a_process_without_a_report_is_not_counted(tmp_path: Path) -> None:
    fleet = ProcessReports(tmp_path)
    fleet.born()
    found = fleet.together(report(busy(1)))
    assert (accepted(found), found.processes) == (1, 1)


def test_the_counters_of_a_dead_process_stay_but_its_gauges_do_not(tmp_path: Path) -> None:
    fleet, own = ProcessReports(tmp_path), report(busy(0))
    path = fleet.born()
    write(path, report(busy(7, in_flight=3, slots=64)))
    fleet.died(path)
    found = fleet.together(own)
    assert (accepted(found), found.processes, found.in_flight, found.slots) == (7, 1, 0, 0)
    assert list(tmp_path.iterdir()) == []
    write(fleet.born(), report(busy(2)))  # the next process starts at zero
    assert accepted(fleet.together(own)) == 9


def test_the_last_report_of_a_dying_process_is_counted(tmp_path: Path) -> None:
    """The last report is counted, even if nobody has read it before."""
    fleet, own = ProcessReports(tmp_path), report(busy(0))
    path = fleet.born()
    write(path, report(busy(7)))
    assert accepted(fleet.together(own)) == 7
    write(path, report(busy(9)))
    fleet.died(path)
    assert accepted(fleet.together(own)) == 9


def test_an_unreadable_report_leaves_the_last_one_in_force(tmp_path: Path) -> None:
    fleet, own = ProcessReports(tmp_path), report(busy(0))
    path = fleet.born()
    write(path, report(busy(7)))
    fleet.together(own)
    for broken in (b"", b"{", b'{"snapshot": 5}', b"\xff"):
        path.write_bytes(broken)
        assert accepted(fleet.together(own)) == 7
    path.unlink()
    assert accepted(fleet.together(own)) == 7
    fleet.died(path)
    assert accepted(fleet.together(own)) == 7


def test_all_processes_together_have_no_more_event_type_labels_than_one(tmp_path: Path) -> None:
    fleet = ProcessReports(tmp_path, event_types=3)
    for names in (("a", "b"), ("b", "c", "d")):
        tally = Tally()
        for name in names:
            tally.latency.observe(0.1, name)
        write(fleet.born(), report(tally))
    found = event_types(fleet.together(report(Tally())).snapshot)
    assert found == {"a": 1, "b": 2, "c": 1, OTHER: 1}


@given(st.lists(st.tuples(st.sampled_from(["work", "tell", "die", "look"]), st.integers(0, 2), st.integers(1, 9))))
def test_counters_never_fall_whatever_happens(steps: list[tuple[str, int, int]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        fleet = ProcessReports(Path(directory))
        lives = [(fleet.born(), Tally()) for _ in range(3)]
        own, shown, done = Tally(), 0.0, 0
        for what, which, number in steps:
            path, tally = lives[which]
            if what == "work":
                tally.ingested(number, 0.001)
                done += number
            elif what == "tell":
                write(path, report(tally))
            elif what == "die":
                fleet.died(path)
                lives[which] = (fleet.born(), Tally())
            now = accepted(fleet.together(report(own)))
            assert shown <= now <= done
            shown = now


async def test_a_process_writes_reports_and_a_last_one_when_it_ends(tmp_path: Path) -> None:
    fleet, tally = ProcessReports(tmp_path), busy(1)
    path = fleet.born()
    async with reporting(path, tally):
        async with asyncio.timeout(60):
            while not path.exists():
                await asyncio.sleep(0.01)  # another task writes the report, so there is no event to await
        tally.ingested(4, 0.001)
    assert accepted(fleet.together(report(busy(0)))) == 5


async def test_a_report_that_cannot_be_written_does_not_stop_the_process(tmp_path: Path) -> None:
    async with reporting(tmp_path / "gone" / "1", Tally()):
        await asyncio.sleep(0)
    assert not (tmp_path / "gone").exists()
