"""Record pauses an endpoint as soon as it has too many dead letters in a day."""

from __future__ import annotations

import pytest

from hookline.model.lanes import LaneEvent, LaneEventKind
from hookline.model.states import EndpointStatus, Reason
from tests.support import factory
from tests.support.scene import Scene


async def _die(scene: Scene, count: int, at_once: int = 20) -> tuple[int, list[LaneEvent]]:
    """Send messages that die. Return how many died before a claim found none, and the events."""
    await scene.send(count)
    died, events = 0, []
    while jobs := await scene.claim(at_once):
        report = await scene.record(*(factory.dead(job) for job in jobs))
        died += report.recorded
        events += report.events
    return died, events


async def test_the_dead_letter_above_the_limit_pauses_its_endpoint_at_once(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    died, events = await _die(scene, 250)
    assert died == 120  # the sixth batch of twenty exceeds the limit of 100
    assert [(event.endpoint_no, event.kind) for event in events] == [(endpoint.no, LaneEventKind.ENDPOINT_PAUSED)]
    (found,) = await scene.store.catalogue.endpoints_for([endpoint.no])
    assert (found.status, found.status_reason) == (EndpointStatus.PAUSED, "more than 100 dead letters in a day")
    assert (await scene.lane(endpoint)).status == EndpointStatus.PAUSED


@pytest.mark.store_options(pause_dead_per_day=3)
async def test_the_limit_itself_does_not_pause(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    assert await _die(scene, 3) == (3, [])
    assert (await scene.lane(endpoint)).status == EndpointStatus.ACTIVE


@pytest.mark.store_options(pause_dead_per_day=3)
async def test_only_dead_letters_of_a_day_and_since_the_last_resume_pause(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await _die(scene, 3)
    await scene.age(25 * 3600)
    assert (await _die(scene, 3))[1] == []
    assert len((await _die(scene, 1))[1]) == 1
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.ACTIVE, "mended")
    assert await _die(scene, 3) == (3, [])
    assert len((await _die(scene, 1))[1]) == 1


@pytest.mark.store_options(pause_dead_per_day=3)
async def test_dead_letters_that_say_nothing_about_the_endpoint_do_not_pause(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(9)
    jobs = await scene.claim()
    await scene.record(*(factory.dead(job, Reason.BUDGET_EXHAUSTED) for job in jobs[:6]))
    await scene.record(*(factory.dead(job) for job in jobs[6:]))
    assert (await scene.lane(endpoint)).status == EndpointStatus.ACTIVE


@pytest.mark.store_options(pause_dead_per_day=1)
async def test_an_endpoint_that_is_gone_is_disabled_and_not_paused(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(4)
    await scene.record(*(factory.dead(job, Reason.ENDPOINT_GONE, gone=True) for job in await scene.claim()))
    assert (await scene.lane(endpoint)).status == EndpointStatus.DISABLED


@pytest.mark.store_options(pause_dead_per_day=2_000)
async def test_a_very_high_limit_is_left_to_the_sweep(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    assert await _die(scene, 2_001, 500) == (2_001, [])
    assert (await scene.store.upkeep.sweep_failing(pause_dead=2_000, disable_after=1e9)).paused == 1
    assert (await scene.lane(endpoint)).status == EndpointStatus.PAUSED
