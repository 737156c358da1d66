"""The search for messages: ids are recognised, the URL holds every filter, and pages can be walked both ways."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from hookline import clock, ids
from hookline.dashboard.pages import messages as messages_page
from hookline.model.catalogue import NewApplication
from hookline.model.messages import NewMessage
from hookline.model.states import EndpointStatus, Health
from hookline.store.plans import listing
from tests.dashboard.client import Client
from tests.dashboard.conftest import Enter
from tests.dashboard.markup import Node
from tests.support import factory
from tests.support.scene import Scene

HOSTILE = "<script>alert(1)</script>\"'>"


def listed(page: Node) -> list[str]:
    """Return the ids of the messages on the page, in the order of the page."""
    return [row["data-key"] for row in page.first("main").all("tr") if row.get("data-key")]


def link(page: Node, words: str) -> str | None:
    found = [node["href"] for node in page.first("main").all("a") if node.text == words]
    return found[0] if found else None


async def search(client: Client, status: int = 200, /, **query: str) -> Node:
    prefix = "/portal" if client.portal else ""
    return await client.page(f"{prefix}/messages?{urlencode(query)}", status)


_age = itertools.count(-3000)


async def send(scene: Scene, **fields: Any) -> str:
    """Send a message with a later id than all before. Ids of the same four milliseconds have no fixed order."""
    message = factory.new_message(
        scene.app.no, id=ids.mint(ids.MESSAGE, clock.wall() + timedelta(seconds=next(_age))), **fields
    )
    await scene.ingest([message])
    return message.id


def spread(app_no: int, count: int, **fields: Any) -> list[NewMessage]:
    """Return messages whose ids are one second apart, newest first."""
    now = clock.wall()
    return [
        factory.new_message(app_no, id=ids.mint(ids.MESSAGE, now - timedelta(seconds=at)), **fields)
        for at in range(count)
    ]


# ── the list ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_each_message_with_the_states_of_its_deliveries(operator: Client, scene: Scene) -> None:
    for _ in range(2):
        await scene.endpoint(event_types=("order.paid",))
    alone = await send(scene, event_type="order.lost")
    failing = await send(scene, event_id="order-8", tags=("eu",), channels=("shop",))
    first, second = await scene.claim_all()
    await scene.record(factory.dead(first), factory.retry(second, health=Health.NONE))
    fine = await send(scene)
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    page = await search(operator)
    assert listed(page) == [fine, failing, alone]
    cells = [row[4] for row in page.first("main").rows()]
    assert cells == ["● 2 delivered", "✕ 1 dead ◷ 1 scheduled", "no endpoint matched"]
    known = page.first("main").rows()[1]
    assert "order-8" in known[2]
    assert "shop" in known[2]
    assert scene.app.name in known[3]
    assert page.first(class_="verdict").text.startswith("✕ 1 of 3 messages on this page has dead letters.")
    assert page.has("a", href=f"/messages/{failing}")


async def test_every_filter(operator: Client, scene: Scene) -> None:
    await scene.endpoint(event_types=("order.paid", "order.gone"))
    paid = await send(scene, event_type="order.paid", channels=("shop",), tags=("ä & b",))
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    gone = await send(scene, event_type="order.gone")
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    waiting = await send(scene, event_type="order.paid")
    unheard = await send(scene, event_type="order.unheard")
    everything = [unheard, waiting, gone, paid]
    cases: list[tuple[dict[str, str], list[str]]] = [
        ({}, everything),
        ({"type": "order.paid"}, [waiting, paid]),
        ({"type": " order.gone , order.unheard"}, [unheard, gone]),
        ({"channel": "shop"}, [paid]),
        ({"tag": "ä & b"}, [paid]),
        ({"state": "delivered"}, [paid]),
        ({"state": "dead"}, [gone]),
        ({"state": "open"}, [waiting]),
        ({"state": "none"}, [unheard]),
        ({"state": "open", "type": "order.paid"}, [waiting]),
        ({"state": "open", "type": "order.gone"}, []),
        ({"since": "2020-01-01T00:00"}, everything),
        ({"until": "2020-01-01T00:00"}, []),
        ({"since": "2100-01-01T00:00Z"}, []),
        ({"range": "1h"}, everything),
        ({"app": scene.app.id}, everything),
        ({"type": "", "state": "", "q": ""}, everything),
    ]
    for query, expected in cases:
        page = await search(operator, **query)
        assert listed(page) == expected, query
        # The form shows the query again, and each filter has a link that removes it.
        form = page.first("main").form("/messages").fields()
        for name, value in query.items():
            if name not in ("since", "until"):
                assert form[name] == [value.strip()], query
        shown = [node.text for node in page.all(class_="chips")]
        assert bool(shown) == any(value.strip() for name, value in query.items() if name != "app"), query


async def test_time_filters_are_shown_like_other_times(operator: Client, scene: Scene) -> None:
    page = await search(operator, since="2020-03-01T14:30+02:00", until="2100-01-01T00:00")
    since, until = page.first(class_="chips").all("a")
    assert (since.text, until.text) == ("Since: 2020-03-01 12:30 UTC ✕", "Until: 2100-01-01 00:00 UTC ✕")
    assert since.first("time")["datetime"] == "2020-03-01T12:30:00Z"  # the script converts it to the viewer's time zone


async def test_a_held_delivery_has_the_same_state_as_on_its_own_page(operator: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    message = await send(scene)
    await scene.store.catalogue.set_endpoint_status(endpoint.no, EndpointStatus.PAUSED, "they asked")
    page = await search(operator)
    assert page.first("main").rows()[0][4] == "❚❚ 1 held"
    assert page.first(class_="verdict").text.startswith("❚❚ 1 message on this page is held.")
    assert "❚❚ held" in (await operator.page(f"/messages/{message}")).first("main").text
    assert listed(await search(operator, state="open")) == [message]


async def test_bad_filters_are_shown_again_with_an_error(operator: Client, scene: Scene) -> None:
    message = await send(scene)
    for query in (
        {"state": "sideways"},
        {"type": "no such type!"},
        {"type": ",".join(f"t{n}" for n in range(50))},
        {"channel": HOSTILE},
        {"tag": "x" * 200},
        {"since": "yesterday"},
        {"until": "9999-01-01"},
        {"q": HOSTILE},
        {"q": "atmpt_2"},
    ):
        page = await search(operator, 422, **query)
        assert message not in page.text
        assert page.first("main").all(role="alert"), query
        [(name, value)] = query.items()
        if name in ("type", "channel", "tag", "q"):
            assert page.first("main").form("/messages").fields()[name] == [value]
        assert not [node for node in page.all("script") if node.get("src") is None]
    for query in ({"tag": "x" * 600}, {"tag": "a\x00"}, {"after": "x"}, {"before": message[:-1]}, {"range": "9y"}):
        page = await search(operator, 422, **query)
        assert message not in page.text


async def test_an_unknown_application_never_means_all_applications(operator: Client, scene: Scene) -> None:
    message = await send(scene)
    page = await search(operator, 404, app="app_nobodys")
    assert message not in page.text


async def test_empty_lists_teach_the_next_step(operator: Client, portal: Client, scene: Scene) -> None:
    page = await search(operator)
    assert "hookline send APP order.paid" in page.first(class_="empty").text
    page = await search(operator, app=scene.app.id)
    assert f"hookline send {scene.app.id} order.paid" in page.first(class_="empty").text
    assert "hookline" not in (await search(portal)).first(class_="empty").text
    await send(scene)
    page = await search(operator, type="order.never")
    assert link(page, "Remove all filters") == "/messages"
    page = await search(operator, q="order.paid")
    other = link(page, "event type 'order.paid'")
    assert other == "/messages?type=order.paid"
    assert len(listed(await operator.page(other))) == 1


# ── ids ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_search_for_an_id_leads_to_its_object(operator: Client, portal: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    message = await send(scene, event_id="order-7")
    [job] = await scene.claim()
    await scene.record(factory.dead(job))
    for client, prefix in ((operator, ""), (portal, "/portal")):
        for text, path in (
            (message, f"/messages/{message}"),
            (f" {message} ", f"/messages/{message}"),
            (f"dl_{job.delivery_id}", f"/messages/{message}#delivery-{job.delivery_id}"),
            (endpoint.id, f"/endpoints/{endpoint.id}"),
        ):
            answer = await client.get(f"{prefix}/messages?q={quote(text)}&type=not.this")
            assert answer.location == f"{prefix}{path}", text
        page = await search(client, q="order-7", type="not.this")
        assert listed(page) == [message]
    assert (await operator.get(f"/messages?q={scene.app.id}")).location == f"/messages?app={scene.app.id}"


async def test_ids_of_others_lead_nowhere(enter: Enter, scene: Scene) -> None:
    neighbour = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    other = await scene.store.catalogue.save_organization(factory.organization())
    endpoint = await scene.endpoint()
    message = await send(scene, event_id="order-7", tags=("eu",))
    [job] = await scene.claim()
    await scene.record(factory.dead(job))
    for client in (await enter(org_id=other.id), await enter(app=neighbour)):
        for text in (
            message,
            f"dl_{job.delivery_id}",
            endpoint.id,
            scene.app.id,
            "order-7",
            "dl_",
            "dl_x",
            f"dl_{'9' * 40}",
        ):
            page = await search(client, q=text)
            assert not listed(page), text
            assert "No message has the id or event id" in page.text
        for name, value in (("app", ""), ("tag", "eu"), ("state", "dead"), ("type", "order.paid")):
            assert not listed(await search(client, **{name: value}))
    narrow = await enter(app=neighbour)
    # The portal shows one application, whatever the URL contains.
    assert not listed(await search(narrow, app=scene.app.id))


async def test_the_same_event_id_in_two_applications(operator: Client, scene: Scene) -> None:
    other = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application())
    here = await send(scene, event_id="order-7")
    [there] = await scene.ingest([factory.new_message(other.no, event_id="order-7")])
    assert set(listed(await search(operator, q="order-7"))) == {here, there.message_id}
    assert listed(await search(operator, q="order-7", app=other.id)) == [there.message_id]


# ── pages ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_pages_lead_there_and_back(operator: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages_page, "SHOWN", 3)
    batch = spread(scene.app.no, 8, tags=("eu",))
    await scene.ingest(batch)
    everything = [message.id for message in batch]
    page = await search(operator, tag="eu")
    seen, way = [listed(page)], []
    assert link(page, "← Newer") is None
    while (older := link(page, "Older →")) is not None:
        page = await operator.page(older)
        assert page.first("main").form("/messages").fields()["tag"] == ["eu"]
        seen.append(listed(page))
    assert seen == [everything[:3], everything[3:6], everything[6:]]
    while (newer := link(page, "← Newer")) is not None:
        page = await operator.page(newer)
        way.append(listed(page))
    assert way == [everything[3:6], everything[:3]]


async def test_a_rare_filter_is_walked_in_steps(
    operator: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "STRIDE", 5)
    monkeypatch.setattr(messages_page, "SHOWN", 3)
    batch = spread(scene.app.no, 23)
    rare = factory.new_message(scene.app.no, id=batch[-1].id, event_type="order.rare")
    await scene.ingest([*batch[:-1], rare])
    page = await search(operator, type="order.rare")
    steps = 1
    while (older := link(page, "Search older messages →")) is not None:
        assert not listed(page)
        assert "Searched back to" in page.text
        page = await operator.page(older)
        steps += 1
        assert steps < 20
    assert steps > 1
    assert listed(page) == [rare.id]


async def test_only_the_newest_page_is_live(operator: Client, scene: Scene) -> None:
    message = await send(scene)
    assert (await operator.page("/messages")).first("body").get("data-live") is not None
    older = await operator.page(f"/messages?after={message}")
    assert older.first("body").get("data-live") is None
    assert link(older, "Show the newest") == "/messages"


async def test_hostile_names_are_escaped(operator: Client, scene: Scene) -> None:
    scene.app = await scene.store.catalogue.create_application(scene.organization.id, NewApplication(name=HOSTILE))
    await send(scene, tags=(HOSTILE,))
    page = await search(operator)
    assert HOSTILE in page.first("main").first("tbody").text
    assert not [node for node in page.all("script") if node.get("src") is None]
    [tagged] = [node["href"] for node in page.first("tbody").all("a") if node.text == HOSTILE]
    assert len(listed(await operator.page(tagged))) == 1
