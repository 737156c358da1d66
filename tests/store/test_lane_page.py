"""Lanes in pages, ordered by endpoint id, of one organization or application, however many other lanes there are."""

from __future__ import annotations

from datetime import timedelta

from hookline.dashboard import endpoint_health
from hookline.model.lanes import LaneView
from hookline.store import Page
from tests.support import factory
from tests.support.scene import Scene


async def walked(scene: Scene, app_no: int | None = None, limit: int = 2, url: str = "") -> list[LaneView]:
    """Return all lanes, page by page."""
    found: list[LaneView] = []
    iterator = None
    while True:
        page = Page(limit=limit, iterator=iterator)
        rows = await scene.store.history.lane_page(scene.organization.id, app_no, page, url=url)
        found += rows
        if len(rows) < limit:
            return found
        iterator = rows[-1].endpoint_id


async def test_pages_have_each_lane_once_with_its_state(scene: Scene) -> None:
    other_app = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    made = [await scene.endpoint(app) for app in (scene.app, other_app, scene.app, other_app, scene.app)]
    await scene.send(3)
    (job,) = await scene.claim(1)
    await scene.record(factory.retry(job))
    found = await walked(scene)
    assert [view.endpoint_id for view in found] == sorted(endpoint.id for endpoint in made)
    assert sorted(found, key=lambda view: view.endpoint_id) == sorted(
        await scene.store.history.lanes(scene.organization.id), key=lambda view: view.endpoint_id
    )
    assert {view.depth for view in found} == {3, 0}
    assert await walked(scene, other_app.no) == [view for view in found if view.lane.app_no == other_app.no]


async def test_the_state_filter_agrees_with_the_state_on_the_pages(scene: Scene) -> None:
    made = {name: await scene.endpoint() for name in endpoint_health.WORDS}
    sets = {
        "open": "circuit = 1",
        "half_open": "circuit = 2, pace = 1.0",
        "disabled": "status = 2, circuit = 1",
        "held": "held_until = $2, circuit = 3",
        "paused": "status = 1, failures = 3",
        "failing": "failures = 1, pace = 1.0",
        "recovering": "circuit = 3, failures = 1",
        "slowed": "pace = 1.0",
    }
    later = await scene.store.now() + timedelta(hours=1)
    for name, values in sets.items():
        given = (later,) if "$2" in values else ()
        await scene.raw.execute(f"UPDATE lane SET {values} WHERE endpoint_no = $1", made[name].no, *given)
    now = await scene.store.now()
    for name, endpoint in made.items():
        (view,) = await scene.store.history.lane_page(scene.organization.id, None, Page(limit=9), state=name)
        assert (view.endpoint_id, endpoint_health.condition(view.lane, now).name) == (endpoint.id, name)
    sick = await scene.store.history.lane_page(scene.organization.id, None, Page(limit=9), state="sick")
    assert {view.endpoint_id for view in sick} == {made[name].id for name in endpoint_health.WORDS if name != "well"}


async def test_lanes_are_filtered_by_a_part_of_the_url(scene: Scene) -> None:
    one = await scene.endpoint(url="https://hooks.example.com/Alpha%20_x")
    await scene.endpoint(url="https://hooks.example.com/beta")
    assert [view.endpoint_id for view in await walked(scene, url="alpha")] == [one.id]
    assert await walked(scene, url="a_pha") == []  # the text has no wildcards
    assert [view.endpoint_id for view in await walked(scene, url="%20_")] == [one.id]
    assert len(await walked(scene, url="hooks.example.com")) == 2


async def test_lanes_of_other_tenants_and_deleted_lanes_are_left_out(scene: Scene) -> None:
    other = await scene.store.catalogue.save_organization(factory.organization())
    theirs = await scene.store.catalogue.create_application(other.id, factory.new_application())
    await scene.endpoint(theirs)
    kept, gone = await scene.endpoint(), await scene.endpoint()
    await scene.store.catalogue.delete_endpoint(gone.no)
    dropped = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    await scene.endpoint(dropped)
    await scene.store.catalogue.delete_application(dropped.no)
    assert [view.endpoint_id for view in await walked(scene)] == [kept.id]
    assert await walked(scene, theirs.no) == []
