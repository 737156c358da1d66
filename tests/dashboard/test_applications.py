"""Applications: the list with the failing ones, create, edit, the portal link, and delete."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from hookline.model.actors import Actor, ActorKind
from hookline.model.catalogue import Application, ApplicationChange
from hookline.model.states import EndpointStatus
from hookline.store import Page
from hookline.web import public_url
from hookline.web.context import WebContext
from tests.api.conftest import serving
from tests.dashboard.client import Client as Browser
from tests.dashboard.conftest import Client, Enter
from tests.dashboard.markup import Node
from tests.dashboard.page_content import audited, notice, numbers, posting, section, verdict
from tests.support import factory
from tests.support.scene import Scene

HOSTILE = '<script>alert(1)</script>"onmouseover="x'
HAND = Actor(kind=ActorKind.COMMAND_LINE)


def listed(page: Node) -> dict[str, list[str]]:
    rows = page.first("tbody").all("tr")
    return {row["data-key"]: cells for row, cells in zip(rows, page.rows(), strict=True)}


async def found(scene: Scene, ref: str) -> Application:
    app = await scene.store.catalogue.application(scene.organization.id, ref)
    assert app is not None
    return app


async def test_an_empty_list_explains_applications(chief: Client) -> None:
    page = await chief.page("/applications")
    assert "one of your customers" in page.first(class_="empty").text
    assert page.has("a", href="/applications/new")


async def test_applications_with_problems_are_marked(operator: Client, scene: Scene, other_app: Application) -> None:
    page = await operator.page("/applications")
    assert verdict(page) == "● All applications are healthy."
    await scene.trip(await scene.endpoint())
    await scene.endpoint(other_app)
    await scene.ingest(factory.new_messages(other_app.no, 2))
    await scene.record(*(factory.dead(job) for job in await scene.claim_all() if job.app_no == other_app.no))
    page = await operator.page("/applications")
    assert verdict(page).startswith("❚❚ 1 application with unhealthy endpoints.")
    rows = listed(page)
    assert rows[scene.app.id][1:3] == ["❚❚ 1 unhealthy endpoint, 5 deliveries held", "–"]
    assert rows[other_app.id][1:3] == ["● healthy", "✕ 2"]
    assert page.has("a", href=f"/dead-letters?app={other_app.id}")


async def test_each_application_shows_its_own_state_however_many_others_fail(
    operator: Client, scene: Scene, other_app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookline.dashboard.pages.applications.MAX_UNHEALTHY", 1)
    quiet = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    await scene.trip(await scene.endpoint())
    await scene.store.catalogue.set_endpoint_status(
        (await scene.endpoint(other_app)).no, EndpointStatus.PAUSED, "", actor=HAND
    )
    page = await operator.page("/applications")
    assert verdict(page).startswith("❚❚ At least 1 application with unhealthy endpoints.")
    assert listed(page)[scene.app.id][1] == "❚❚ 1 unhealthy endpoint, 5 deliveries held"
    assert listed(page)[other_app.id][1:3] == ["❚❚ 1 unhealthy endpoint", "–"]
    assert listed(page)[quiet.id][1] == "● healthy"


async def test_an_application_with_too_many_endpoints_to_check_is_not_called_healthy(
    operator: Client, scene: Scene, other_app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookline.dashboard.pages.applications.MAX_LANES", 1)
    await scene.trip(await scene.endpoint())
    await scene.endpoint(other_app)
    page = await operator.page("/applications")
    assert listed(page)[scene.app.id][1] == "❚❚ at least 1 unhealthy endpoint, 5 deliveries held"
    assert listed(page)[other_app.id][1:3] == ["show", "–"]
    assert page.has("a", href=f"/applications/{other_app.id}")


async def test_an_application_is_found_by_its_id_or_uid(operator: Client, scene: Scene, other_app: Application) -> None:
    await scene.store.catalogue.change_application(other_app.no, ApplicationChange(uid="customer-9"))
    assert set(listed(await operator.page("/applications?q=customer-9"))) == {other_app.id}
    assert set(listed(await operator.page(f"/applications?q={scene.app.id}"))) == {scene.app.id}
    assert (await operator.page("/applications?q=nobody")).first(
        class_="empty"
    ).text == "No application has this id, or this text in its name or uid."


async def test_applications_are_found_by_a_part_of_their_name(
    operator: Client, scene: Scene, other_app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.store.catalogue.change_application(
        scene.app.no, ApplicationChange(name="Bäckerei Müller & Co", uid="baker")
    )
    await scene.store.catalogue.change_application(other_app.no, ApplicationChange(name="Bäcker, baker of bread"))
    assert set(listed(await operator.page("/applications?q=m%C3%9Cller"))) == {scene.app.id}
    assert set(listed(await operator.page("/applications?q=BAKER"))) == {scene.app.id, other_app.id}
    assert set(listed(await operator.page("/applications?q=baker"))) == {scene.app.id, other_app.id}
    monkeypatch.setattr("hookline.dashboard.pages.applications.SHOWN", 2)
    just_one = await operator.page("/applications?q=b%C3%A4ck")
    assert not just_one.first("main").has(class_="more")
    # The search reads a limited number of applications for each page. A page without a match says so.
    monkeypatch.setattr("hookline.store.plans.names.MAX_SEARCHED", 1)
    page, seen = await operator.page("/applications?q=bread"), 0
    while not page.first("main").has("table"):
        assert "No match so far." in page.first("main").text
        page, seen = await operator.page(page.first("main").first(class_="more").first("a")["href"]), seen + 1
        assert seen < 3
    assert set(listed(page)) == {other_app.id}


async def test_a_long_list_has_pages(operator: Client, scene: Scene) -> None:
    made = {scene.app.id}
    for _ in range(51):
        made.add((await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())).id)
    first = await operator.page("/applications")
    second = await operator.page(first.first(class_="more").first("a")["href"])
    assert (len(listed(first)), len(listed(second))) == (50, 2)
    assert {*listed(first), *listed(second)} == made
    assert not second.has(class_="more")


async def test_customers_have_no_such_pages(portal: Client, scene: Scene) -> None:
    for path in ("/applications", "/applications/new", f"/applications/{scene.app.id}"):
        assert (await portal.get(f"/portal{path}")).status == 404
        assert (await portal.get(path)).status == 303  # the portal's cookie is not valid here, so the user must sign in


async def test_an_application_of_another_organization_is_404(enter: Enter, scene: Scene) -> None:
    other = await scene.store.catalogue.save_organization(factory.organization())
    stranger = await enter(org_id=other.id)
    assert scene.app.name not in (await stranger.get("/applications")).text
    for rest in ("", "/edit", "/delete", "/portal-link"):
        assert (await stranger.get(f"/applications/{scene.app.id}{rest}")).status == 404
    for rest in ("/edit", "/delete", "/portal-link", "/end-portal"):
        assert (await stranger.post(f"/applications/{scene.app.id}{rest}", name="x")).status == 404
    assert await found(scene, scene.app.id) == scene.app


async def test_readers_change_nothing(reader: Client, scene: Scene) -> None:
    page = await reader.page(f"/applications/{scene.app.id}")
    assert not [form for form in page.first("main").all("form") if form.get("method") == "post"]
    for rest in ("/edit", "/delete", "/portal-link", "/end-portal"):
        assert (await reader.post(f"/applications/{scene.app.id}{rest}", name="x", lifetime="3600")).status == 403
    assert (await reader.post("/applications/new", name="x")).status == 403
    assert await found(scene, scene.app.id) == scene.app


# ── adding and editing ────────────────────────────────────────────────────────────────────────────────────────────


async def test_adding_one(operator: Client, scene: Scene) -> None:
    page = await operator.page("/applications/new")
    answer = await operator.submit(
        posting(page, "/new"), name=HOSTILE, uid="customer-8", throttle_rate="40", metadata='{"plan": "gold"}'
    )
    made = await found(scene, "customer-8")
    assert answer.location == f"/applications/{made.id}"
    assert (made.name, made.throttle_rate, made.metadata) == (HOSTILE, 40, {"plan": "gold"})
    shown = await operator.follow(answer)
    assert "<script>alert" not in shown.text
    assert HOSTILE in shown.page().first("h1").text
    assert (await audited(scene))[0].action == "application.create"


async def test_the_first_one_of_a_new_deployment(chief: Client, scene: Scene) -> None:
    answer = await chief.post("/applications/new", name="the first")
    assert answer.status == 303


async def test_errors_are_shown_and_the_input_is_kept(operator: Client, scene: Scene) -> None:
    await scene.store.catalogue.change_application(scene.app.no, ApplicationChange(uid="taken"))
    for change in (
        {"name": ""},
        {"uid": "app_x"},
        {"uid": "a b"},
        {"throttle_rate": "fast"},
        {"throttle_rate": "99999999"},
        {"metadata": "[]"},
    ):
        page = (await operator.post("/applications/new", {"name": "kept", **change})).page(422)
        [name] = change
        assert page.first(id=f"{name}-error").text
        assert posting(page, "/new").fields()[name] == [change[name]]
    page = (await operator.post("/applications/new", name="kept", uid="taken")).page(409)
    assert "taken" in verdict(page)
    assert len(await scene.store.catalogue.applications(scene.organization.id, Page())) == 1


async def test_editing_one(operator: Client, scene: Scene) -> None:
    page = await operator.page(f"/applications/{scene.app.id}/edit")
    after = (
        await operator.follow(await operator.submit(posting(page, "/edit"), name="renamed", throttle_rate="5"))
    ).page()
    assert notice(after) == "Saved."
    assert after.first("h1").text == "renamed"
    changed = await found(scene, scene.app.id)
    assert (changed.name, changed.throttle_rate, changed.uid) == ("renamed", 5, None)
    assert (await operator.post(f"/applications/{scene.app.id}/edit", name="")).status == 422
    assert (await found(scene, scene.app.id)).name == "renamed"


# ── the page of one application ───────────────────────────────────────────────────────────────────────────────────


async def test_the_page_of_an_application_shows_the_state_of_its_endpoints(
    operator: Client, scene: Scene, other_app: Application
) -> None:
    path = f"/applications/{scene.app.id}"
    assert "no endpoints" in verdict(await operator.page(path))
    well, paused = await scene.endpoint(), await scene.endpoint()
    await scene.endpoint(other_app)
    await scene.store.catalogue.set_endpoint_status(paused.no, EndpointStatus.PAUSED, "a cause", actor=HAND)
    await scene.send(2)
    page = await operator.page(path)
    assert verdict(page).startswith(f"❚❚ 1 of 2 endpoints is held: 2 deliveries waiting. See {paused.url}")
    assert numbers(page)["endpoints"] == "2"
    rows = section(page, "Endpoints").first("tbody").all("tr")
    assert [row["data-key"] for row in rows] == [paused.id, well.id]
    assert page.has("a", href=f"/endpoints/new?app={scene.app.id}")


async def test_dead_letters_are_shown_even_if_all_endpoints_are_healthy(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(3)
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    page = await operator.page(f"/applications/{scene.app.id}")
    assert verdict(page) == "✕ All endpoints are healthy; 3 dead letters can be replayed. Show the dead letters."


async def test_delete_first_shows_what_it_deletes(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    await scene.endpoint()
    await scene.send(2)
    page = await operator.page(f"/applications/{scene.app.id}/delete")
    assert "deletes 2 endpoints, turns 4 open deliveries into dead letters" in verdict(page)
    answer = await operator.submit(posting(page, "/delete"))
    assert answer.location == "/applications"
    assert await scene.store.catalogue.application(scene.organization.id, scene.app.id) is None
    assert (await operator.get(f"/applications/{scene.app.id}")).status == 404
    await scene.store.upkeep.sweep_deleted()


# ── the portal ────────────────────────────────────────────────────────────────────────────────────────────────────


async def signed_in(operator: Client, link: str) -> Browser:
    """Sign in as a customer who pastes a portal link."""
    customer = Browser(operator.address, portal=True)
    answer = await customer.sign_in("/portal/login", key=link)
    assert answer.status == 303, answer
    return customer


async def test_a_portal_link_works_until_it_is_revoked(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    page = await operator.page(f"/applications/{scene.app.id}")
    answer = await operator.submit(posting(page, "/portal-link"), lifetime="86400")
    link = answer.page().first("pre").text
    assert urlsplit(link).netloc == operator.address
    assert answer.headers["cache-control"] == "no-store"
    assert (await operator.get(f"/applications/{scene.app.id}/portal-link")).location == f"/applications/{scene.app.id}"
    customer = await signed_in(operator, link)
    assert (await customer.post(f"/portal/endpoints/{endpoint.id}/pause")).status == 303
    [_, made] = await audited(scene)
    assert (made.action, made.detail) == ("application.portal_link", "full, 86400 s")
    assert "key=" not in made.detail
    asked = (await operator.post(f"/applications/{scene.app.id}/end-portal")).page()
    assert (await customer.get("/portal/endpoints")).status == 200  # the links stay valid until the operator confirms
    await operator.submit(posting(asked, "/end-portal"))
    assert (await customer.get("/portal/endpoints")).status == 303


async def test_a_public_server_without_a_public_url_names_the_setting(
    served: WebContext, operator: Client, scene: Scene
) -> None:
    async with serving(served, "0.0.0.0") as address:
        operator.address = address
        answer = await operator.post(f"/applications/{scene.app.id}/portal-link", lifetime="3600")
    assert answer.page(409).first(role="alert").text == public_url.UNKNOWN
    assert await audited(scene) == []


async def test_ending_the_links_says_that_tokens_end_too(operator: Client, scene: Scene) -> None:
    page = await operator.page(f"/applications/{scene.app.id}")
    assert "every API token of the application" in section(page, "Portal").text


async def test_a_read_only_portal_link(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    answer = await operator.post(f"/applications/{scene.app.id}/portal-link", lifetime="3600", read_only="1")
    customer = await signed_in(operator, answer.page().first("pre").text)
    assert (await customer.get(f"/portal/endpoints/{endpoint.id}")).status == 200
    assert (await customer.post(f"/portal/endpoints/{endpoint.id}/pause")).status == 403


async def test_a_portal_link_has_one_of_the_offered_lifetimes(operator: Client, scene: Scene) -> None:
    for lifetime in ("", "1", "99999999", "x"):
        answer = await operator.post(f"/applications/{scene.app.id}/portal-link", lifetime=lifetime)
        assert answer.status == 422
    assert await audited(scene) == []
