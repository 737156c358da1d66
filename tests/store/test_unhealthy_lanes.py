"""Unhealthy lanes that need attention, and counts of waiting deliveries of one tenant."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from hookline.model.dead import DeadFilter
from hookline.model.lanes import AppHealth
from hookline.model.states import EndpointStatus
from hookline.store import Page
from tests.support import factory
from tests.support.scene import Scene


async def test_healthy_lanes_are_not_listed(scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(3)
    (job, *_) = await scene.claim(1)
    await scene.record(factory.delivered(job))
    assert await scene.store.history.unhealthy_lanes(10) == []


async def test_a_lane_with_an_open_circuit_has_every_field_of_the_page(scene: Scene) -> None:
    sick = await scene.endpoint()
    await scene.trip(sick)
    (found,) = await scene.store.history.unhealthy_lanes(10)
    lane = await scene.lane(sick)
    assert (found.view.endpoint_id, found.view.url, found.view.lane) == (sick.id, sick.url, lane)
    assert (found.org_id, found.app_name) == (scene.organization.id, scene.app.name)
    assert (found.view.depth, found.dead, found.stopped_at) == (5, 0, None)
    assert found.view == await scene.store.history.lane_view(sick.no)


async def test_waiting_and_dead_deliveries_are_counted_up_to_a_limit(scene: Scene) -> None:
    sick = await scene.endpoint()
    await scene.send(7)
    jobs = await scene.claim(4)
    await scene.record(*(factory.dead(job) for job in jobs))
    for counted, shown in ((2, (2, True, 2)), (3, (3, True, 3)), (4, (3, False, 4)), (9, (3, False, 4))):
        (found,) = await scene.store.history.unhealthy_lanes(10, counted=counted)
        assert (found.view.depth, found.view.more, found.dead) == shown
    view = await scene.store.history.lane_view(sick.no)
    assert view is not None
    assert (view.depth, view.more) == (3, False)


async def test_a_lane_with_one_failure_comes_after_held_lanes(scene: Scene) -> None:
    paused = await scene.endpoint(event_types=("a",))
    failing = await scene.endpoint(event_types=("b",))
    held = await scene.endpoint(event_types=("c",))
    await scene.store.catalogue.set_endpoint_status(paused.no, EndpointStatus.PAUSED, "tests")
    await scene.send(1, event_type="b")
    await scene.record(*(factory.retry(job) for job in await scene.claim_all()))
    await scene.send(1, event_type="c")
    (job,) = await scene.claim_all()
    await scene.record(factory.retry(job, hold_until=job.claimed_at + timedelta(seconds=500)))

    found = await scene.store.history.unhealthy_lanes(10)
    assert [each.view.lane.endpoint_no for each in found] == [held.no, paused.no, failing.no]
    assert [each.stopped_at is not None for each in found] == [False, True, False]
    assert [each.view.lane.endpoint_no for each in await scene.store.history.unhealthy_lanes(2)] == [held.no, paused.no]


async def test_resolved_dead_letters_do_not_count(scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(3)
    jobs = await scene.claim_all()
    await scene.record(factory.dead(jobs[0]))
    await scene.age(60)
    await scene.record(*(factory.dead(job) for job in jobs[1:]))
    everything = DeadFilter(org_id=scene.organization.id)
    letters = await scene.store.repair.dead_letters(everything, Page())
    (found,) = await scene.store.history.unhealthy_lanes(10)
    assert (found.view.endpoint_id, found.dead, found.dead_since) == (endpoint.id, 3, letters[-1].died_at)

    await scene.store.repair.resolve(DeadFilter(ids=(jobs[0].delivery_id,)), "seen")
    (found,) = await scene.store.history.unhealthy_lanes(10, org_id=scene.organization.id)
    assert (found.dead, found.dead_since) == (2, letters[0].died_at)
    await scene.store.repair.resolve(everything, "seen")
    assert (
        await scene.store.history.unhealthy_lanes(10)
        == await scene.store.history.unhealthy_lanes(10, org_id=scene.organization.id)
        == []
    )


async def test_dead_letters_of_other_tenants_do_not_count(scene: Scene) -> None:
    other = await scene.store.catalogue.save_organization(factory.organization())
    theirs = await scene.store.catalogue.create_application(other.id, factory.new_application())
    second = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    for app in (scene.app, theirs, second):
        await scene.endpoint(app)
        await scene.store.pipeline.ingest(factory.new_messages(app.no, 1))
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))

    async def named(org_id: str, app_no: int | None = None) -> set[str]:
        return {each.app_name for each in await scene.store.history.unhealthy_lanes(10, org_id=org_id, app_no=app_no)}

    assert await named(other.id) == {theirs.name}
    assert await named(scene.organization.id) == {scene.app.name, second.name}
    assert await named(scene.organization.id, second.no) == {second.name}
    assert await named(scene.organization.id, theirs.no) == set()


async def test_lanes_with_the_most_dead_letters_come_after_held_lanes(scene: Scene) -> None:
    few, many, failing, paused = [await scene.endpoint(event_types=(name,)) for name in "abcd"]
    await scene.store.catalogue.set_endpoint_status(paused.no, EndpointStatus.PAUSED, "tests")
    await scene.send(2, event_type="a")
    await scene.send(3, event_type="b")
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    await scene.send(1, event_type="c")
    await scene.record(*(factory.retry(job) for job in await scene.claim_all()))

    async def numbers(most: int, org_id: str | None = None) -> list[int]:
        return [each.view.lane.endpoint_no for each in await scene.store.history.unhealthy_lanes(most, org_id=org_id)]

    wanted = [paused.no, many.no, few.no, failing.no]
    for most in range(1, 5):
        assert await numbers(most) == await numbers(most, scene.organization.id) == wanted[:most]
    await scene.store.catalogue.delete_endpoint(many.no)
    assert await numbers(10) == [paused.no, few.no, failing.no]


async def test_one_noisy_application_hides_no_other(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The query reads endpoints, not dead letters, so the number of dead letters does not matter."""
    monkeypatch.setattr("hookline.store.plans.lanes.COMPARED", 3)
    monkeypatch.setattr("hookline.store.plans.lanes.MAX_DYING", 2)
    quiet = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    noisy, other = await scene.endpoint(), await scene.endpoint(quiet)
    await scene.send(9)
    await scene.store.pipeline.ingest(factory.new_messages(quiet.no, 2))
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    for org_id in (None, scene.organization.id):
        found = await scene.store.history.unhealthy_lanes(10, org_id=org_id)
        assert [(each.view.endpoint_id, each.dead) for each in found] == [(noisy.id, 9), (other.id, 2)]
    counted = await scene.store.history.app_health([scene.app.no, quiet.no, 10**9], lanes=9, counted=5)
    assert {no: each.dead for no, each in counted.items()} == {scene.app.no: 5, quiet.no: 2, 10**9: 0}
    await scene.store.repair.resolve(DeadFilter(app_no=quiet.no), "seen")
    assert (await scene.store.history.app_health([quiet.no], lanes=9, counted=5))[quiet.no].dead == 0


