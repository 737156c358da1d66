"""The share of one application in the slots of a worker. Its lanes are refused beyond that share, and woken when slots
are free."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from hookline.model.catalogue import Application
from hookline.model.deliveries import ClaimBatch, SlotBudgets
from hookline.model.endpoints import Endpoint
from hookline.model.states import Circuit
from hookline.rules.claim.division import MAX_REFUSED, REFUSED_TOGETHER
from tests.support import factory
from tests.support.scene import Scene


async def neighbour(scene: Scene) -> Application:
    return await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())


async def claim(scene: Scene, free: int, held: dict[int, int], *, most: float = 0.75, waiting: int = 0) -> ClaimBatch:
    budgets = SlotBudgets(lane_limit=1000, held_by_app=held, app_part=most, waiting=waiting)
    return await scene.store.pipeline.claim(free, budgets)


async def fill(scene: Scene, lanes: int, messages: int = 3) -> list[Endpoint]:
    made = [await scene.endpoint() for _ in range(lanes)]
    await scene.send(messages)
    return made


async def test_one_application_alone_gets_three_quarters_of_the_slots(scene: Scene) -> None:
    await fill(scene, lanes=10, messages=20)
    batch = await claim(scene, 64, {})
    again = await claim(scene, 64 - len(batch.jobs), {scene.app.no: len(batch.jobs)})
    assert (len(batch.jobs), again.jobs) == (48, [])


async def test_without_a_share_one_application_gets_all_slots(scene: Scene) -> None:
    await fill(scene, lanes=10, messages=20)
    assert len((await claim(scene, 64, {}, most=1.0)).jobs) == 64
    assert len(await scene.claim(64)) == 64


async def test_another_application_is_served_beside_one_that_uses_its_whole_share(scene: Scene) -> None:
    endpoints = await fill(scene, lanes=10, messages=20)
    other = await neighbour(scene)
    await scene.endpoint(other)
    await scene.ingest(factory.new_messages(other.no, 5))
    batch = await claim(scene, 16, {scene.app.no: 48})
    assert Counter(job.app_no for job in batch.jobs) == {other.no: 5}
    passed = batch.refused
    assert set(passed.values()) == {scene.app.no}
    assert set(passed) <= {one.no for one in endpoints}


async def test_refused_lanes_wake_by_themselves_a_few_at_a_time(scene: Scene) -> None:
    """Another worker may have free slots for these lanes. They wake a few at a time, so that claims also read other
    lanes."""
    endpoints = await fill(scene, lanes=60)
    passed: dict[int, int | None] = {}
    while len(passed) < 60:
        batch = await claim(scene, 16, {scene.app.no: 48}, waiting=len(passed))
        assert batch.jobs == []
        passed |= batch.refused
    now = await scene.store.now()
    looks = Counter([token["at"] for one in endpoints for token in await scene.tokens(one)])
    assert looks.total() == 60
    assert max(looks.values()) <= REFUSED_TOGETHER
    assert max(looks) <= now + MAX_REFUSED
    assert await scene.store.upkeep.find_stuck_lanes(repair=False) == []
    await scene.age(MAX_REFUSED.total_seconds())
    assert len((await claim(scene, 640, {})).jobs) >= 60


async def test_freed_slots_wake_the_refused_lanes(scene: Scene) -> None:
    endpoints = await fill(scene, lanes=2, messages=6)
    batch = await claim(scene, 4, {})
    # an engine that reads twice in one claim refuses the lane already in this first claim
    first, passed = batch.jobs, dict(batch.refused)
    assert len(first) == 3
    for _ in range(4):
        passed |= (await claim(scene, 1, {scene.app.no: 3})).refused
    assert set(passed) == {one.no for one in endpoints}
    await scene.raw.execute("UPDATE wake SET at = $1", await scene.store.now() + timedelta(hours=1))
    assert (await claim(scene, 4, {})).jobs == []
    report = await scene.store.pipeline.record(factory.all_delivered(first), wake=set(passed))
    assert report.recorded == 3
    assert len((await claim(scene, 4, {})).jobs) == 3


async def test_a_probe_is_refused_too_and_sent_when_a_slot_is_free(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    await scene.age(5000)
    batch = await claim(scene, 16, {scene.app.no: 48})
    assert (batch.jobs, batch.refused) == ([], {endpoint.no: scene.app.no})
    assert (await scene.lane(endpoint)).circuit == Circuit.OPEN
    await scene.age(1)
    (job,) = (await claim(scene, 64, {})).jobs
    assert job.probe
