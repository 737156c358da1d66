"""Messages over HTTP: list, show and expunge."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from hookline import ids
from hookline.model.catalogue import Application
from hookline.model.dead import DeadFilter
from hookline.model.states import DeliveryState
from hookline.store import Page, Store
from tests.api.conftest import Client
from tests.support import bulk, factory
from tests.support.scene import Scene


def path(app: Application, *rest: str) -> str:
    return "/".join((f"/api/v1/app/{app.id}/msg", *rest))


async def listed(client: Client, where: str) -> list[str]:
    """Read the listing at `where` page by page, and return the ids of all messages."""
    seen: list[str] = []
    page = (await client.get(where)).json()
    while True:
        seen += [each["id"] for each in page["data"]]
        if page["done"]:
            return seen
        page = (await client.get(f"{where}&iterator={page['iterator']}")).json()


# ── list ──


async def test_messages_are_listed_newest_first_page_by_page(client: Client, scene: Scene) -> None:
    sent = sorted(await scene.send(5), reverse=True)
    first = (await client.get(path(scene.app) + "?limit=2")).json()
    assert [each["id"] for each in first["data"]] == sent[:2]
    assert (first["done"], first["iterator"]) == (False, sent[1])
    second = (await client.get(path(scene.app) + f"?limit=2&iterator={sent[1]}")).json()
    last = (await client.get(path(scene.app) + f"?limit=2&iterator={second['iterator']}")).json()
    assert [each["id"] for each in second["data"] + last["data"]] == sent[2:]
    assert last["done"]
    back = (await client.get(path(scene.app) + f"?limit=2&iterator={last['prevIterator']}")).json()
    assert [each["id"] for each in back["data"]] == sent[2:4]
    assert not back["done"]
    start = (await client.get(path(scene.app) + f"?limit=2&iterator={back['prevIterator']}")).json()
    assert ([each["id"] for each in start["data"]], start["done"]) == (sent[:2], True)


async def test_an_empty_listing(client: Client, app: Application) -> None:
    assert (await client.get(path(app))).json() == {"data": [], "done": True, "iterator": None, "prevIterator": None}


async def test_messages_are_filtered(client: Client, scene: Scene) -> None:
    given = [
        {"event_type": "order.paid", "channels": ("eu",), "tags": ("a b", "ü")},
        {"event_type": "order.sent", "channels": ("eu", "us")},
        {"event_type": "order.sent", "tags": ("ü",)},
        {"event_type": "order.lost"},
    ]
    sent = [factory.new_message(scene.app.no, **fields) for fields in given]
    await scene.ingest(sent)

    async def found(query: str) -> set[int]:
        ids_ = await listed(client, path(scene.app) + f"?limit=1&{query}")
        return {n for n, message in enumerate(sent) if message.id in ids_}

    assert await found("event_types=order.paid") == {0}
    assert await found("event_types=order.paid,order.lost") == {0, 3}
    assert await found("event_types=order.paid&event_types=order.sent") == {0, 1, 2}
    assert await found("event_types=order.none") == set()
    assert await found("channel=eu") == {0, 1}
    assert await found("channel=us&event_types=order.sent") == {1}
    assert await found(f"tag={quote('ü')}") == {0, 2}
    assert await found(f"tag={quote('a b')}") == {0}


async def test_messages_are_filtered_by_time(client: Client, scene: Scene) -> None:
    now = await scene.store.now()
    an_hour_ago = now - timedelta(hours=1)
    early = ids.mint(ids.MESSAGE, an_hour_ago)
    await scene.ingest([factory.new_message(scene.app.no, id=early)])
    await scene.raw.execute("UPDATE message SET created_at = $1 WHERE id = $2", an_hour_ago, early)
    (late,) = await scene.send()
    between = quote((now - timedelta(minutes=30)).isoformat())
    east = quote((now - timedelta(minutes=30)).strftime("%Y-%m-%dT%H:%M:%SZ"))
    for instant in (between, east):
        assert await listed(client, path(scene.app) + f"?after={instant}") == [late]
    assert await listed(client, path(scene.app) + f"?before={between}") == [early]
    for wide in ("after=0001-01-01T00:00:00Z", f"before={quote('9999-12-31T23:59:59-12:00')}"):
        assert set(await listed(client, path(scene.app) + f"?{wide}")) == {early, late}


@pytest.mark.parametrize(
    "query",
    [
        "after=yesterday",
        "after=2026-01-01",
        "before=2026-01-01T00:00:00",  # no time zone
        "before=2026-02-30T00:00:00Z",
        "before=1e400",
        "with_content=perhaps",
        "channel=%00",
        "tag=a%0Ab",
        "event_types=a%7F",
    ],
)
async def test_bad_parameters_are_a_400(client: Client, scene: Scene, query: str) -> None:
    (await client.get(path(scene.app) + f"?{query}")).problem(400, "bad_request")


@pytest.mark.parametrize(
    "query",
    [
        "channel=a%20b",
        "channel=" + "c" * 129,
        "tag=" + "t" * 129,
        "event_types=order/paid",
        "event_types=" + ",".join(f"t{n}" for n in range(101)),
        "limit=0",
        "limit=251",
        "iterator=1",
        "iterator=ep_2gPVnTSC8oBVtHFTK3mLSn4Bz0K",
        "iterator=-atmpt_2gPVnTSC8oBVtHFTK3mLSn4Bz0K",
        "iterator=msg_x",
        "iterator=msg_%F0%9F%92%A9",
        "iterator=--",
    ],
)
async def test_parameters_out_of_bounds_are_a_422(client: Client, scene: Scene, query: str) -> None:
    assert (await client.get(path(scene.app) + f"?{query}")).faults()


async def test_payloads_are_shown_unless_they_are_not_wanted(client: Client, scene: Scene) -> None:
    payload = b'{ "id":1,  "n": 1.50 }'
    (sent,) = await scene.send(payload=payload)
    for where in (path(scene.app), path(scene.app, sent)):
        whole = await client.get(where)
        assert b'"payload":' + payload in whole.body
        less = (await client.get(where + "?with_content=false")).json()
        (shown,) = less.get("data", [less])
        assert (shown["payload"], shown["payloadSize"]) == ({}, len(payload))


# ── one ──


async def test_a_message_is_shown_by_id_and_event_id(client: Client, scene: Scene) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 vendor=a"
    new = factory.new_message(
        scene.app.no, event_id="evt-1", channels=("eu",), tags=("x",), payload=b'{"n":7}', trace=trace
    )
    await scene.ingest([new])
    found = (await client.get(path(scene.app, "evt-1"))).json()
    assert found == (await client.get(path(scene.app, new.id))).json()
    assert (
        found.items()
        >= {
            "id": new.id,
            "eventId": "evt-1",
            "eventType": new.event_type,
            "payload": {"n": 7},
            "channels": ["eu"],
            "tags": ["x"],
            "payloadSize": 7,
            "traceId": "0af7651916cd43dd8448eb211c80319c",
        }.items()
    )
    assert found["timestamp"].endswith("Z")


async def test_messages_of_others_are_not_found(client: Client, narrow: Client, store: Store, scene: Scene) -> None:
    other = await store.catalogue.create_application(scene.organization.id, factory.new_application())
    theirs = factory.new_message(other.no, event_id="evt-theirs")
    await scene.ingest([theirs])
    for ref in (theirs.id, "evt-theirs", "msg_unknown", "x" * 300):
        (await client.get(path(scene.app, ref))).problem(404, "not_found")
        (await client.request("DELETE", path(scene.app, ref, "content"), None, {})).problem(404, "not_found")
    for rest in ("", f"/{theirs.id}"):
        (await narrow.get(path(other) + rest)).problem(404, "not_found")
    (await narrow.request("DELETE", path(other, theirs.id, "content") + "?force=true", None, {})).problem(
        404, "not_found"
    )
    kept = await store.history.message_by_id(theirs.id)
    assert kept is not None
    assert kept.payload == theirs.payload
    assert (await client.get(path(scene.app))).json()["data"] == []


# ── expunge ──


async def expunge(client: Client, app: Application, ref: str, query: str = "") -> Any:
    return await client.request("DELETE", path(app, ref, "content") + query, None, {})


async def test_the_payload_of_a_delivered_message_is_expunged(client: Client, scene: Scene) -> None:
    await scene.endpoint()
    new = factory.new_message(scene.app.no, event_id="evt-1", payload=b'{"card":"4111"}')
    await scene.ingest([new])
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    for ref in ("evt-1", new.id):  # the second expunge succeeds too
        answer = await expunge(client, scene.app, ref)
        assert (answer.status, answer.body) == (204, b"")
    shown = (await client.get(path(scene.app, new.id))).json()
    assert (shown["payload"], shown["payloadSize"], shown["eventType"]) == ({"expired": True}, None, new.event_type)
    (listed_,) = (await client.get(path(scene.app))).json()["data"]
    assert listed_ == shown
    less = (await client.get(path(scene.app, new.id) + "?with_content=false")).json()
    assert (less["payload"], less["payloadSize"]) == ({}, None)


async def test_a_payload_that_is_still_needed_is_expunged_by_force_alone(client: Client, scene: Scene) -> None:
    await scene.endpoint()
    waiting, dead = await scene.send(2)
    jobs = {job.message_id: job for job in await scene.claim_all()}
    await scene.record(factory.retry(jobs[waiting], after=0.001), factory.dead(jobs[dead]))
    for ref in (waiting, dead):
        assert "force" in (await expunge(client, scene.app, ref)).problem(409, "conflict")
        assert "force" in (await expunge(client, scene.app, ref, "?force=false")).problem(409, "conflict")
        kept = await scene.store.history.message_by_id(ref)
        assert kept is not None
        assert kept.payload is not None
    assert (await expunge(client, scene.app, waiting, "?force=true")).status == 204
    await scene.age(1)
    assert await scene.claim_all() == []
    assert await scene.state(waiting) == DeliveryState.DEAD
    await scene.store.repair.resolve(DeadFilter(app_no=scene.app.no), "not worth it")
    assert (await expunge(client, scene.app, dead)).status == 204
    assert len(await scene.store.repair.dead_letters(DeadFilter(resolved=True), Page())) == 2


async def test_a_bad_force_changes_nothing(client: Client, scene: Scene) -> None:
    (sent,) = await scene.send()
    (await expunge(client, scene.app, sent, "?force=maybe")).problem(400, "bad_request")
    kept = await scene.store.history.message_by_id(sent)
    assert kept is not None
    assert kept.payload is not None


# ── a filter with few matches ──


@pytest.mark.parametrize("kind", ["messages", "attempts", "attempted"])
async def test_a_rare_match_is_found_though_pages_come_empty(client: Client, scene: Scene, kind: str) -> None:
    scene.broken_on_purpose = True
    endpoint = await scene.endpoint()
    await bulk.load(scene.raw, [endpoint])
    rare = f"msg_{7:027d}"
    await scene.raw.execute("UPDATE message SET event_type = 'rare' WHERE id = $1", rare)
    await scene.raw.execute("UPDATE attempt SET event_type = 'rare' WHERE message_id = $1", rare)
    where = {
        "messages": path(scene.app),
        "attempts": f"/api/v1/app/{scene.app.id}/attempt/endpoint/{endpoint.id}",
        "attempted": f"/api/v1/app/{scene.app.id}/endpoint/{endpoint.id}/msg",
    }[kind] + "?event_types=rare"
    pages = [(await client.get(where)).json()]
    while not pages[-1]["done"]:
        pages.append((await client.get(f"{where}&iterator={pages[-1]['iterator']}")).json())
    (found,) = [each for page in pages for each in page["data"]]
    assert rare in (found["id"], found.get("msgId"))
    assert len(pages) > 5
    assert pages[0]["data"] == []

    oldest = ("msg_" if kind == "messages" else "atmpt_") + "0" * 27
    back = [(await client.get(f"{where}&iterator=-{oldest}")).json()]
    while not back[-1]["done"]:
        back.append((await client.get(f"{where}&iterator={back[-1]['prevIterator']}")).json())
    assert [each for page in back for each in page["data"]] == [found]
    assert len(back) > 5
