"""The overview: problems in the first line, numbers that link to their lists, and no data of other tenants."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hookline import ids
from hookline.model.catalogue import Application
from hookline.model.states import EndpointStatus, Reason
from hookline.services import organizations
from hookline.store import Store
from tests.dashboard.conftest import Client, Enter
from tests.dashboard.dead_letters import posting
from tests.dashboard.markup import Node
from tests.support import factory
from tests.support.alerts import Fleet, only
from tests.support.scene import Scene

HOSTILE = '<script>alert(1)</script>"onmouseover="x'


def verdicts(page: Node) -> list[str]:
    return [each.text for each in page.all(class_="verdict")]


def numbers(page: Node) -> dict[str, str]:
    """Return the numbers of the page by their labels."""
    return {each.first("span").text: each.first("b").text for each in page.all(class_="number")}


@pytest.fixture
async def own(store: Store) -> Application:
    """An application of the default organization, to which the operators of the deployment belong."""
    await organizations.open_or_create(store, ids.DEFAULT_ORG, await store.now())
    return await store.catalogue.create_application(ids.DEFAULT_ORG, factory.new_application())


async def dead_letters(scene: Scene, count: int, reason: Reason = Reason.PERMANENT_FAILURE) -> None:
    await scene.send(count)
    await scene.record(*(factory.dead(job, reason) for job in await scene.claim_all()))


# ── an empty and a healthy deployment ─────────────────────────────────────────────────────────────────────────────


async def test_an_empty_overview_explains_the_next_step(operator: Client, portal: Client) -> None:
    page = await operator.page("/")
    assert verdicts(page) == ["◐ No endpoints yet, so nothing is sent."]
    assert "hookline listen --register demo --ping" in page.text
    customers = await portal.page("/portal")
    assert "Add the URL" in customers.text
    assert "hookline" not in customers.first(class_="empty").text  # customers have no command line


async def test_a_healthy_overview_shows_no_alarm(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    fleet = Fleet(scene)
    await fleet.attempt(3, factory.delivered)
    await fleet.beat()
    page = await operator.page("/")
    assert verdicts(page) == ["● Healthy: 3 deliveries succeeded in the last hour."]
    assert numbers(page)["delivered, last hour"] == "3"
    assert numbers(page)["of attempts delivered"] == "100%"
    assert not page.has("section", id="unhealthy")


# ── problems ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_failing_endpoint_is_named_with_start_cause_backlog_and_button(operator: Client, scene: Scene) -> None:
    sick = await scene.endpoint()
    await scene.trip(sick)
    await scene.send(2)
    await scene.age(600)
    page = await operator.page("/")
    (verdict,) = verdicts(page)
    assert verdict.startswith(f"❚❚ {sick.url}: circuit open for 10 min")
    assert "503" in verdict
    assert verdict.endswith("; 7 deliveries waiting.")
    (row,) = page.first("section", id="unhealthy").rows()
    assert sick.url in row[0]
    assert row[1].startswith("❚❚ circuit open for 10 min")
    assert "503" in row[2]
    assert row[3:5] == ["7", "–"]
    form = page.form(f"/endpoints/{sick.id}/circuit/close")
    assert form.first("button").text == "Close circuit"
    assert numbers(page)["held"] == "7"


async def test_an_endpoint_that_refuses_messages_is_named_with_its_dead_letters(operator: Client, scene: Scene) -> None:
    """The endpoint answers, so its circuit stays closed."""
    endpoint = await scene.endpoint()
    await dead_letters(scene, 3)
    page = await operator.page("/")
    assert verdicts(page) == ["✕ 3 dead letters, most of them permanent_failure. Show and replay them."]
    (row,) = page.first("section", id="unhealthy").rows()
    assert row[1].startswith("✕ deliveries failing for")
    assert row[4] == "3"
    replay = next(link for link in page.all("a", class_="button") if link.text == "Replay 3…")
    asked = await operator.page(replay["href"])
    assert posting(asked, "/dead-letters/replay").first("button").text == "Replay 3 deliveries to 1 endpoint"
    assert page.first("section", id="unhealthy").all("a", href=f"/dead-letters?endpoint={endpoint.id}")
    # After a successful delivery the endpoint causes no new dead letters, and the replay can start.
    await scene.send(20)
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    (row,) = (await operator.page("/")).first("section", id="unhealthy").rows()
    assert row[1].startswith("✕ dead letters for")
    assert row[2] == "Recent deliveries succeeded. Replay the dead letters."
    assert (await operator.get(replay["href"])).status == 200


async def test_several_failing_endpoints_are_counted_and_the_first_is_named(operator: Client, scene: Scene) -> None:
    for _ in range(2):
        endpoint = await scene.endpoint()
        await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "tests")
    await scene.send(3)
    page = await operator.page("/")
    (verdict,) = verdicts(page)
    first = page.first("section", id="unhealthy").rows()[0][0].partition("⧉")[0]
    begin = first[: len(endpoint.url)]
    assert verdict.startswith(f"❚❚ 2 endpoints held: 6 deliveries waiting for them. Start with {begin}: paused")
    assert [row[1].partition(" for ")[0] for row in page.first("section", id="unhealthy").rows()] == ["❚❚ paused"] * 2


async def test_an_endpoint_is_held_until_its_retry_after_ends(enter: Enter, scene: Scene) -> None:
    await scene.endpoint()
    await scene.send(3)
    (job,) = await scene.claim(1)
    until = job.claimed_at + timedelta(seconds=3000)
    await scene.record(factory.retry(job, after=3000, hold_until=until))
    operator = await enter()
    page = await operator.page("/")
    assert "paused by Retry-After" in verdicts(page)[0]
    assert verdicts(page)[0].endswith("; 3 deliveries waiting.")
    await scene.age(3001)
    assert "paused by Retry-After" not in (await operator.page("/")).text


async def test_a_failure_that_will_be_retried_is_no_alarm(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    await scene.send()
    await scene.record(*(factory.retry(job) for job in await scene.claim_all()))
    assert verdicts(await operator.page("/")) == ["◷ 1 endpoint failed recently. Failed deliveries are retried."]


async def test_readers_have_no_buttons(reader: Client, scene: Scene) -> None:
    await scene.trip(await scene.endpoint())
    await dead_letters(scene, 1)
    page = await reader.page("/")
    assert not page.first("section", id="unhealthy").has("form")
    assert not page.first("section", id="unhealthy").has("a", class_="button")


async def test_every_number_leads_to_its_list(operator: Client, scene: Scene) -> None:
    await scene.trip(await scene.endpoint())
    await dead_letters(scene, 1)
    page = await operator.page("/?range=6h")
    links = [each["href"] for each in page.all("a", class_="number")]
    assert len(links) == 5
    for link in links:
        assert "range=6h" in link
        assert (await operator.get(link)).status == 200, link
    for bar in page.first("section", id="dead").all("a"):
        assert (await operator.get(bar["href"])).status == 200


# ── separate tenants ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_overview_of_one_application_shows_only_its_own_data(
    operator: Client, portal: Client, scene: Scene, other_app: Application
) -> None:
    mine, theirs = await scene.endpoint(), await scene.endpoint(other_app)
    for endpoint in (mine, theirs):
        await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "tests")
    await scene.store.pipeline.ingest(factory.new_messages(other_app.no, 5))
    await scene.send(2)
    for client, path in ((portal, "/portal"), (operator, f"/?app={scene.app.id}")):
        page = await client.page(path)
        assert theirs.url not in page.text
        assert mine.url in page.text
        assert numbers(page)["held"] == "2"
    whole = await operator.page("/")
    assert theirs.url in whole.text
    assert numbers(whole)["held"] == "7"


async def test_an_unknown_application_never_means_all_applications(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    assert (await operator.get("/?app=app_nobody")).status == 404


async def test_the_overview_shows_nothing_of_another_organization(enter: Enter, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.trip(endpoint)
    other = await scene.store.catalogue.save_organization(factory.organization())
    page = await (await enter(org_id=other.id)).page("/")
    assert endpoint.url not in page.text
    assert verdicts(page) == ["◐ No endpoints yet, so nothing is sent."]


async def test_attempts_of_others_are_not_counted(
    operator: Client, portal: Client, scene: Scene, other_app: Application
) -> None:
    await scene.endpoint()
    await scene.endpoint(other_app)
    fleet = Fleet(scene)
    await fleet.attempt(2, factory.delivered)
    await scene.store.pipeline.ingest(factory.new_messages(other_app.no, 3))
    await fleet.work(factory.delivered)
    await fleet.beat()
    assert numbers(await portal.page("/portal"))["delivered, last hour"] == "2"
    assert numbers(await operator.page("/"))["delivered, last hour"] == "5"


# ── the deployment ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_operators_of_the_deployment_see_all_of_it(chief: Client, scene: Scene) -> None:
    theirs = await scene.endpoint()
    await scene.trip(theirs)
    fleet = Fleet(scene)
    fleet.tally.slots, fleet.tally.in_flight = 64, 3
    await scene.endpoint()
    await fleet.attempt(4, factory.delivered)
    await fleet.beat()
    page = await chief.page("/")
    found = numbers(page)
    assert found["delivered, last hour"] == "4"
    assert found["in flight, of 64 in 1 process"] == "3"
    assert theirs.url in page.text
    # The operators cannot open pages of another organization's endpoint, so the overview shows a command instead.
    assert not page.has("a", href=f"/endpoints/{theirs.id}")
    assert f"hookline endpoints show {theirs.id} --org {scene.organization.id}" in page.text
    # the chart shows the new attempts at once
    assert "4" in {cell for row in page.first("figure", class_="chart").rows() for cell in row}
    assert {"latency", "backlog", "dead"} <= {section.get("id") for section in page.all("section")}


async def test_an_endpoint_of_the_operators_own_organization_has_a_button(
    chief: Client, scene: Scene, own: Application
) -> None:
    endpoint = await scene.endpoint(own)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "tests")
    page = await chief.page("/")
    assert page.has("a", href=f"/endpoints/{endpoint.id}")
    assert page.form(f"/endpoints/{endpoint.id}/resume")


async def test_a_missing_worker_is_shown_first(chief: Client, scene: Scene) -> None:
    await scene.trip(await scene.endpoint())
    fleet = Fleet(scene)
    await fleet.beat()  # from a process that only serves the API
    first, second = verdicts(await chief.page("/"))
    assert first == "✕ No worker is running, so nothing is sent. Start one: hookline serve"
    assert second.startswith("❚❚ ")
    fleet.tally.slots = 8
    await fleet.beat()
    assert len(verdicts(await chief.page("/"))) == 1


async def test_firing_alerts_are_shown(chief: Client, scene: Scene) -> None:
    await scene.endpoint()
    fleet = Fleet(scene, only(backlog=2))
    fleet.tally.slots = 1
    await scene.send(5)
    await fleet.check_for(90)
    await fleet.beat()
    page = await chief.page("/")
    assert "◷ 1 alert firing: backlog." in verdicts(page)
    (row,) = page.first("section", id="alerts").rows()
    assert row[0].startswith("◷ Backlog")
    assert "5 deliveries are due" in row[1]


async def test_deliveries_are_counted_in_every_range_that_contains_them(
    enter: Enter, own: Application, scene: Scene
) -> None:
    await scene.endpoint()
    fleet = Fleet(scene)
    hour = 3600.0
    for count, until_the_next in ((7, 80 * hour), (5, 16 * hour), (3, 4 * hour), (2, 0.0)):
        await fleet.attempt(count, factory.delivered)
        await fleet.beat()
        await scene.age(180)
        await scene.store.monitoring.roll_pulses()
        await scene.age(until_the_next)

    chief = await enter(org_id=own.org_id)

    async def delivered() -> dict[str, str]:
        """Return the number of deliveries by range. It must be the same with an empty and a filled cache."""
        found = {span: numbers(await chief.page(f"/?range={span}")) for span in ("1h", "6h", "24h", "7d")}
        return {
            span: next(value for name, value in found[span].items() if name.startswith("delivered")) for span in found
        }

    known = {"1h": "2", "6h": "5", "24h": "10", "7d": "17"}
    assert await delivered() == known
    assert await delivered() == known
    await fleet.attempt(1, factory.delivered)
    await fleet.beat()
    assert await delivered() == {"1h": "3", "6h": "6", "24h": "11", "7d": "18"}


async def test_an_unknown_range_is_refused(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    assert (await operator.get("/?range=2y")).status == 422


async def test_the_overview_lists_ten_failing_endpoints_and_counts_all(operator: Client, scene: Scene) -> None:
    for _ in range(14):
        endpoint = await scene.endpoint()
        await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "tests")
    page = await operator.page("/")
    assert len(page.first("section", id="unhealthy").rows()) == 10
    assert verdicts(page)[0].startswith("❚❚ 14 endpoints held")


# ── hostile texts ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_texts_of_tenants_and_receivers_are_escaped(operator: Client, scene: Scene) -> None:
    app = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application(name=HOSTILE))
    endpoint = await scene.endpoint(app, url="https://hooks.example.com/?a=<script>alert(2)</script>")
    await scene.store.pipeline.ingest(factory.new_messages(app.no, 1))
    (job,) = await scene.claim_all()
    until = job.claimed_at + timedelta(seconds=500)
    result = factory.retry(job, after=900, hold_until=until)
    await scene.record(result)
    shown = await operator.get("/")
    assert "<script>alert" not in shown.text
    assert HOSTILE in shown.page().text
    assert endpoint.url in shown.page().text
