"""The list of endpoints: failing ones first, each with its backlog and the button that helps."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hookline.model.actors import Actor, ActorKind
from hookline.model.catalogue import Application, ApplicationChange
from hookline.model.endpoints import Endpoint
from hookline.model.pulses import Pulse
from hookline.model.states import EndpointStatus
from hookline.store import Store
from tests.dashboard.conftest import Client, Enter
from tests.dashboard.markup import Node
from tests.support import factory
from tests.support.scene import Scene

HOSTILE = '<script>alert(1)</script>"onmouseover="x'
HAND = Actor(kind=ActorKind.COMMAND_LINE)


def listed(page: Node) -> list[str]:
    """Return the ids of the endpoints on the page, in the order of the page."""
    return [row["data-key"] for row in page.first("tbody").all("tr")]


def verdict(page: Node) -> str:
    return page.first(class_="verdict").text


async def did(store: Store, endpoint: Endpoint, **outcomes: int) -> None:
    made = [outcomes.get(name, 0) for name in ("delivered", "retried", "dead")]
    await store.monitoring.add_pulse("a worker", Pulse(at=await store.now()), {(endpoint.app_no, endpoint.no): made})


async def test_an_empty_list_explains_the_next_step(operator: Client, portal: Client) -> None:
    page = await operator.page("/endpoints")
    assert "hookline listen --register demo --ping" in page.text
    assert page.has("a", href="/endpoints/new")
    theirs = await portal.page("/portal/endpoints")
    assert "hookline" not in theirs.first(class_="empty").text
    assert theirs.has("a", href="/portal/endpoints/new")


async def test_failing_endpoints_come_first_with_the_button_that_helps(operator: Client, scene: Scene) -> None:
    sick = await scene.endpoint(description="the warehouse")
    messages = await scene.trip(sick)
    well, paused, disabled = await scene.endpoint(), await scene.endpoint(), await scene.endpoint()
    await scene.store.catalogue.set_endpoint_status(paused.no, EndpointStatus.PAUSED, "spring", actor=HAND)
    await scene.store.catalogue.set_endpoint_status(disabled.no, EndpointStatus.DISABLED, "summer", actor=HAND)

    page = await operator.page("/endpoints")
    assert listed(page) == [sick.id, disabled.id, paused.id, well.id]
    assert verdict(page).startswith(f"❚❚ 3 of 4 endpoints are held: {len(messages)} deliveries waiting. See {sick.url}")
    rows = page.rows()
    assert rows[0][0].endswith(f"the warehouse · {scene.app.name}")
    assert rows[0][1].startswith("❚❚ circuit open for")
    assert "answered 503" in rows[0][1]
    assert rows[0][2].startswith(str(len(messages)))
    assert [row[1] for row in rows[1:]] == ["❚❚ disabled", "❚❚ paused", "● healthy"]
    assert page.form(f"/endpoints/{sick.id}/circuit/close").text == "Close circuit"
    assert page.form(f"/endpoints/{paused.id}/resume").text == "Resume"
    assert page.has("a", href=f"/endpoints/{disabled.id}/enable")
    assert not any(well.id in form["action"] for form in page.all("form"))


async def test_an_endpoint_is_held_until_its_retry_after_ends(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(3)
    (job,) = await scene.claim(1)
    until = job.claimed_at + timedelta(seconds=3000)
    await scene.record(factory.retry(job, after=3000, hold_until=until))
    assert (await operator.page("/endpoints")).rows()[0][1].startswith("❚❚ paused by Retry-After")
    assert listed(await operator.page("/endpoints?state=held")) == [endpoint.id]
    await scene.age(3001)
    assert "left alone" not in (await operator.page("/endpoints")).first("tbody").text


async def test_the_attempts_of_each_endpoint_are_drawn_and_counted(operator: Client, scene: Scene) -> None:
    busy, idle = await scene.endpoint(), await scene.endpoint()
    await did(scene.store, busy, delivered=7, retried=2, dead=1)
    page = await operator.page("/endpoints")
    by_id = dict(zip(listed(page), page.rows(), strict=True))
    assert by_id[busy.id][3].endswith("70.0% delivered")
    assert by_id[idle.id][3] == "no attempts"
    [line] = page.all(class_="sparkline")
    assert "7 delivered, 2 failed, retrying, 1 dead" in line["aria-label"]


async def test_the_limits_of_an_endpoint_are_shown(operator: Client, scene: Scene) -> None:
    await scene.endpoint(throttle_rate=12.5, concurrency=3)
    assert (await operator.page("/endpoints")).rows()[0][4] == "12.5/s, 3 in flight"


# ── filters and pages ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_filters_by_state_url_and_id(operator: Client, scene: Scene) -> None:
    one = await scene.endpoint(url="https://hooks.example.com/Alpha")
    two = await scene.endpoint(url="https://hooks.example.com/beta")
    await scene.store.catalogue.set_endpoint_status(two.no, EndpointStatus.PAUSED, "winter", actor=HAND)
    assert listed(await operator.page("/endpoints?q=alpha")) == [one.id]
    assert listed(await operator.page(f"/endpoints?q={two.id}")) == [two.id]
    for state, expected in (("well", [one.id]), ("paused", [two.id]), ("sick", [two.id]), ("", [two.id, one.id])):
        assert listed(await operator.page(f"/endpoints?state={state}")) == expected
    page = await operator.page("/endpoints?state=open")
    assert page.first(class_="empty").text == "No endpoint matches."
    assert "1 of 2 endpoints is held" in verdict(page)  # the filter does not hide what is wrong


async def test_a_filter_by_state_finds_every_failing_endpoint(
    operator: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first lines of the page read only the sickest endpoints. The filter must find other endpoints too."""
    monkeypatch.setattr("hookline.dashboard.pages.endpoints.MAX_UNHEALTHY", 1)
    worst, paused, slowed = [await scene.endpoint() for _ in range(3)]
    await scene.store.catalogue.open_circuit(worst.no, "they deploy")
    await scene.store.catalogue.set_endpoint_status(paused.no, EndpointStatus.PAUSED, "winter", actor=HAND)
    await scene.raw.execute("UPDATE lane SET pace = 5.0 WHERE endpoint_no = $1", slowed.no)
    for state, expected in (("open", worst), ("paused", paused), ("slowed", slowed)):
        assert listed(await operator.page(f"/endpoints?state={state}")) == [expected.id]
    assert listed(await operator.page("/endpoints?state=sick")) == [worst.id, paused.id, slowed.id]


