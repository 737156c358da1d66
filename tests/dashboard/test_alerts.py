"""The page of alerts, which only the operators of the deployment can open."""

from __future__ import annotations

from hookline import ids
from hookline.model.states import EndpointStatus
from hookline.services import organizations
from hookline.store import Store
from tests.dashboard.conftest import Client
from tests.support import factory
from tests.support.alerts import Fleet, only
from tests.support.scene import Scene


async def backlog(scene: Scene) -> Fleet:
    """Create a firing alert for a backlog."""
    fleet = Fleet(scene, only(backlog=2))
    await scene.send(5)
    await fleet.check_for(90)
    assert await fleet.names() == ["backlog"]
    return fleet


async def test_only_operators_of_the_deployment_see_alerts(operator: Client, chief: Client) -> None:
    assert (await operator.get("/alerts")).status == 403
    assert not (await operator.page("/")).has("a", href="/alerts")
    page = await chief.page("/alerts")
    assert page.first(class_="verdict").text == "● No alert is firing."
    assert "hookline alerts test" in page.text
    assert page.has("a", href="/alerts")


async def test_a_firing_alert_shows_its_subject_start_and_links(chief: Client, scene: Scene) -> None:
    await scene.endpoint()
    await backlog(scene)
    page = await chief.page("/alerts")
    assert page.first(class_="verdict").text.startswith("◷ 1 alert firing: 5 deliveries are due")
    ((state, what, about, since, lasted, look),) = page.rows()
    assert state == "◷ Backlog warning"
    assert what.startswith("5 deliveries are due")
    assert (about, lasted, look) == ("the deployment", "firing", "Endpoints hookline top")
    assert since.endswith("ago")


async def test_a_resolved_alert_shows_how_long_it_lasted(chief: Client, scene: Scene) -> None:
    await scene.endpoint()
    fleet = await backlog(scene)
    await fleet.work(factory.delivered)
    await fleet.settle()
    page = await chief.page("/alerts")
    assert page.first(class_="verdict").text == "● No alert is firing."
    ((state, _, _, _, lasted, look),) = page.rows()
    assert state == "✓ Backlog resolved"
    assert lasted.endswith(("min", "s"))
    assert look == ""
    assert "No alert is firing" in (await chief.page("/alerts?state=firing")).text
    assert len((await chief.page("/alerts?state=resolved")).rows()) == 1
    assert (await chief.get("/alerts?state=lost")).status == 422
    assert (await chief.get("/alerts?after=%3Cscript")).status == 422


async def test_only_endpoints_of_the_own_organization_are_links(chief: Client, scene: Scene, store: Store) -> None:
    await organizations.open_or_create(store, ids.DEFAULT_ORG, await store.now())
    own_app = await store.catalogue.create_application(ids.DEFAULT_ORG, factory.new_application(name="Acme & Sons"))
    own = await scene.endpoint(own_app, url="https://own.example.com/hook", description="the warehouse")
    theirs = await scene.endpoint(url="https://theirs.example.com/hook")
    fleet = Fleet(scene, only(circuits=True))
    for endpoint in (own, theirs):
        await store.catalogue.open_circuit(endpoint.no, "tests")
    await fleet.check()
    page = await chief.page("/alerts")
    told = {row[2]: row[1] for row in page.rows()}
    mine = next(about for about in told if about.startswith("https://own.example.com/hook"))
    other = next(about for about in told if about.startswith("https://theirs.example.com/hook"))
    assert "the warehouse · Acme & Sons" in mine
    assert told[mine].startswith("the circuit of this endpoint is open")
    assert ".example.com/hook (" in page.first(class_="verdict").text
    assert f"{scene.app.name} of {scene.organization.id}" in other
    for each in (page, await chief.page("/")):
        assert "https://theirs.example.com/hook" in each.text
        assert each.has("a", href=f"/endpoints/{own.id}")
        assert not each.has("a", href=f"/endpoints/{theirs.id}")
    await store.catalogue.delete_endpoint(theirs.no)
    gone = next(row[2] for row in (await chief.page("/alerts")).rows() if "theirs" in row[2])
    assert gone.endswith("· deleted")
    await store.catalogue.set_endpoint_status(own.no, EndpointStatus.PAUSED, "tests")


async def test_paging(chief: Client, scene: Scene) -> None:
    fleet = Fleet(scene, only(circuits=True))
    for _ in range(18):
        await scene.store.catalogue.open_circuit((await scene.endpoint()).no, "tests")
    await fleet.check()
    for _ in range(2):
        for endpoint in await scene.store.history.lanes(scene.organization.id):
            await scene.store.catalogue.reset_circuit(endpoint.lane.endpoint_no, "tests")
        await fleet.settle()
        for endpoint in await scene.store.history.lanes(scene.organization.id):
            await scene.store.catalogue.open_circuit(endpoint.lane.endpoint_no, "tests")
        await fleet.check()
    first = await chief.page("/alerts")
    assert len(first.rows()) == 50
    link = first.first(class_="more").first("a")["href"]
    second = await chief.page(link)
    assert 0 < len(second.rows()) <= 50
    keys = [row["data-key"] for page in (first, second) for row in page.first("tbody").all("tr")]
    assert keys == sorted(set(keys), key=int, reverse=True)
