"""Alerts for waiting deliveries fire on both engines, but not for a small backlog or a short time."""

from __future__ import annotations

import pytest

from hookline.clock import monotonic
from hookline.model.alerts import Severity
from hookline.model.outbox import RelayReport
from hookline.model.states import EndpointStatus
from tests.support import factory
from tests.support.alerts import Fleet, fails, only
from tests.support.scene import Scene

# ── backlog ──


async def test_a_backlog_above_1000_fires_after_a_minute(scene: Scene) -> None:
    fleet = Fleet(scene)
    await scene.endpoint()
    await scene.send(1000)
    await fleet.check_for(90)
    assert await fleet.firing() == []
    await scene.send(1)
    await fleet.check_for(60)
    assert await fleet.firing() == []
    await fleet.check()
    (alert,) = await fleet.firing()
    assert (alert.name, alert.subject, alert.severity, alert.value, alert.threshold) == (
        "backlog",
        "",
        Severity.WARNING,
        1001,
        1000,
    )
    assert alert.text.startswith("1,001 deliveries are due and not sent (limit 1,000), the oldest for ")
    assert (alert.fired_at - alert.began_at).total_seconds() >= 60


async def test_a_backlog_that_is_sent_within_a_minute_does_not_fire(scene: Scene) -> None:
    fleet = Fleet(scene, only(backlog=3))
    await scene.endpoint()
    for _ in range(3):
        await scene.send(4)
        await fleet.check_for(45)
        await fleet.work(factory.delivered)
        await fleet.check()
    assert await fleet.firing() == []


async def test_deliveries_that_are_held_or_not_due_are_no_backlog(scene: Scene) -> None:
    fleet = Fleet(scene, only(backlog=3))
    paused = await scene.endpoint()
    await scene.send(9)
    await scene.store.catalogue.set_endpoint_status(paused.no, EndpointStatus.PAUSED, "by hand")
    await fleet.check_for(120)
    assert await fleet.firing() == []
    await scene.store.catalogue.set_endpoint_status(paused.no, EndpointStatus.ACTIVE, "by hand")
    await fleet.check_for(90)
    assert await fleet.names() == ["backlog"]


async def test_the_alert_is_resolved_when_the_backlog_stays_well_below_the_threshold(scene: Scene) -> None:
    fleet = Fleet(scene, only(backlog=10))
    await scene.endpoint()
    await scene.send(12)
    await fleet.check_for(90)
    jobs = await scene.claim(3)
    await fleet.settle()
    assert await fleet.names() == ["backlog"]  # 9 is too close to the threshold to resolve the alert
    await fleet.record([factory.delivered(job) for job in jobs])
    await fleet.record([factory.delivered(job) for job in await scene.claim(2)])
    await fleet.check_for(120)
    assert await fleet.names() == ["backlog"]
    await fleet.check()
    assert await fleet.names() == []
    (alert,) = await fleet.resolved()
    assert alert.resolved_at is not None
    assert alert.resolved_at > alert.fired_at
    assert alert.value == 9  # the last value that was read while the alert fired
    await fleet.record([factory.delivered(job) for job in await scene.claim_all()])


async def test_a_backlog_that_grows_for_five_minutes_fires(scene: Scene) -> None:
    fleet = Fleet(scene, only(backlog_growing=300.0))
    await scene.endpoint()
    for _ in range(20):
        await scene.send(6)
        await fleet.check()
    assert await fleet.firing() == []
    for _ in range(4):
        await scene.send(6)
        await fleet.check()
    (alert,) = await fleet.firing()
    assert alert.name == "backlog_growing"
    assert alert.text.startswith("the backlog has grown for 5 min, by ")
    await fleet.check_for(270)  # the backlog is as large as before, but no longer grows
    assert await fleet.firing() == []


async def test_a_backlog_that_shrinks_in_between_or_hardly_grows_does_not_fire(scene: Scene) -> None:
    fleet = Fleet(scene, only(backlog_growing=300.0))
    await scene.endpoint()
    for turn in range(24):
        await scene.send(9)
        if turn % 12 == 11:
            await fleet.work(factory.delivered)
        await fleet.check()
    assert await fleet.firing() == []
    for _ in range(24):
        await scene.send(1)
        await fleet.check()
    assert await fleet.firing() == []


