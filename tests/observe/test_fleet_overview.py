"""The overview of the fleet: rates, latencies and the most failing endpoints, from pulses alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from hookline.model.measures import ATTEMPTS, SECONDS
from hookline.model.pulses import Pulse
from hookline.observe.fleet_overview import overview

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def pulse(ago: float, process: str = "one", **fields: object) -> Pulse:
    return Pulse(at=NOW - timedelta(seconds=ago), process=process, **fields)  # type: ignore[arg-type]


def row(bounds: tuple[float, ...], **counts: int) -> list[float]:
    found = [0.0] * (len(bounds) + 2)
    for at, count in counts.items():
        found[int(at.removeprefix("at"))] = float(count)
    return found


def test_rates_of_the_last_minute_and_of_five() -> None:
    pulses = [pulse(ago, accepted=10, attempts={"delivered": 5}) for ago in range(295, 60, -10)]
    pulses += [
        pulse(ago, accepted=100, retries={"retry": 3, "delivered": 2}, dead={"x": 1}) for ago in range(55, 0, -10)
    ]
    seen = overview(pulses, NOW)
    assert seen.rates["accepted"].recent == pytest.approx(10)
    assert seen.rates["accepted"].window == pytest.approx((24 * 10 + 6 * 100) / 300)
    assert (seen.rates["delivered"].recent, seen.rates["retries"].recent) == (0, 0.5)
    assert seen.rates["dead"].recent == pytest.approx(0.1)
    assert seen.rates["accepted"].curve == [1.0] * 24 + [10.0] * 6


def test_the_rates_of_a_new_fleet_use_only_its_time() -> None:
    seen = overview([pulse(10, accepted=100), pulse(0, accepted=100)], NOW)
    assert seen.rates["accepted"].recent == pytest.approx(10)
    assert seen.rates["accepted"].window == pytest.approx(10)


def test_processes_without_recent_pulses_are_not_counted() -> None:
    pulses = [
        pulse(100, "dead", slots=512, in_flight=9),
        pulse(20, "one", slots=512, in_flight=1),
        pulse(10, "one", slots=512, in_flight=2),
        pulse(9, "two", slots=256, in_flight=4),
    ]
    seen = overview(pulses, NOW)
    assert (seen.processes, seen.slots, seen.in_flight) == (2, 768, 6)


def test_latencies_and_attempts_add_up_over_processes() -> None:
    at = SECONDS.index(1.0)
    pulses = [
        pulse(20, "one", latency=row(SECONDS, **{f"at{at}": 50}), used=row(ATTEMPTS, at0=3)),
        pulse(19, "two", latency=row(SECONDS, **{f"at{at}": 50}), used=row(ATTEMPTS, at1=1)),
    ]
    seen = overview(pulses, NOW)
    assert seen.latency["p50"] == pytest.approx(0.75)
    assert seen.latency["p99"] == pytest.approx(0.995)
    assert seen.attempts[:3] == [0.75, 0.25, 0]
    assert seen.request["p95"] is None


def test_the_most_failing_endpoints_come_first_and_healthy_ones_are_left_out() -> None:
    seen = overview(
        [pulse(20, endpoints={1: [5, 1], 2: [0, 9], 3: [7, 0]}), pulse(10, endpoints={1: [0, 2]})], NOW, limit=2
    )
    assert list(seen.failing.items()) == [(2, (0, 9)), (1, (5, 3))]


def test_the_overview_without_pulses_is_empty() -> None:
    seen = overview([], NOW)
    assert (seen.processes, seen.failing, seen.attempts, seen.latency["p50"]) == (0, {}, [], None)
    assert {rate.recent for rate in seen.rates.values()} == {0}
