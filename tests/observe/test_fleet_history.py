"""The history of the fleet: sums over intervals. Each quarter of an hour is read once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hookline.model.pulses import Pulse
from hookline.observe.fleet_history import QUARTER, History, begin, charted, stretches

NOW = datetime(2026, 3, 1, 12, 37, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def pulse(at: datetime, number: int, process: str = "") -> Pulse:
    return Pulse(
        at=at,
        process=process,
        accepted=number,
        attempts={"delivered": 2.0 * number, "retry": 3.0 * number, "dead": 5.0 * number},
        dead={"unsendable": 7.0 * number},
        latency=[number, 1.0],
        first_latency=[number, 2.0],
        lag=[number, 3.0],
        used=[number, 4.0],
    )


class Kept:
    """A fake database of pulses that keeps the queries it got."""

    def __init__(self, minutes: list[Pulse], latest: list[Pulse] | None = None) -> None:
        self.minutes = minutes
        self.latest = latest or []
        self.asked: list[tuple[datetime, datetime | None, bool]] = []

    async def __call__(self, since: datetime, until: datetime | None = None, *, minutes: bool = False) -> list[Pulse]:
        self.asked.append((since, until, minutes))
        found = self.minutes if minutes else self.latest
        return [each for each in found if since < each.at and (until is None or each.at <= until)]


def week() -> list[Pulse]:
    """Return one pulse for each minute of a week, up to a minute ago. Each number occurs once."""
    end = begin(NOW, MINUTE) - MINUTE
    return [pulse(end - at * MINUTE, at + 1) for at in range(7 * 24 * 60)][::-1]


def test_a_pulse_belongs_to_the_interval_in_which_it_ended() -> None:
    edge = begin(NOW, QUARTER)
    found = stretches([pulse(edge, 1), pulse(edge + MINUTE, 2), pulse(edge - MINUTE, 4)], QUARTER)
    assert {at: each.accepted for at, each in found.items()} == {edge - QUARTER: 5.0, edge: 2.0}


def test_every_charted_field_is_summed() -> None:
    found = stretches([pulse(NOW, 1), pulse(NOW, 2)], QUARTER)
    wanted = Pulse(
        at=begin(NOW, QUARTER),
        processes=0,
        accepted=3.0,
        attempts={"delivered": 6.0, "retry": 9.0, "dead": 15.0},
        latency=[3.0, 2.0],
        first_latency=[3.0, 4.0],
        lag=[3.0, 6.0],
        used=[3.0, 8.0],
    )
    assert list(found.values()) == [wanted]
    assert charted(found.values(), wanted.at) == wanted
    assert wanted.attempted == 30.0


def test_rows_of_another_release_are_left_out() -> None:
    other = Pulse(at=NOW, latency=[1.0, 1.0, 1.0])
    (found,) = stretches([pulse(NOW, 1), other], QUARTER).values()
    assert found.latency == [1.0, 1.0]


def test_summing_changes_no_pulse() -> None:
    one = pulse(NOW, 1)
    stretches([one, pulse(NOW, 2)], QUARTER)
    assert one == pulse(NOW, 1)


async def test_the_history_has_whole_minutes_and_the_latest_pulses() -> None:
    latest = [pulse(NOW - timedelta(seconds=5), 100, "a"), pulse(NOW - timedelta(seconds=3), 1000, "b")]
    found = await History().minutes(Kept(week(), latest), NOW - timedelta(hours=1))
    assert len(found) == 60
    assert sum(each.accepted for each in found) == sum(range(1, 60)) + 1100
    assert [each.at for each in found] == sorted(each.at for each in found)


async def test_a_week_is_read_once_and_in_parts() -> None:
    history, read = History(), Kept(week())
    since = begin(NOW, timedelta(hours=1)) - timedelta(days=6)
    wanted = sum(each.accepted for each in read.minutes if each.at > since)
    first = await history.quarters(read, since, NOW)
    assert sum(each.accepted for each in first) == wanted
    spans = [until - begun for begun, until, _ in read.asked if until is not None]
    assert len(spans) > 20
    assert max(spans) <= timedelta(hours=6)
    read.asked.clear()
    assert await history.quarters(read, since, NOW) == first
    assert [until for _, until, _ in read.asked] == [None, None]  # the last hour, and pulses after the last minute


async def test_a_longer_range_reads_only_what_is_missing() -> None:
    history, read = History(), Kept(week())
    await history.quarters(read, NOW - timedelta(hours=6), NOW)
    read.asked.clear()
    found = await history.quarters(read, NOW - timedelta(hours=24), NOW)
    assert sum(each.accepted for each in found) == sum(each.accepted for each in read.minutes if each.at > found[0].at)
    assert all(until <= begin(NOW, QUARTER) - timedelta(hours=6) for _, until, _ in read.asked if until is not None)


async def test_an_interval_that_is_not_over_is_read_again() -> None:
    read = Kept(week())
    history = History()
    before = await history.quarters(read, NOW - timedelta(hours=6), NOW)
    read.minutes.append(pulse(begin(NOW, MINUTE), 100_000))
    read.latest.append(pulse(NOW, 1_000_000, "a"))
    after = await history.quarters(read, NOW - timedelta(hours=6), NOW)
    assert sum(each.accepted for each in after) - sum(each.accepted for each in before) == 1_100_000


async def test_minutes_that_are_aggregated_late_are_not_missed() -> None:
    """No minutes were aggregated for half an hour, so the database still has the single pulses."""
    late = [each for each in week() if each.at <= NOW - timedelta(minutes=30)]
    came = [pulse(NOW - timedelta(minutes=29 - at), 10_000, "a") for at in range(29)]
    history, read = History(), Kept(late, came)
    since = NOW - timedelta(hours=6)
    first = await history.quarters(read, since, NOW)
    assert (
        sum(each.accepted for each in first) == sum(each.accepted for each in late if each.at > first[0].at) + 290_000
    )
    made = Kept([*late, *(pulse(begin(each.at, MINUTE) + MINUTE, 10_000) for each in came)])
    assert sum(each.accepted for each in await history.quarters(made, since, NOW)) == sum(
        each.accepted for each in first
    )


async def test_the_history_without_pulses_is_empty() -> None:
    found = await History().quarters(Kept([]), NOW - timedelta(hours=6), NOW)
    assert sum(each.attempted for each in found) == 0
    assert await History().minutes(Kept([]), NOW) == []
