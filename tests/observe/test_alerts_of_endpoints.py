"""Alerts for single endpoints fire on both engines, but not for few failures, a short time, or an endpoint with
successes."""

from __future__ import annotations

from hookline.model.states import Circuit
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
    await fleet.check()
    assert await fleet.firing() == []  # the duration of the rule is not over
    for _ in range(3):
        await fleet.work(fails)
        await fleet.beat()
        await scene.age(60)
    await fleet.check()
    (alert,) = await fleet.firing()
    assert (alert.name, alert.subject) == ("endpoint_failing", endpoint.id)
    assert f"endpoint {endpoint.id} of application {scene.app.id}" in alert.text
    await fleet.work(factory.delivered)
    for _ in range(14):
        await fleet.attempt(9, factory.delivered)
        await fleet.beat()
        await scene.age(60)
        await fleet.check()
    assert await fleet.firing() == []


async def test_an_endpoint_that_fails_at_once_fires_although_its_open_circuit_allows_few_probes(scene: Scene) -> None:
    fleet = Fleet(scene, only(endpoint=0.5))
    endpoint = await scene.endpoint()
    await fleet.attempt(5, factory.retry)
    await scene.age(31)  # the deliveries are due again
    await fleet.work(factory.retry)
    assert (await scene.lane(endpoint)).circuit == Circuit.OPEN
    await fleet.beat()
    for seconds in (75, 150, 300):  # a probe is due by then
        await scene.age(seconds)
        assert [result.job.probe for result in await fleet.work(factory.retry)] == [True]
        await fleet.beat()
    await scene.age(330)
    await fleet.check()
    assert await fleet.firing() == []  # the duration of the rule is not over
    await scene.age(30)
    await fleet.check()
    (alert,) = await fleet.firing()
    assert (alert.name, alert.subject) == ("endpoint_failing", endpoint.id)
    assert alert.text.startswith("100% of 3 attempts at endpoint ")
    await scene.age(900)
    await fleet.check()
    (alert,) = await fleet.firing()
    assert alert.text.startswith(f"no attempt was made at endpoint {endpoint.id} of application ")
    assert alert.text.endswith(" within 15 min: its circuit is open")
    await scene.store.catalogue.reset_circuit(endpoint.no, "by hand")
    await fleet.settle()
    assert await fleet.firing() == []


async def test_an_endpoint_whose_circuit_an_operator_opened_does_not_fire(scene: Scene) -> None:
    fleet = Fleet(scene, only(endpoint=0.5))
    endpoint = await scene.endpoint()
    await scene.store.catalogue.open_circuit(endpoint.no, "by hand")
    await scene.age(1000)
    await fleet.check()
    assert await fleet.firing() == []


async def test_an_endpoint_with_successes_in_between_does_not_fire(scene: Scene) -> None:
    """Successful attempts in between prevent the alert, although most attempts failed."""
    fleet = Fleet(scene, only(endpoint=0.5))
    await scene.endpoint()
    for minute in range(17):
        outcome = factory.delivered if 6 < minute < 11 else factory.dead
        await fleet.attempt(3, outcome)
        await fleet.beat()
        await scene.age(60)
    await fleet.check()
    assert await fleet.firing() == []


async def test_an_endpoint_that_fails_sometimes_does_not_fire(scene: Scene) -> None:
    """Most pulses of this endpoint have only successes. They must be stored too, or the endpoint would seem to fail
    always."""
    fleet = Fleet(scene, only(endpoint=0.5))
    await scene.endpoint()
    for minute in range(17):
        await fleet.attempt(1, factory.dead if minute % 3 == 0 else factory.delivered)
        await fleet.beat()
        await scene.age(60)
    await fleet.check()
    assert await fleet.firing() == []


async def test_an_endpoint_with_a_few_failures_does_not_fire(scene: Scene) -> None:
    fleet = Fleet(scene, only(endpoint=0.5))
    await scene.endpoint()
    for _ in range(4):
        await fleet.attempt(1, factory.dead)
        await fleet.beat()
        await scene.age(225)
    await fleet.check()
    assert await fleet.firing() == []
