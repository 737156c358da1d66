"""Alerts for open circuits, and all alert rules together."""

from __future__ import annotations

import re

from hookline.model.alerts import OTHERS
from hookline.model.states import EndpointStatus
from tests.support import factory
from tests.support.alerts import Fleet, fails, only
from tests.support.scene import Scene


async def test_a_circuit_that_opens_fires_until_it_is_closed(scene: Scene) -> None:
    fleet = Fleet(scene, only(circuits=True))
    endpoint = await scene.endpoint()
    await scene.send(4)
    await fleet.work(lambda job: factory.retry(job, after=0.001))
    await fleet.check()
    assert await fleet.firing() == []
    await scene.store.catalogue.reset_circuit(endpoint.no, "by hand")
    await fleet.work(factory.delivered)
    await scene.trip(endpoint)
    await fleet.check()
    (alert,) = await fleet.firing()
    assert (alert.name, alert.subject, alert.org_id) == ("circuit_open", endpoint.id, scene.organization.id)
    await scene.record(factory.delivered(await scene.probe(endpoint)))
    await fleet.check()
    assert await fleet.names() == ["circuit_open"]  # the circuit recovers
    await scene.store.catalogue.reset_circuit(endpoint.no, "by hand")
    await fleet.check()
    assert await fleet.firing() == []


async def test_the_alert_begins_when_the_circuit_opened_not_when_it_was_noticed(scene: Scene) -> None:
    fleet = Fleet(scene, only(circuits=True))
    endpoint = await scene.endpoint()
    await scene.store.catalogue.open_circuit(endpoint.no, "by hand")
    await scene.age(600)
    await fleet.check()
    (alert,) = await fleet.firing()
    assert alert.began_at == (await scene.lane(endpoint)).opened_at
    assert re.search(r" is open for 10 min \d+ s: only probes are sent to it", alert.text), alert.text


async def test_the_alert_of_a_paused_or_deleted_endpoint_is_resolved(scene: Scene) -> None:
    fleet = Fleet(scene, only(circuits=True))
    one, other = await scene.endpoint(), await scene.endpoint()
    for endpoint in (one, other):
        await scene.store.catalogue.open_circuit(endpoint.no, "by hand")
    await fleet.check()
    assert len(await fleet.firing()) == 2
    await scene.store.catalogue.set_endpoint_status(one.no, EndpointStatus.PAUSED, "by hand")
    await scene.store.catalogue.delete_endpoint(other.no)
    await fleet.check()
    assert await fleet.firing() == []


async def test_too_many_open_circuits_are_combined_into_one_alert(scene: Scene) -> None:
    fleet = Fleet(scene, only(circuits=True))
    endpoints = [await scene.endpoint() for _ in range(23)]
    for endpoint in endpoints:
        await scene.store.catalogue.open_circuit(endpoint.no, "by hand")
    await fleet.check()
    firing = await fleet.firing()
    assert len(firing) == 21
    assert {alert.subject for alert in firing} <= {OTHERS} | {endpoint.id for endpoint in endpoints}
    (rest,) = [alert for alert in firing if alert.subject == OTHERS]
    assert rest.value == 3
    assert rest.text.startswith("3 more of these; the worst: the circuit of endpoint ")
    for endpoint in endpoints[20:]:
        await scene.store.catalogue.reset_circuit(endpoint.no, "by hand")
    await fleet.check()
    assert OTHERS not in {alert.subject for alert in await fleet.firing()}


# ── all rules ──


async def test_a_healthy_fleet_fires_no_alert(scene: Scene) -> None:
    fleet = Fleet(scene)
    await scene.endpoint()
    for _ in range(8):
        await fleet.attempt(30, factory.delivered)
        await fleet.attempt(2, fails)
        await scene.age(5)
        await fleet.work(factory.delivered)
        await fleet.beat()
        await fleet.check()
    assert await fleet.firing() == []
    assert await fleet.resolved() == []
    assert await scene.raw.count("alert_pending") == 0


async def test_every_rule_can_be_disabled(scene: Scene) -> None:
    fleet = Fleet(scene, only())
    endpoint = await scene.endpoint()
    await fleet.attempt(150, factory.dead)
    await fleet.attempt(50, fails, last_left=True)
    await fleet.work(fails)
    await scene.store.catalogue.open_circuit(endpoint.no, "by hand")
    await fleet.beat()
    await fleet.settle()
    assert await fleet.firing() == []


async def test_an_alert_of_a_rule_that_is_disabled_is_resolved(scene: Scene) -> None:
    await scene.endpoint()
    fleet = Fleet(scene, only(dead_letters=1))
    await fleet.attempt(2, factory.dead)
    await fleet.check()
    assert await fleet.names() == ["dead_letters"]
    await Fleet(scene, only()).settle()
    assert await fleet.firing() == []