# ── latency ──


@pytest.mark.parametrize(("slow", "fires"), [(40, False), (80, True)])
async def test_first_attempts_that_start_a_minute_late_fire(scene: Scene, slow: int, fires: bool) -> None:
    fleet = Fleet(scene, only(latency=60.0))
    await scene.endpoint()
    await scene.send(20)
    await scene.age(slow)
    await fleet.work(factory.delivered)
    await fleet.beat()
    await fleet.check()
    assert await fleet.names() == (["first_attempt_latency"] if fires else [])
    if fires:  # the value is known only as precisely as the buckets of the histogram
        (alert,) = await fleet.firing()
        assert alert.text == "5 % of first attempts started more than 1 min after they were due (limit 1 min)"
    await fleet.settle(300)
    assert await fleet.firing() == []  # the late attempts are older than the five minutes that the rule looks at


async def test_a_few_late_first_attempts_do_not_fire(scene: Scene) -> None:
    fleet = Fleet(scene, only(latency=60.0))
    await scene.endpoint()
    await scene.send(19)
    await scene.age(80)
    await fleet.work(factory.delivered)
    await fleet.beat()
    await fleet.check()
    assert await fleet.firing() == []


async def test_late_retries_do_not_count_as_late_first_attempts(scene: Scene) -> None:
    fleet = Fleet(scene, only(latency=60.0))
    await scene.endpoint()
    await fleet.attempt(25, fails)
    await scene.age(80)
    await fleet.work(factory.delivered)
    await fleet.beat()
    await fleet.check()
    assert await fleet.firing() == []


# ── outbox, leases ──


async def test_an_outbox_row_that_waits_for_a_minute_fires(scene: Scene) -> None:
    fleet = Fleet(scene, only(outbox_lag=60.0))
    await scene.raw.execute(
        "INSERT INTO outbox (org_id, app, event_type, payload, created_at) VALUES ($1, $2, 'order.paid', $3, $4)",
        scene.organization.id,
        scene.app.id,
        b"{}",
        await scene.raw.now(),
    )
    await fleet.check_for(45)
    assert await fleet.firing() == []
    await fleet.check_for(30)
    (alert,) = await fleet.firing()
    assert alert.name == "outbox_lag"
    assert alert.text.startswith("the oldest of 1 outbox rows has waited for 1 min ")
    moved: RelayReport = await scene.store.pipeline.relay(10)
    assert moved.relayed == 1
    await fleet.settle()
    assert await fleet.firing() == []


async def test_an_applications_outbox_that_is_not_relayed_for_a_minute_fires(scene: Scene) -> None:
    """Only the process that relays the outbox knows its lag."""
    fleet = Fleet(scene, only(outbox_lag=60.0))
    fleet.tally.fell_behind("sqlite:////srv/shop.db", monotonic() - 30)
    await fleet.beat()
    await fleet.check()
    assert await fleet.firing() == []
    fleet.tally.caught_up("sqlite:////srv/shop.db")
    fleet.tally.fell_behind("sqlite:////srv/shop.db", monotonic() - 90)
    await fleet.beat()
    await fleet.check()
    (alert,) = await fleet.firing()
    assert alert.name == "outbox_lag"
    assert alert.text.startswith("a worker has not emptied an application's outbox for 1 min ")
    fleet.tally.caught_up("sqlite:////srv/shop.db")
    await fleet.beat()
    await fleet.settle(60)
    assert await fleet.firing() == []


async def test_expired_leases_fire(scene: Scene) -> None:
    fleet = Fleet(scene, only(leases=10))
    await scene.endpoint()

    async def lose(count: int) -> None:
        await scene.send(count)
        assert len(await scene.claim_all()) == count
        await scene.age(61)
        fleet.tally.swept(await scene.store.upkeep.sweep_leases())
        await fleet.beat()
        await fleet.check()
        await fleet.work(factory.delivered)

    await lose(10)
    assert await fleet.firing() == []
    await lose(1)
    assert await fleet.names() == ["leases_expired"]
