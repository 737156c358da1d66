"""The first row id that the relay reads from, while a long transaction keeps deleted rows in the index."""

from __future__ import annotations

import pytest

from hookline.store.postgres import relay
from hookline.store.postgres.relay import Scan
from tests.store.test_relay import publish
from tests.support.manual_clock import ManualClock
from tests.support.scene import Scene

DEAR = 1.0  # seconds that an expensive scan takes


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    made = ManualClock()
    monkeypatch.setattr(relay, "monotonic", made)
    return made


def test_cheap_scans_always_start_at_the_first_row(clock: ManualClock) -> None:
    scan = Scan()
    for number in range(1, 100):
        assert scan.start() == 0
        scan.took(0, 0.001, [number])


def test_after_a_few_expensive_scans_only_new_rows_are_read_for_a_while(clock: ManualClock) -> None:
    scan = Scan()
    for _ in range(5):
        assert scan.start() == 0
        scan.took(0, DEAR, [5000])
    assert scan.start() == 4000
    clock.now += 1.9
    scan.took(4000, DEAR, [7000])
    assert scan.start() == 6000
    clock.now += 0.2
    assert scan.start() == 0, "a full scan at least every two seconds"
    scan.took(0, DEAR, [])
    assert scan.start() == 6000, "scans are still expensive"
    clock.now += 2.1
    scan.took(scan.start(), 0.001, [])
    assert scan.start() == 0


def test_one_cheap_scan_among_expensive_ones_keeps_scans_full(clock: ManualClock) -> None:
    scan = Scan()
    for _ in range(10):
        for seconds in (DEAR, DEAR, DEAR, DEAR, 0.001):
            assert scan.start() == 0
            scan.took(0, seconds, [5000])


def test_a_scan_that_finds_many_rows_may_take_long(clock: ManualClock) -> None:
    scan = Scan()
    for _ in range(10):
        assert scan.start() == 0
        scan.took(0, DEAR, range(1, 500))


async def test_rows_with_a_key_wait_for_the_next_full_scan(scene: Scene, clock: ManualClock) -> None:
    clock.step = DEAR
    for number in range(5):
        await publish(scene.raw, scene.app.id, event_id=f"dear-{number}")
        assert (await scene.store.pipeline.relay(10)).relayed == 1
    clock.step = 0.0
    await publish(scene.raw, scene.app.id, event_id="keyed", ordering_key="k")
    await publish(scene.raw, scene.app.id, event_id="plain")
    assert (await scene.store.pipeline.relay(10)).relayed == 1
    assert (await scene.store.pipeline.relay(10)).relayed == 0
    clock.now += 2.1
    assert (await scene.store.pipeline.relay(10)).relayed == 1
