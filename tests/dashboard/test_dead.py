"""The list of dead letters, its filters, and the replay of one dead letter up to its delivery."""

from __future__ import annotations

from urllib.parse import parse_qs, quote, urlsplit

import pytest

from hookline.model.dead import DeadFilter
from hookline.model.states import DeliveryState, EndpointStatus, Reason
from tests.dashboard.client import Client
from tests.dashboard.dead_letters import alerts, bury, left, letter, posting, shown, verdict, work
from tests.support import factory
from tests.support.receiver import Behaviour, Receiver
from tests.support.scene import Scene
from tests.support.working import reaches, settled, working

HOSTILE = "<img src=x onerror=alert(1)>'\""


# ── the list ──


async def test_an_empty_list_explains_dead_letters(operator: Client, portal: Client) -> None:
    page = await operator.page("/dead-letters")
    assert "No dead letters" in verdict(page)
    assert "hookline dead list" in page.text
    assert "hookline" not in (await portal.page("/portal/dead-letters")).first("main").text


async def test_the_page_says_what_failed_and_what_to_do(operator: Client, scene: Scene) -> None:
    left_one, right = await scene.endpoint(channels=("l",)), await scene.endpoint(channels=("r",))
    for _ in range(3):
        await bury(scene, Reason.ATTEMPTS_EXHAUSTED, channels=("l",))
    await bury(scene, channels=("r",))
    page = await operator.page("/dead-letters")
    words = verdict(page)
    assert words.startswith(
        f"✕ 4 dead letters at 2 endpoints, 3 of them at {left_one.url}. Mostly attempts_exhausted: "
    )
    assert "every attempt failed. Replay them once the endpoint is healthy again." in words
    (replay,) = [node["href"] for node in page.all("a") if node.text == "Replay all 4"]
    assert replay == "/dead-letters/replay?all=1"
    links = {node.text: node["href"] for figure in page.all("figure") for node in figure.all("a")}
    for name, chosen in {
        "attempts_exhausted": 3,
        "permanent_failure": 1,
        left_one.url.removeprefix("https://"): 3,
        right.url.removeprefix("https://"): 1,
    }.items():
        assert len(shown(await operator.page(links[name]))) == chosen, name


