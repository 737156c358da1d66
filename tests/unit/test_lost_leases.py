"""When a lease counts as lost, while the database is available or fails now and then."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline.errors import StoreUnavailable
from hookline.rules.lost_leases import Period, overdue
from hookline.store import outage
from hookline.store.outage import Outage

GRACE = 60.0

spans = st.floats(min_value=0.001, max_value=300.0)
histories = st.lists(st.tuples(spans, spans), min_size=1, max_size=40)  # seconds available, then seconds unavailable


def spells_of(history: list[tuple[float, float]], last: float) -> tuple[list[Period], float]:
    """Return the periods of a history that ends with `last` available seconds, and the time now."""
    periods, now = [], 1000.0
    for available, away in history:
        periods.append(Period(now, available))
        now += available + away
    return [*periods, Period(now, last)], now + last


def available_since(periods: list[Period], at: float) -> float:
    return sum(max(0.0, period.began + period.seconds - max(at, period.began)) for period in periods)


def test_without_an_outage_a_lease_is_lost_when_it_ends() -> None:
    assert overdue([Period(1000.0, 0.5)], now=1000.5, grace=GRACE) == 0.0


def test_one_lease_after_an_outage_every_lease_that_ended_is_lost() -> None:
    periods, now = spells_of([(20.0, 500.0)], last=GRACE)
    assert overdue(periods, now=now, grace=GRACE) == 0.0


def test_soon_after_an_outage_no_lease_is_lost_of_which_a_live_worker_may_have_the_outcome() -> None:
    periods, now = spells_of([(100.0, 500.0)], last=10.0)
    wait = overdue(periods, now=now, grace=GRACE)
    assert wait is not None
    assert wait > 510.0  # a lease that ended before the outage is lost, one that ended during it is not


def test_a_process_that_started_during_an_outage_does_not_know_how_long_it_lasted() -> None:
    periods, now = spells_of([(0.1, 3.0)], last=10.0)
    assert overdue(periods, now=now, grace=GRACE) is None


@given(histories, spans)
def test_a_lost_lease_had_its_time_with_an_available_database(history: list[tuple[float, float]], last: float) -> None:
    periods, now = spells_of(history, last)
    wait = overdue(periods, now=now, grace=GRACE)
    if wait:
        assert available_since(periods, now - wait) >= GRACE - 1e-6


@given(histories, spans)
def test_the_wait_ends_however_often_the_database_fails(history: list[tuple[float, float]], last: float) -> None:
    periods, now = spells_of(history, last)
    wait = overdue(periods, now=now, grace=GRACE)
    if available_since(periods, periods[0].began) >= GRACE + 1e-6:
        assert wait is not None
        recent = [period for period in periods if period.began > now - wait]
        # `wait` begins with a period and is no longer than necessary: the later periods alone do not exceed GRACE
        assert available_since(recent, now - wait) <= GRACE


async def test_short_periods_are_joined_and_still_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now, stop = [1000.0], asyncio.Event()
    stop.set()
    monkeypatch.setattr(outage, "monotonic", lambda: now[0])
    seen = Outage(random.Random(1))
    for _ in range(3000):
        now[0] += 0.01
        await seen.failed("test", StoreUnavailable("away"), stop)
        now[0] += 0.5
        seen.passed()
    assert len(seen._periods) <= 30  # the database was available for 30 seconds in all
    wait = seen.lease_overdue(10.0)
    assert wait is not None
    assert 500 < wait < 600  # the database was available for 10 seconds of this time
