"""The store's clock follows the wall clock of this process. It never goes back and never stands still."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from hookline import clock
from hookline.clock import from_micros, to_micros, wall
from hookline.model.states import DeliveryState
from hookline.store.sqlite.clock import StoreClock, instant
from tests.support import factory
from tests.support.scene import Scene


class Hands:
    """A wall clock and a monotonic clock that a test can move."""

    def __init__(self) -> None:
        self.wall = wall()
        self.passed = 1000.0

    def move(self, seconds: float, *, wall: float | None = None) -> None:
        self.passed += seconds
        self.wall += timedelta(seconds=seconds if wall is None else wall)


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    hands = Hands()
    monkeypatch.setattr(clock, "wall", lambda: hands.wall)
    monkeypatch.setattr(clock, "monotonic", lambda: hands.passed)
    return hands


def test_the_store_clock_follows_the_wall_clock(hands: Hands) -> None:
    ours = StoreClock()
    assert ours.micros() == to_micros(hands.wall)
    hands.move(12.5)
    assert ours.micros() == to_micros(hands.wall)
    hands.move(1, wall=3600)
    assert ours.micros() == to_micros(hands.wall)


def test_after_a_step_back_the_clock_runs_more_slowly_until_the_wall_clock_catches_up(hands: Hands) -> None:
    ours = StoreClock()
    before = ours.micros()
    hands.move(0, wall=-100)
    assert ours.micros() == before
    hands.move(40)
    assert ours.micros() == before + 20_000_000
    hands.move(160)
    assert ours.micros() == before + 100_000_000 == to_micros(hands.wall)
    hands.move(7)
    assert ours.micros() == to_micros(hands.wall)


@pytest.mark.parametrize("micros", [0, 1, 1_794_732_478_041_398, 253_402_300_799_999_999])
def test_instants_keep_every_microsecond(micros: int) -> None:
    at: datetime = instant(micros)
    assert at == from_micros(micros)
    assert to_micros(at) == micros


HOUR, DAY = 3600.0, 86_400.0


def test_a_wall_clock_without_jumps_is_trusted(hands: Hands) -> None:
    ours = StoreClock()
    for _ in range(100):
        hands.move(DAY, wall=DAY + 30)
        assert ours.trusted()


@pytest.mark.parametrize("step", [-2 * HOUR, 2 * HOUR, 400 * DAY])
def test_a_wall_clock_that_jumped_is_not_trusted_for_a_day(hands: Hands, step: float) -> None:
    ours = StoreClock()
    hands.move(60, wall=60 + step)
    assert not ours.trusted()
    hands.move(DAY - 1)
    assert not ours.trusted()
    hands.move(2)
    assert ours.trusted()


def test_after_a_jump_ahead_and_back_the_clock_is_not_trusted_until_it_is_right(hands: Hands) -> None:
    """The store's clock never goes back. After the wall clock is set back, it stays ahead until the wall clock catches
    up."""
    ours = StoreClock()
    hands.move(1, wall=5 * DAY)
    ours.micros()
    hands.move(1, wall=-5 * DAY)
    hands.move(3 * DAY)
    assert not ours.trusted()
    hands.move(7 * DAY)
    assert ours.trusted()


@pytest.mark.store_options(retention_days=10, dead_retention_days=10)
async def test_retention_deletes_nothing_after_the_clock_jumped(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    await scene.endpoint()
    (message,) = await scene.send()
    await scene.record(*(factory.dead(job) for job in await scene.claim()))
    right = clock.wall
    monkeypatch.setattr(clock, "wall", lambda: right() + timedelta(days=11))
    report = await scene.store.upkeep.retire()
    assert (report.retired, report.dead_expired) == (0, 0)
    assert await scene.state(message) == DeliveryState.DEAD
    monkeypatch.setattr(clock, "wall", right)
    await scene.age(11 * DAY)
    assert (await scene.store.upkeep.retire()).retired == 0  # the store's clock is still ahead
    assert await scene.state(message) == DeliveryState.DEAD