async def test_the_summary_of_one_open_and_one_resolved_dead_letter(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    dead = await bury(scene)
    page = await operator.page("/dead-letters")
    assert verdict(page).startswith(
        f"✕ 1 dead letter at {endpoint.url}. permanent_failure: the endpoint refused it permanently"
    )
    assert [node.text for node in page.all("a", class_="button") if "all=1" in node["href"]] == [
        "Replay it",
        "Resolve it",
    ]
    assert [node.text for node in page.all(class_="number")][:3] == ["1dead letter", "1endpoint", "1application"]
    await operator.post("/dead-letters/resolve", {"id": [dead], "note": "done by hand"})
    page = await operator.page("/dead-letters?state=resolved")
    assert verdict(page) == "✓ 1 resolved dead letter."
    assert not page.first(class_="numbers").all(class_="dead")


async def test_a_row_says_what_happened_and_leads_on(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    dead = await bury(scene, Reason.UNSENDABLE, event_type="order.paid")
    page = await operator.page("/dead-letters")
    found = await letter(scene, dead)
    (row,) = [row for row in page.all("tr") if row.get("data-key") == dead]
    for text in ("order.paid", "unsendable", found.detail, "422", scene.app.name):
        assert text in row.text, text
    hrefs = [node["href"] for node in row.all("a")]
    assert f"/endpoints/{endpoint.id}" in hrefs
    assert f"/messages/{found.message_id}" in hrefs
    assert row.first("time")["datetime"] == found.died_at.isoformat()


async def test_each_filter_chooses_and_stays_in_the_url(operator: Client, scene: Scene) -> None:
    one_end = await scene.endpoint(channels=("left",))
    await scene.endpoint(channels=("right",))
    one = await bury(scene, event_type="a", channels=("left",))
    two = await bury(scene, Reason.ATTEMPTS_EXHAUSTED, event_type="b", channels=("right",))
    three = await bury(scene, event_type="b", channels=("right",))
    await scene.store.repair.resolve(DeadFilter(ids=(int(three[3:]),)), "done by hand")
    died = quote((await letter(scene, two)).died_at.isoformat())
    for query, expected in {
        "": [two, one],
        f"endpoint={one_end.id}": [one],
        "type=b": [two],
        "type=b&state=all": [three, two],
        "reason=attempts_exhausted": [two],
        "state=resolved": [three],
        f"since={died}": [two],
        f"until={died}": [one],
        f"app={scene.app.id}": [two, one],
        "reason=&type=&since=": [two, one],
    }.items():
        page = await operator.page(f"/dead-letters?{query}")
        assert shown(page) == expected, query
    assert "done by hand" in (await operator.page("/dead-letters?state=resolved")).text
    page = await operator.page(f"/dead-letters?type=b&since={died}&range=7d&app={scene.app.id}")
    filters = page.first("form", class_="filters").fields()
    assert (filters["type"], filters["range"], filters["app"]) == (["b"], ["7d"], [scene.app.id])
    assert filters["since"][0]
    assert all("range=7d" in node["href"] for node in page.all("a") if "reason=" in node["href"])


async def test_the_letters_of_a_deleted_endpoint_are_found(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send()
    await scene.store.catalogue.delete_endpoint(endpoint.no)
    await scene.store.upkeep.sweep_deleted()
    page = await operator.page(f"/dead-letters?endpoint={endpoint.id}")
    assert len(shown(page)) == 1
    assert "endpoint_deleted: its endpoint was deleted" in verdict(page)


BAD = (
    "reason=bored",
    "state=x",
    "since=yesterday",
    "until=0001-01-01T00:00",
    "since=99999999999999999999",
    "type=%00",
    "type=a%20b",
    "type=%ff%fe",
    "type=" + "x" * 300,
    "endpoint=" + "x" * 600,
    "endpoint=nobody",
    "endpoint=%f0%9f%92%a9",
    "after=17",
    "after=dl_17",
    "after=999999999999999999_1",
    "reason=bored&type=%3Cscript%3E",
)


async def test_a_bad_filter_is_refused_with_what_was_typed(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    await bury(scene)
    for query in BAD:
        unknown = query in ("endpoint=nobody", "endpoint=%f0%9f%92%a9")
        for path, status in (("/dead-letters", 422), ("/dead-letters/export", 404 if unknown else 422)):
            page = await operator.page(f"{path}?{query}", status)
            assert alerts(page), query
            assert not shown(page)
        typed = {name: values[0] for name, values in parse_qs(query).items()}
        page = await operator.page(f"/dead-letters?{query}", 422)
        forms = page.all("form", class_="filters")
        for name in set(typed) & {"type", "reason", "since", "endpoint"}:
            if "\x00" not in typed[name] and len(typed[name]) <= 500:
                assert forms[0].fields()[name] == [typed[name]], query


async def test_pages_go_on(operator: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hookline.dashboard.pages.dead_letters.list.SHOWN", 2)
    await scene.endpoint()
    letters = [await bury(scene) for _ in range(5)][::-1]
    found: list[str] = []
    path = "/dead-letters?reason=permanent_failure"
    while True:
        page = await operator.page(path)
        found += shown(page)
        onward = [node["href"] for node in page.all("a") if node.text == "Older →"]
        if not onward:
            break
        path = onward[0]
        assert "reason=permanent_failure" in path
    assert found == letters


async def test_an_unknown_application_never_means_all_applications(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    dead = await bury(scene)
    stranger = await scene.store.catalogue.save_organization(factory.organization())
    theirs = await scene.store.catalogue.create_application(stranger.id, factory.new_application())
    for ref in ("nobody", theirs.id):
        for path in (
            "/dead-letters",
            "/dead-letters/replay",
            "/dead-letters/resolve",
            "/dead-letters/export",
            "/tasks",
        ):
            assert (await operator.get(f"{path}?app={ref}&all=1")).status == 404, path
        for path in ("/dead-letters/replay", "/dead-letters/resolve", f"/dead-letters/{dead}/replay"):
            answer = await operator.post(f"{path}?app={ref}", {"all": "1", "id": dead, "note": "x"})
            assert answer.status == 404, answer
    assert await left(scene) == {dead}


async def test_texts_of_tenants_are_escaped(operator: Client, scene: Scene) -> None:
    await scene.endpoint(url="https://hooks.example.com/?q=<script>alert(1)</script>")
    await scene.store.catalogue.create_application(scene.organization.id, factory.new_application(name=HOSTILE))
    await scene.send()
    (job,) = await scene.claim_all()
    result = factory.dead(job)
    await scene.record(result)
    await scene.raw.execute(
        "UPDATE dead_letter SET detail = $1, note = $2, resolved_at = died_at", HOSTILE, HOSTILE * 2
    )
    for path in ("/dead-letters?state=all", f"/dead-letters/replay?id=dl_{job.delivery_id}"):
        answer = await operator.get(path)
        assert b"<img" not in answer.body
        assert b"<script>alert" not in answer.body
        assert answer.page().text
    assert HOSTILE in (await operator.page("/dead-letters?state=all")).text


# ── one ──


async def test_a_dead_letter_links_to_its_message(operator: Client, portal: Client, scene: Scene) -> None:
    await scene.endpoint()
    dead = await bury(scene)
    message = (await letter(scene, dead)).message_id
    assert (await operator.get(f"/dead-letters/{dead}")).location == f"/messages/{message}"
    assert (await portal.get(f"/portal/dead-letters/{dead}")).location == f"/portal/messages/{message}"
    for wrong in ("dl_999999", "dl_", "x", "dl_99999999999999999999", "-1", "1e5", "%00"):
        assert (await operator.get(f"/dead-letters/{wrong}")).status == 404, wrong


async def test_the_button_replays_one_dead_letter(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    one, two = await bury(scene), await bury(scene)
    page = await operator.page("/dead-letters?reason=permanent_failure&range=6h")
    (press,) = [node for node in page.all("button") if node.get("aria-label") == f"Replay {one}"]
    (form,) = page.all("form", id=press["form"])
    message = (await letter(scene, one)).message_id
    answer = await operator.post(press["formaction"], {"csrf": form.fields()["csrf"]})
    assert parse_qs(urlsplit(answer.location).query) == {"reason": ["permanent_failure"], "range": ["6h"]}
    page = (await operator.follow(answer)).page()
    assert f"Replaying {one}" in page.first(class_="notice").text
    assert shown(page) == [two]
    assert await scene.state(message) == DeliveryState.PENDING
    assert (await operator.post(f"/dead-letters/{one}/replay")).status == 404


async def test_a_dead_letter_that_cannot_be_sent_is_refused_and_stays(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    dead = await bury(scene)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.DISABLED, "left us")
    answer = await operator.post(f"/dead-letters/{dead}/replay")
    assert "its endpoint is disabled" in alerts(answer.page(409))
    answer = await operator.post("/dead-letters/replay", {"id": dead})
    assert "nothing was replayed" in alerts(answer.page(409))
    answer = await operator.post("/dead-letters/replay", {"all": "1", "endpoint": endpoint.id})
    assert "enable it first" in alerts(answer.page(409))
    page = await operator.page(f"/dead-letters/replay?id={dead}")
    assert "Nothing can be sent" in verdict(page)
    assert not page.all("form", method="post", action="/dead-letters/replay")
    assert await left(scene) == {dead}


# ── live ──


async def test_the_page_is_live(operator: Client, scene: Scene) -> None:
    await scene.endpoint()
    dead = await bury(scene)
    page = await operator.page("/dead-letters")
    assert {node["id"] for node in page.all() if "data-live" in node.attributes and node.name == "div"} == {
        "live-dead",
        "live-letters",
    }
    assert dead in [node.get("data-key") for node in page.first(id="live-letters").all("tr")]


# ── replayed dead letters are delivered ──


@pytest.mark.store_options(pool_size=6)
async def test_from_a_red_endpoint_to_replayed_dead_letters(operator: Client, scene: Scene) -> None:
    """The receiver counts the requests: each dead letter arrives once after the replay, with its original message id."""
    with Receiver() as receiver:
        receiver.behave(Behaviour(status=422, body=b"no such order"))
        await scene.endpoint(url=f"{receiver.url}/hook")
        async with working(scene.store):
            messages = await scene.send(5)
            for message in messages:
                (delivery,) = await settled(scene.store, message)
                assert delivery.state == DeliveryState.DEAD
            page = await operator.page("/dead-letters")
            assert "5 dead letters at http" in verdict(page)
            receiver.behave(Behaviour())
            before = len(receiver.requests)
            one, *rest = shown(page)
            await operator.post(f"/dead-letters/{one}/replay")
            await operator.post("/dead-letters/replay", {"id": rest[:2]})
            asked = await operator.page("/dead-letters/replay?all=1")
            task = await operator.submit(posting(asked, "/dead-letters/replay"))
            await work(scene)
            for message in messages:
                await reaches(scene.store, message, DeliveryState.DELIVERED)
            arrived = [each.headers["webhook-id"] for each in receiver.requests[before:]]
            assert sorted(arrived) == sorted(messages)
        assert "Finished: 2 replayed." in verdict(await operator.page(task.location))
        assert "No dead letters" in verdict(await operator.page("/dead-letters"))