async def test_a_slowed_endpoint_is_not_called_healthy(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.raw.execute("UPDATE lane SET pace = 5.0 WHERE endpoint_no = $1", endpoint.no)
    assert verdict(await operator.page("/endpoints")).startswith("◷ 1 of 1 endpoint is unhealthy, but still sent to.")


async def test_a_healthy_endpoint_with_dead_letters_shows_them(operator: Client, scene: Scene) -> None:
    dying, well = await scene.endpoint(), await scene.endpoint()
    await scene.send()
    await scene.record(*(factory.dead(job) for job in await scene.claim_all() if job.endpoint_no == dying.no))
    rows = {row["data-key"]: row for row in (await operator.page("/endpoints")).first("tbody").all("tr")}
    assert rows[dying.id].first("a", href=f"/dead-letters?endpoint={dying.id}").text == "✕ 1 dead letter"
    assert "dead letter" not in rows[well.id].text


async def test_nothing_is_called_healthy_if_dead_letters_hide_failing_endpoints(
    operator: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hookline.dashboard.pages.endpoints.MAX_UNHEALTHY", 1)
    dying, failing = await scene.endpoint(event_types=("a",)), await scene.endpoint(event_types=("b",))
    await scene.send(1, event_type="a")
    await scene.send(1, event_type="b")
    by_endpoint = {job.endpoint_no: job for job in await scene.claim_all()}
    await scene.record(factory.dead(by_endpoint[dying.no]), factory.retry(by_endpoint[failing.no]))
    page = await operator.page("/endpoints")
    assert verdict(page) == "✕ At least 1 endpoint with dead letters. Show the dead letters."
    assert set(listed(page)) == {dying.id, failing.id}


async def test_invalid_filters_are_refused(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    for query in ("state=sickly", "app=app_nobody", "range=9y", "q=%00", "after=%00", f"q={'x' * 501}"):
        answer = await operator.get(f"/endpoints?{query}")
        assert answer.status in (404, 422), query
        assert answer.page(answer.status).has(class_="verdict")


async def test_a_long_list_has_failing_endpoints_first(operator: Client, scene: Scene) -> None:
    made = [(await scene.endpoint()).id for _ in range(53)]
    last = await scene.store.catalogue.endpoint(scene.app.no, max(made))
    assert last is not None
    first = await operator.page("/endpoints")
    assert listed(first) == sorted(made)[:50]
    await scene.store.catalogue.set_endpoint_status(last.no, EndpointStatus.PAUSED, "spring", actor=HAND)
    first = await operator.page("/endpoints")
    further = first.first(class_="more").first("a")
    second = await operator.page(further["href"])
    assert listed(first) == [last.id, *sorted(made)[:49]]
    assert {*listed(first), *listed(second)} == set(made)
    assert not second.has(class_="more")


# ── permissions ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_users_see_only_their_own_endpoints(
    operator: Client, portal: Client, enter: Enter, scene: Scene, other_app: Application
) -> None:
    own = await scene.endpoint()
    others = await scene.endpoint(other_app)
    assert {*listed(await operator.page("/endpoints"))} == {own.id, others.id}
    assert listed(await operator.page(f"/endpoints?app={other_app.id}")) == [others.id]
    assert listed(await portal.page("/portal/endpoints")) == [own.id]
    assert listed(await portal.page(f"/portal/endpoints?app={other_app.id}")) == [own.id]
    stranger = await scene.store.catalogue.save_organization(factory.organization())
    page = await (await enter(org_id=stranger.id)).page("/endpoints")
    assert own.url not in page.text
    assert page.has(class_="empty")


async def test_readers_have_no_buttons(reader: Client, portal_reader: Client, scene: Scene) -> None:
    await scene.trip(await scene.endpoint())
    for page in (await reader.page("/endpoints"), await portal_reader.page("/portal/endpoints")):
        assert not [form for form in page.first("main").all("form") if form.get("method") == "post"]
        assert not page.has("a", class_="button")


async def test_texts_of_customers_are_escaped(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint(description=HOSTILE, url="https://hooks.example.com/?<script>")
    await scene.store.catalogue.change_application(scene.app.no, ApplicationChange(name=HOSTILE))
    await scene.send()
    (job,) = await scene.claim()
    await scene.record(factory.retry(job))
    answer = await operator.get("/endpoints")
    assert "<script>alert" not in answer.text
    assert HOSTILE in answer.page().text
    assert not any("onmouseover" in node.attributes for node in answer.page().walk())
    assert listed(answer.page()) == [endpoint.id]
