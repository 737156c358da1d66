"""Alerts of single endpoints happen for real, on both engines; and not for too little or too short, nor where some went well."""

from __future__ import annotations

from tests.support import factory
from tests.support.alerts import Fleet, fails, only
from tests.support.scene import Scene


async def test_an_endpoint_that_fails_for_fifteen_minutes_fires(scene: Scene) -> None:
    fleet = Fleet(scene, only(endpoint=0.5))
    endpoint = await scene.endpoint()
    await scene.send(3)
    for _ in range(13):
        await fleet.work(fails)
        await fleet.beat()
        await scene.age(60)
    await fleet.look()
    assert await fleet.firing() == []  # not for long enough
    for _ in range(3):
        await fleet.work(fails)
        await fleet.beat()
        await scene.age(60)
    await fleet.look()
    (alert,) = await fleet.firing()
    assert (alert.name, alert.subject) == ("endpoint_failing", endpoint.id)
    assert f"endpoint {endpoint.id} of application {scene.app.id}" in alert.text
    await fleet.work(factory.delivered)
    for _ in range(14):
        await fleet.attempt(9, factory.delivered)
        await fleet.beat()
        await scene.age(60)
        await fleet.look()
    assert await fleet.firing() == []


async def test_an_endpoint_that_does_well_in_between_does_not(scene: Scene) -> None:
    """Although most of its attempts failed."""
    fleet = Fleet(scene, only(endpoint=0.5))
    await scene.endpoint()
    for minute in range(17):
        outcome = factory.delivered if 6 < minute < 11 else factory.dead
        await fleet.attempt(3, outcome)
        await fleet.beat()
        await scene.age(60)
    await fleet.look()
    assert await fleet.firing() == []


async def test_an_endpoint_that_fails_now_and_then_does_not(scene: Scene) -> None:
    """Its pulses are mostly good: they must be told too, or it would seem to fail always."""
    fleet = Fleet(scene, only(endpoint=0.5))
    await scene.endpoint()
    for minute in range(17):
        await fleet.attempt(1, factory.dead if minute % 3 == 0 else factory.delivered)
        await fleet.beat()
        await scene.age(60)
    await fleet.look()
    assert await fleet.firing() == []


async def test_an_endpoint_with_a_handful_of_failures_does_not(scene: Scene) -> None:
    fleet = Fleet(scene, only(endpoint=0.5))
    await scene.endpoint()
    for _ in range(4):
        await fleet.attempt(1, factory.dead)
        await fleet.beat()
        await scene.age(225)
    await fleet.look()
    assert await fleet.firing() == []