async def test_the_health_of_an_application_is_counted_up_to_a_limit(scene: Scene) -> None:
    quiet = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    await scene.endpoint(quiet)
    await scene.store.catalogue.delete_endpoint((await scene.endpoint(quiet)).no)
    kinds = ("open", "paused", "failing", "slowed", "well")
    made = {kind: await scene.endpoint(event_types=(kind,)) for kind in kinds}
    await scene.store.catalogue.set_endpoint_status(made["paused"].no, EndpointStatus.PAUSED, "tests")
    for kind, change in (("open", "circuit = 1"), ("failing", "failures = 1"), ("slowed", "pace = 1.0")):
        await scene.raw.execute(f"UPDATE lane SET {change} WHERE endpoint_no = $1", made[kind].no)
    for number, kind in enumerate(kinds, 2):
        await scene.send(number, event_type=kind)
    apps = [scene.app.no, quiet.no]
    found = await scene.store.history.app_health(apps, lanes=9, counted=100)
    assert found[scene.app.no] == AppHealth(lanes=5, sick=4, stopped=2, held=2 + 3, dead=0)
    assert found[quiet.no] == AppHealth(lanes=1, sick=0, stopped=0, held=0, dead=0)
    assert (await scene.store.history.app_health(apps, lanes=9, counted=4))[scene.app.no].held == 4
    assert (await scene.store.history.app_health(apps, lanes=2, counted=9))[scene.app.no].lanes == 2
    assert await scene.store.history.app_health([], lanes=9, counted=9) == {}


