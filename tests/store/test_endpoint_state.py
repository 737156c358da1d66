"""Circuits that an operator opens and closes, and who it was: under the lane's lock, for all workers at once."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from hookline.errors import NotFound
from hookline.model import Actor, ActorKind, LaneEventKind
from hookline.model.states import Circuit, EndpointStatus
from hookline.store import Store
from tests.support import factory
from tests.support.operational import listen, told
from tests.support.scene import Scene

DEPLOY = Actor(kind=ActorKind.KEY, name="deploy")
K = LaneEventKind


# ── open ──


async def test_an_open_circuit_sends_nothing_until_then_and_one_probe_after(scene: Scene) -> None:
    endpoint, healthy = await scene.endpoint(), await scene.endpoint()
    messages = await scene.send(4)
    until = await scene.store.now() + timedelta(seconds=7200)
    event = await scene.store.open_circuit(endpoint.no, "they deploy", until=until, actor=DEPLOY)
    assert (event.kind, event.cause, event.actor) == (K.CIRCUIT_OPENED, "they deploy", DEPLOY)
    assert (await scene.store.lane_events(endpoint.no))[0] == event
    assert {job.endpoint_no for job in await scene.claim_all()} == {healthy.no}
    assert [token["at"] for token in await scene.tokens(endpoint)] == [until], "one look, at the probe's time"

    await scene.age(7190)
    assert await scene.claim_all() == []
    await scene.age(20)
    (probe,) = await scene.claim_all()
    assert (probe.probe, probe.endpoint_no, probe.attempts) == (True, endpoint.no, 0)
    assert probe.message_id in messages
    await scene.record(factory.delivered(probe))
    assert (await scene.lane(endpoint)).circuit == Circuit.RECOVERING


async def test_a_good_answer_from_before_does_not_close_it(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(2)
    first, second = await scene.claim_all()
    until = await scene.store.now() + timedelta(hours=1)
    await scene.store.open_circuit(endpoint.no, "they deploy", until=until)
    await scene.record(factory.delivered(first), factory.retry(second, after=0.001))
    lane = await scene.lane(endpoint)
    assert (lane.circuit, lane.probe_at, lane.failures) == (Circuit.OPEN, until, 0)
    await scene.age(1)
    assert await scene.claim_all() == []


async def test_an_open_circuit_is_opened_for_another_time(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    soon = await scene.store.now() + timedelta(seconds=5)
    await scene.store.open_circuit(endpoint.no, "a look at it in a moment", until=soon)
    await scene.age(6)
    (probe,) = await scene.claim_all()
    assert probe.probe


async def test_it_is_not_disabled_for_a_failure_of_long_ago(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send()
    (job,) = await scene.claim()
    await scene.record(factory.retry(job, after=10 * 86_400))
    await scene.age(6 * 86_400)
    until = await scene.store.now() + timedelta(hours=1)
    await scene.store.open_circuit(endpoint.no, "they deploy", until=until)
    report = await scene.store.sweep_failing(pause_dead=100, disable_after=5 * 86_400)
    assert report.disabled == 0
    assert (await scene.lane(endpoint)).status == EndpointStatus.ACTIVE


async def test_openings_at_the_same_time_leave_one_open_circuit_and_every_event(scene: Scene, second: Store) -> None:
    endpoint = await scene.endpoint()
    await scene.send(3)
    until = await scene.store.now() + timedelta(hours=1)
    await asyncio.gather(
        *(
            store.open_circuit(endpoint.no, f"reason {n}", until=until)
            for n, store in enumerate((scene.store, second) * 3)
        )
    )
    lane = await scene.lane(endpoint)
    assert (lane.circuit, lane.epoch, lane.trips, lane.probe_at) == (Circuit.OPEN, 6, 1, until)
    causes = {event.cause for event in await scene.store.lane_events(endpoint.no)}
    assert causes == {f"reason {n}" for n in range(6)}


# ── close ──


async def test_a_closed_circuit_begins_gently(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    await scene.send(20)
    event = await scene.store.close_circuit(endpoint.no, "they are back", actor=DEPLOY)
    assert event is not None
    assert (event.kind, event.actor) == (K.CIRCUIT_RECOVERING, DEPLOY)
    await scene.age(1)
    jobs = await scene.claim_all()
    assert 1 <= len(jobs) <= 2, "the recovery window, not the whole backlog"
    assert not any(job.probe for job in jobs)


async def test_a_closed_one_that_is_still_sick_opens_again(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    assert await scene.store.close_circuit(endpoint.no, "they say so") is not None
    for _ in range(5):
        await scene.age(1)
        await scene.record(*(factory.retry(job, after=0.001) for job in await scene.claim_all()))
    assert (await scene.lane(endpoint)).circuit == Circuit.OPEN


async def test_what_is_not_open_is_not_closed(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    before = await scene.lane(endpoint)
    assert await scene.store.close_circuit(endpoint.no, "to be sure") is None
    assert await scene.lane(endpoint) == before
    assert await scene.store.lane_events(endpoint.no) == []


async def test_the_probe_that_is_out_says_nothing_after_a_close(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    probe = await scene.half_open(endpoint)
    await scene.store.close_circuit(endpoint.no, "they are back")
    await scene.record(factory.retry(probe, after=500))
    lane = await scene.lane(endpoint)
    assert (lane.circuit, lane.failures, lane.in_flight) == (Circuit.RECOVERING, 0, 0)


# ── all of them ──


async def test_no_such_lane(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.delete_endpoint(endpoint.no)
    for no in (endpoint.no, 10**6):
        for act in (scene.store.open_circuit, scene.store.close_circuit):
            with pytest.raises(NotFound):
                await act(no, "well")


async def test_the_organization_is_told_of_an_opening(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await listen(scene.store, scene.organization.id)
    await scene.store.open_circuit(endpoint.no, "they deploy")
    await scene.store.close_circuit(endpoint.no, "they are back")
    await scene.store.open_circuit(endpoint.no, "too early")
    found = await told(scene.raw)
    assert [(each.type, each.data["cause"]) for each in found] == [
        ("circuit.opened", "they deploy"),
        ("circuit.opened", "too early"),
    ]
    assert len({each.event_id for each in found}) == 2


async def test_who_it_was_is_kept(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    actors = [Actor(kind=kind, name=f"number {n}" if n % 2 else None) for n, kind in enumerate(ActorKind)]
    for actor in actors:
        await scene.store.open_circuit(endpoint.no, "by hand", actor=actor)
    await scene.store.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "by hand", actor=DEPLOY)
    await scene.store.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "by whoever")
    events = await scene.store.lane_events(endpoint.no)
    assert [event.actor for event in events] == [None, DEPLOY, *reversed(actors)]


async def test_what_comes_about_by_itself_has_no_actor(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    (event,) = await scene.store.lane_events(endpoint.no)
    assert event.actor is None
