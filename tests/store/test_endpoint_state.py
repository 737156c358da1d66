"""An operator opens and closes circuits, and the actor is stored. The change happens under the lane's lock, for all
workers at once."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from hookline.errors import NotFound
from hookline.model.actors import Actor, ActorKind
from hookline.model.lanes import LaneEventKind
from hookline.model.states import Circuit, EndpointStatus
from hookline.store import Store
from tests.support import factory
from tests.support.operational import add_listener, outbox_events
from tests.support.scene import Scene

DEPLOY = Actor(kind=ActorKind.KEY, name="deploy")
K = LaneEventKind


# ── open ──


async def test_an_opened_circuit_sends_nothing_until_its_end_and_then_one_probe(scene: Scene) -> None:
    endpoint, healthy = await scene.endpoint(), await scene.endpoint()
    messages = await scene.send(4)
    until = await scene.store.now() + timedelta(seconds=7200)
    event = await scene.store.catalogue.open_circuit(endpoint.no, "they deploy", until=until, actor=DEPLOY)
    assert (event.kind, event.cause, event.actor) == (K.CIRCUIT_OPENED, "they deploy", DEPLOY)
    assert (await scene.store.history.lane_events(endpoint.no))[0] == event
    assert {job.endpoint_no for job in await scene.claim_all()} == {healthy.no}
    assert [token["at"] for token in await scene.tokens(endpoint)] == [until], "one token, at the time of the probe"

    await scene.age(7190)
    assert await scene.claim_all() == []
    await scene.age(20)
    (probe,) = await scene.claim_all()
    assert (probe.probe, probe.endpoint_no, probe.attempts) == (True, endpoint.no, 0)
    assert probe.message_id in messages
    await scene.record(factory.delivered(probe))
    assert (await scene.lane(endpoint)).circuit == Circuit.RECOVERING


async def test_a_success_of_an_earlier_request_does_not_close_the_circuit(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(2)
    first, second = await scene.claim_all()
    until = await scene.store.now() + timedelta(hours=1)
    await scene.store.catalogue.open_circuit(endpoint.no, "they deploy", until=until)
    await scene.record(factory.delivered(first), factory.retry(second, after=0.001))
    lane = await scene.lane(endpoint)
    assert (lane.circuit, lane.probe_at, lane.failures) == (Circuit.OPEN, until, 0)
    await scene.age(1)
    assert await scene.claim_all() == []


async def test_an_open_circuit_can_be_opened_with_another_end(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    soon = await scene.store.now() + timedelta(seconds=5)
    await scene.store.catalogue.open_circuit(endpoint.no, "a look at it in a moment", until=soon)
    await scene.age(6)
    (probe,) = await scene.claim_all()
    assert probe.probe


async def test_an_opened_circuit_is_not_disabled_for_an_old_failure(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send()
    (job,) = await scene.claim()
    await scene.record(factory.retry(job, after=10 * 86_400))
    await scene.age(6 * 86_400)
    until = await scene.store.now() + timedelta(hours=1)
    await scene.store.catalogue.open_circuit(endpoint.no, "they deploy", until=until)
    report = await scene.store.upkeep.sweep_failing(pause_dead=100, disable_after=5 * 86_400)
    assert report.disabled == 0
    assert (await scene.lane(endpoint)).status == EndpointStatus.ACTIVE


async def test_concurrent_openings_leave_one_open_circuit_and_an_event_each(scene: Scene, second: Store) -> None:
    endpoint = await scene.endpoint()
    await scene.send(3)
    until = await scene.store.now() + timedelta(hours=1)
    await asyncio.gather(
        *(
            store.catalogue.open_circuit(endpoint.no, f"reason {n}", until=until)
            for n, store in enumerate((scene.store, second) * 3)
        )
    )
    lane = await scene.lane(endpoint)
    assert (lane.circuit, lane.epoch, lane.trips, lane.probe_at) == (Circuit.OPEN, 6, 1, until)
    causes = {event.cause for event in await scene.store.history.lane_events(endpoint.no)}
    assert causes == {f"reason {n}" for n in range(6)}


# ── close ──


async def test_a_closed_circuit_starts_with_the_recovery_window(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    await scene.send(20)
    event = await scene.store.catalogue.close_circuit(endpoint.no, "they are back", actor=DEPLOY)
    assert event is not None
    assert (event.kind, event.actor) == (K.CIRCUIT_RECOVERING, DEPLOY)
    await scene.age(1)
    jobs = await scene.claim_all()
    assert 1 <= len(jobs) <= 2, "only the recovery window is sent, not the whole backlog"
    assert not any(job.probe for job in jobs)


async def test_a_closed_circuit_of_a_failing_endpoint_opens_again(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    assert await scene.store.catalogue.close_circuit(endpoint.no, "they say so") is not None
    for _ in range(5):
        await scene.age(1)
        await scene.record(*(factory.retry(job, after=0.001) for job in await scene.claim_all()))
    assert (await scene.lane(endpoint)).circuit == Circuit.OPEN


async def test_closing_a_circuit_that_is_not_open_does_nothing(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    before = await scene.lane(endpoint)
    assert await scene.store.catalogue.close_circuit(endpoint.no, "to be sure") is None
    assert await scene.lane(endpoint) == before
    assert await scene.store.history.lane_events(endpoint.no) == []


async def test_a_probe_in_flight_has_no_effect_after_a_close(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    probe = await scene.half_open(endpoint)
    await scene.store.catalogue.close_circuit(endpoint.no, "they are back")
    await scene.record(factory.retry(probe, after=500))
    lane = await scene.lane(endpoint)
    assert (lane.circuit, lane.failures, lane.in_flight) == (Circuit.RECOVERING, 0, 0)


# ── open and close ──


async def test_an_unknown_or_deleted_endpoint_is_not_found(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    for no in (endpoint.no, 10**6):
        for act in (scene.store.catalogue.open_circuit, scene.store.catalogue.close_circuit):
            with pytest.raises(NotFound):
                await act(no, "well")


async def test_the_organization_gets_an_event_for_an_opening(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await add_listener(scene.store, scene.organization.id)
    await scene.store.catalogue.open_circuit(endpoint.no, "they deploy")
    await scene.store.catalogue.close_circuit(endpoint.no, "they are back")
    await scene.store.catalogue.open_circuit(endpoint.no, "too early")
    found = await outbox_events(scene.raw)
    assert [(each.type, each.data["cause"]) for each in found] == [
        ("circuit.opened", "they deploy"),
        ("circuit.opened", "too early"),
    ]
    assert len({each.event_id for each in found}) == 2


async def test_the_actor_of_a_change_is_stored(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    actors = [Actor(kind=kind, name=f"number {n}" if n % 2 else None) for n, kind in enumerate(ActorKind)]
    for actor in actors:
        await scene.store.catalogue.open_circuit(endpoint.no, "by hand", actor=actor)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "by hand", actor=DEPLOY)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "without an actor")
    events = await scene.store.history.lane_events(endpoint.no)
    assert [event.actor for event in events] == [None, DEPLOY, *reversed(actors)]


async def test_an_automatic_change_has_no_actor(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    (event,) = await scene.store.history.lane_events(endpoint.no)
    assert event.actor is None