async def test_endpoints_with_dead_letters_of_other_tenants_hide_none(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Endpoints that may not be shown, such as deleted ones, do not count for the limit."""
    monkeypatch.setattr("hookline.store.plans.lanes.MAX_DYING", 2)
    other = await scene.store.catalogue.save_organization(factory.organization())
    late = await scene.store.catalogue.create_application(other.id, factory.new_application())
    for app, number in ((scene.app, 3), (late, 3)):
        endpoints = [await scene.endpoint(app) for _ in range(number)]
        await scene.store.pipeline.ingest(factory.new_messages(app.no, 1))
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    for endpoint in endpoints[:2]:
        await scene.store.catalogue.delete_endpoint(endpoint.no)
    found = await scene.store.history.unhealthy_lanes(10, org_id=other.id)
    assert [(each.view.endpoint_id, each.dead) for each in found] == [(endpoints[2].id, 1)]


async def test_a_tenant_sees_only_its_own_lanes(scene: Scene) -> None:
    store = scene.store
    other = await store.catalogue.save_organization(factory.organization())
    apps = [
        await store.catalogue.create_application(other.id, factory.new_application()),
        await store.catalogue.create_application(scene.organization.id, factory.new_application()),
    ]
    for app in (scene.app, *apps):
        endpoint = await scene.endpoint(app)
        await store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "tests")
        await store.pipeline.ingest(factory.new_messages(app.no, app.no))

    async def named(**asked: object) -> set[str]:
        return {each.app_name for each in await store.history.unhealthy_lanes(10, **asked)}  # type: ignore[arg-type]

    own = {scene.app.name, apps[1].name}
    assert await named() == own | {apps[0].name}
    assert await named(org_id=scene.organization.id) == own
    assert await named(org_id=scene.organization.id, app_no=apps[1].no) == {apps[1].name}
    assert await named(org_id=scene.organization.id, app_no=apps[0].no) == set()
    assert (await store.history.backlog(other.id)).held == apps[0].no
    assert (await store.history.backlog(scene.organization.id)).held == scene.app.no + apps[1].no
    assert (await store.history.backlog(scene.organization.id, apps[1].no)).held == apps[1].no
    assert (await store.history.backlog(scene.organization.id, apps[0].no)).held == 0


async def test_waiting_and_held_deliveries_are_counted_separately(scene: Scene) -> None:
    empty = await scene.store.history.backlog(scene.organization.id)
    assert (empty.lanes, empty.held_lanes, empty.waiting, empty.held, empty.oldest_due) == (0, 0, 0, 0, None)
    await scene.endpoint(event_types=("a",))
    shut = await scene.endpoint(event_types=("b",))
    await scene.send(2, event_type="a")
    await scene.send(3, event_type="a", ordering_key="k")
    await scene.send(4, event_type="b", ordering_key="k")
    first = await scene.store.history.backlog(scene.organization.id)
    assert (first.lanes, first.held_lanes, first.waiting, first.held) == (2, 0, 9, 0)

    await scene.store.catalogue.set_endpoint_status(shut.no, EndpointStatus.PAUSED, "tests")
    found = await scene.store.history.backlog(scene.organization.id, scene.app.no)
    assert found == replace(first, held_lanes=1, waiting=5, held=4)
    view = next(each for each in await scene.store.history.lanes(app_no=scene.app.no) if each.endpoint_id != shut.id)
    assert found.oldest_due == view.oldest_due
