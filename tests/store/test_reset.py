"""Resets of a circuit by an operator, and changes of an endpoint that is no longer at the expected revision."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from hookline.errors import NotFound, Overtaken
from hookline.model.endpoints import EndpointChange
from hookline.model.lanes import LaneEventKind
from hookline.model.states import Circuit, EndpointStatus
from hookline.store import Store
from tests.support import factory
from tests.support.scene import Scene


async def test_a_reset_closes_the_circuit_clears_failures_and_wakes_the_lane(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    messages = await scene.trip(endpoint)
    before = await scene.lane(endpoint)
    event = await scene.store.catalogue.reset_circuit(endpoint.no, "it is well again")
    assert event is not None
    assert (event.kind, event.cause, event.endpoint_no) == (
        LaneEventKind.CIRCUIT_RESET,
        "it is well again",
        endpoint.no,
    )
    assert (await scene.store.history.lane_events(endpoint.no))[0] == event
    lane = await scene.lane(endpoint)
    assert (lane.circuit, lane.failures, lane.trips) == (Circuit.CLOSED, 0, 0)
    assert [lane.failing_since, lane.opened_at, lane.probe_at, lane.window, lane.window_at] == [None] * 5
    assert lane.epoch == before.epoch + 1
    await scene.age(1)
    assert {job.message_id for job in await scene.claim_all()} == set(messages)


async def test_outcomes_of_earlier_requests_have_no_effect_after_a_reset(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    probe = await scene.half_open(endpoint)
    await scene.store.catalogue.reset_circuit(endpoint.no, "well")
    await scene.record(factory.retry(probe, after=500))
    lane = await scene.lane(endpoint)
    assert (lane.circuit, lane.failures, lane.in_flight) == (Circuit.CLOSED, 0, 0)


async def test_a_reset_ends_recovery_and_a_hold(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.recover(endpoint)
    await scene.store.catalogue.reset_circuit(endpoint.no, "well")
    assert (await scene.lane(endpoint)).circuit == Circuit.CLOSED

    await scene.send()
    job, *others = [job for job in await scene.claim_all() if job.endpoint_no == endpoint.no]
    await scene.record(*factory.all_delivered(others))
    await scene.record(factory.retry(job, after=1, hold_until=job.claimed_at + timedelta(seconds=900)))
    await scene.age(5)
    assert await scene.claim_all() == []
    assert await scene.store.catalogue.reset_circuit(endpoint.no, "they are back") is not None
    assert [again.message_id for again in await scene.claim_all()] == [job.message_id]


async def test_a_reset_keeps_the_limits(scene: Scene) -> None:
    endpoint = await scene.endpoint(concurrency=2, throttle_rate=1000)
    await scene.send(5)
    jobs = await scene.claim_all()
    assert len(jobs) == 2
    await scene.record(factory.retry(jobs[0], after=500))
    await scene.store.catalogue.reset_circuit(endpoint.no, "well")
    lane = await scene.lane(endpoint)
    assert (lane.in_flight, lane.concurrency, lane.throttle_rate) == (1, 2, 1000)
    await scene.age(1)
    assert len(await scene.claim_all()) == 1


async def test_a_paused_lane_is_reset_and_still_held(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "maintenance")
    assert await scene.store.catalogue.reset_circuit(endpoint.no, "well") is not None
    assert await scene.claim_all() == []
    assert (await scene.lane(endpoint)).status == EndpointStatus.PAUSED


async def test_resetting_a_healthy_lane_does_nothing(scene: Scene) -> None:
    endpoint = await scene.endpoint(throttle_rate=5)
    await scene.send(2)
    await scene.claim()
    before = await scene.lane(endpoint)
    assert await scene.store.catalogue.reset_circuit(endpoint.no, "to be sure") is None
    assert await scene.lane(endpoint) == before
    assert await scene.store.history.lane_events(endpoint.no) == []


async def test_an_unknown_lane_cannot_be_reset(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    for no in (endpoint.no, 10**6):
        with pytest.raises(NotFound):
            await scene.store.catalogue.reset_circuit(no, "well")


async def test_a_cause_with_invalid_characters_is_stored_cleaned(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    event = await scene.store.catalogue.reset_circuit(endpoint.no, "a\x00b\ud800c")
    assert event is not None
    assert event.cause == (await scene.store.history.lane_events(endpoint.no))[0].cause == "a\ufffdb?c"


async def test_concurrent_resets_count_as_one(scene: Scene, second: Store) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    found = await asyncio.gather(
        *(store.catalogue.reset_circuit(endpoint.no, "well") for store in (scene.store, second) for _ in range(4))
    )
    assert len([event for event in found if event is not None]) == 1


# ── changes of an old revision ──


async def test_a_change_on_an_old_revision_changes_nothing(scene: Scene) -> None:
    endpoint = await scene.endpoint(description="old")
    first = await scene.store.catalogue.change_endpoint(
        endpoint.no, EndpointChange(description="first"), revision=endpoint.revision
    )
    with pytest.raises(Overtaken):
        await scene.store.catalogue.change_endpoint(
            endpoint.no, EndpointChange(description="second"), revision=endpoint.revision
        )
    assert await scene.store.catalogue.endpoint(scene.app.no, endpoint.id) == first


async def test_one_of_many_changes_on_one_revision_wins(scene: Scene, second: Store) -> None:
    endpoint = await scene.endpoint()
    changes = [EndpointChange(description=f"number {n}") for n in range(6)]
    found = await asyncio.gather(
        *(
            store.catalogue.change_endpoint(endpoint.no, change, revision=endpoint.revision)
            for store, change in zip((scene.store, second) * 3, changes, strict=True)
        ),
        return_exceptions=True,
    )
    (won,) = [each for each in found if not isinstance(each, BaseException)]
    assert [type(each) for each in found if isinstance(each, BaseException)] == [Overtaken] * 5
    assert await scene.store.catalogue.endpoint(scene.app.no, endpoint.id) == won
