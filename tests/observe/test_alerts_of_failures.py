"""Alerts for failures fire on both engines, but not for few failures or a short time."""

from __future__ import annotations

import pytest

from hookline.model.alerts import Severity
from hookline.model.dead import DeadFilter
from tests.support import factory
from tests.support.alerts import Fleet, fails, only
from tests.support.scene import Scene

# ── dead letters ──


async def test_the_dead_letter_alert_becomes_critical_and_then_a_warning_again(scene: Scene) -> None:
    fleet = Fleet(scene, only(dead_letters=10, dead_letters_critical=100))
    await scene.endpoint()

    async def severities() -> list[Severity]:
        await fleet.check()
        return [alert.severity for alert in await fleet.firing()]

    await fleet.attempt(10, factory.dead)
    assert await severities() == []
    await fleet.attempt(1, factory.dead)
    assert await severities() == [Severity.WARNING]
    await fleet.attempt(89, factory.dead)
    assert await severities() == [Severity.WARNING]
    await fleet.attempt(1, factory.dead)
    assert await severities() == [Severity.CRITICAL]
    everything = DeadFilter(org_id=scene.organization.id)
    await scene.store.repair.resolve(everything, "looked at", limit=15)
    assert await severities() == [Severity.CRITICAL]  # 86 is too close to the threshold to lower the severity
    await scene.store.repair.resolve(everything, "looked at", limit=20)
    assert await severities() == [Severity.WARNING]
    (alert,) = await fleet.firing()
    assert alert.text == "there are 66 unresolved dead letters (limit 10); most frequent reason: permanent_failure"
    await scene.store.repair.resolve(everything, "looked at", limit=100)
    await fleet.settle()
    assert await fleet.firing() == []
    assert len(await fleet.resolved()) == 1


async def test_more_dead_letters_than_usual_fire(scene: Scene) -> None:
    fleet = Fleet(scene, only(dead_letters_growing=3.0))
    await scene.endpoint()
    for hour in range(10):  # six dead letters in each hour
        await fleet.attempt(6, factory.dead)
        await fleet.beat()
        await scene.age(3607 + 7 * hour)  # a different time each hour, so that no two pulses fall into the same minute
        await scene.store.monitoring.roll_pulses()
    await fleet.attempt(17, factory.dead)
    await fleet.beat()
    await fleet.check()
    assert await fleet.firing() == []
    await fleet.attempt(3, factory.dead)
    await fleet.beat()
    await fleet.check()
    (alert,) = await fleet.firing()
    assert (alert.name, alert.value) == ("dead_letters_growing", 20)


async def test_a_few_dead_letters_where_there_usually_are_none_do_not_fire(scene: Scene) -> None:
    fleet = Fleet(scene, only(dead_letters_growing=3.0))
    await scene.endpoint()
    await fleet.attempt(10, factory.dead)
    await fleet.beat()
    await fleet.check()
    assert await fleet.firing() == []
    await fleet.attempt(1, factory.dead)
    await fleet.beat()
    await fleet.check()
    assert await fleet.names() == ["dead_letters_growing"]


# ── attempts ──


@pytest.mark.parametrize(("good", "bad", "fires"), [(10, 10, False), (9, 11, True), (8, 11, False)])
async def test_retries_that_mostly_fail_fire(scene: Scene, good: int, bad: int, fires: bool) -> None:
    """The rule needs at least twenty retries."""
    fleet = Fleet(scene, only(retries=0.5))
    await scene.endpoint()
    await fleet.attempt(good + bad, fails)
    await fleet.work(fails, limit=bad)
    await fleet.work(factory.delivered, limit=good)
    await fleet.beat()
    await fleet.check()
    assert await fleet.names() == (["retries_failing"] if fires else [])


async def test_failed_first_attempts_do_not_count_as_retries(scene: Scene) -> None:
    fleet = Fleet(scene, only(retries=0.5))
    await scene.endpoint()
    await fleet.attempt(50, fails)
    await fleet.beat()
    await fleet.check()
    assert await fleet.firing() == []


async def test_deliveries_at_their_last_attempt_fire(scene: Scene) -> None:
    fleet = Fleet(scene, only(last_attempts=20))
    await scene.endpoint()
    await fleet.attempt(20, fails, last_left=True)
    await fleet.attempt(5, fails)
    await fleet.beat()
    await fleet.check()
    assert await fleet.firing() == []
    await fleet.attempt(1, fails, last_left=True)
    await fleet.beat()
    await fleet.check()
    assert await fleet.names() == ["last_attempts"]
    await fleet.settle(900)
    assert await fleet.firing() == []
