"""The database's clock is this process's wall clock; it never goes back, and never stands still."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from hookline import clock
from hookline.clock import from_micros, to_micros, wall
from hookline.store.sqlite.clock import StoreClock, instant


class Hands:
    """A wall clock and a stopwatch that a test moves."""

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


def test_it_follows_the_wall(hands: Hands) -> None:
    ours = StoreClock()
    assert ours.micros() == to_micros(hands.wall)
    hands.move(12.5)
    assert ours.micros() == to_micros(hands.wall)
    hands.move(1, wall=3600)
    assert ours.micros() == to_micros(hands.wall)


def test_after_a_step_back_it_goes_on_more_slowly_until_the_wall_has_caught_up(hands: Hands) -> None:
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
def test_instants_are_exact(micros: int) -> None:
    at: datetime = instant(micros)
    assert at == from_micros(micros)
    assert to_micros(at) == micros
