"""Attempts over HTTP: listed by endpoint and by message, shown one by one; delivery states and resend."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from hookline.model.catalogue import Application
from hookline.model.deliveries import LeasedDelivery
from hookline.model.endpoints import Endpoint
from hookline.model.states import EndpointStatus, ErrorKind
from hookline.model.verdicts import Result
from hookline.store import Store
from tests.api.conftest import Answer, Client
from tests.support import factory
from tests.support.scene import Scene

REQUIRED = {
    "endpointId", "id", "msgId", "response", "responseDurationMs", "responseStatusCode", "status", "statusText",
    "timestamp", "triggerType", "url",
}  # fmt: skip


def base(app: Application) -> str:
    return f"/api/v1/app/{app.id}"


def at_endpoint(endpoint: Endpoint) -> str:
    return f"/api/v1/app/{endpoint.app_id}/attempt/endpoint/{endpoint.id}"


def of_message(app: Application, message: str) -> str:
    return f"{base(app)}/attempt/msg/{message}"


async def keys(client: Client, where: str) -> list[str]:
    """Read the listing at `where` page by page, and return the ids of all rows."""
    join = "&" if "?" in where else "?"
    seen: list[str] = []
    page = (await client.get(f"{where}{join}limit=2")).json()
    while True:
        seen += [each["id"] for each in page["data"]]
        if page["done"]:
            return seen
        page = (await client.get(f"{where}{join}limit=2&iterator={page['iterator']}")).json()


async def by_message(scene: Scene) -> dict[str, LeasedDelivery]:
    return {job.message_id: job for job in await scene.claim_all()}


def no_answer(job: LeasedDelivery, kind: ErrorKind = ErrorKind.TIMEOUT) -> Result:
    like = factory.retry(job, after=900)
    return factory.result(job, like.judgement.verdict, like.judgement.health, factory.failed(kind))


async def resend(client: Client, app: Application, message: str, endpoint: str) -> Answer:
    return await client.post(f"{base(app)}/msg/{message}/endpoint/{endpoint}/resend", b"")


# ── fields of an attempt ──


async def test_an_attempt_shows_every_field(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint(uid="warehouse")
    (message,) = await scene.send()
    (job,) = await scene.claim()
    result = factory.retry(job)
    await scene.record(result)
    (shown,) = (await client.get(at_endpoint(endpoint))).json()["data"]
    sent = result.sent
    assert shown.keys() >= REQUIRED
    assert (
        shown.items()
        >= {
            "id": result.attempt_id,
            "msgId": message,
            "endpointId": endpoint.id,
            "url": endpoint.url,
            "eventType": "order.paid",
            "responseStatusCode": 503,
            "responseDurationMs": sent.timing.total // 1000,
            "status": 2,
            "statusText": "fail",
            "triggerType": 0,
            "outcome": "retry",
            "number": 1,
            "probe": False,
            "truncated": True,
            "error": None,
            "detail": sent.detail,
            "address": sent.address,
            "responseHeaders": sent.headers,
        }.items()
    )
    phases = {"dns": 11, "connect": sent.timing.connect, "tls": 3_400, "firstByte": 45_000, "total": sent.timing.total}
    assert shown["micros"] == phases
    assert (base64.b64decode(shown["response"]), shown["responseBase64"]) == (sent.body, True)
    assert "msg" not in shown
    for where in (of_message(scene.app, message), f"{base(scene.app)}/attempt/endpoint/warehouse/"):
        assert (await client.get(where)).json()["data"] == [shown]
    assert (await client.get(f"{base(scene.app)}/msg/{message}/attempt/{result.attempt_id}")).json() == shown


async def test_a_text_is_shown_as_it_is(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send()
    (job,) = await scene.claim()
    await scene.record(factory.delivered(job, body="schön\x00 {}".encode()))
    (shown,) = (await client.get(at_endpoint(endpoint))).json()["data"]
    assert (shown["response"], shown["responseBase64"], shown["status"]) == ("schön\x00 {}", False, 0)
    assert (shown["statusText"], shown["outcome"]) == ("success", "delivered")


async def test_no_response_is_the_code_zero(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send()
    (job,) = await scene.claim()
    await scene.record(no_answer(job, ErrorKind.DNS))
    (shown,) = (await client.get(at_endpoint(endpoint) + "?status_code_class=0")).json()["data"]
    assert (shown["responseStatusCode"], shown["error"], shown["response"]) == (0, "dns", "")


async def test_attempts_come_with_their_message_where_asked_for(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    new = factory.new_message(scene.app.no, event_id="evt-1", channels=("eu",))
    await scene.ingest([new])
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    for where in (at_endpoint(endpoint), of_message(scene.app, "evt-1")):
        (shown,) = (await client.get(where + "?with_msg=true")).json()["data"]
        assert (shown["msg"]["id"], shown["msg"]["eventId"], shown["msg"]["channels"]) == (new.id, "evt-1", ["eu"])
        assert (shown["msg"]["payload"], shown["msg"]["payloadSize"]) == ({}, len(new.payload))
    await scene.raw.execute("DELETE FROM message")  # as if retention had deleted it
    (left,) = (await client.get(at_endpoint(endpoint) + "?with_msg=true")).json()["data"]
    assert (left["msgId"], "msg" in left) == (new.id, False)


async def test_content_can_be_left_out(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    (message,) = await scene.send()
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    for where in (at_endpoint(endpoint), of_message(scene.app, message)):
        (shown,) = (await client.get(where + "?with_content=false")).json()["data"]
        assert (shown["response"], shown["responseHeaders"]) == ("", {})
        assert shown["responseStatusCode"] == 200


# ── listings ──


async def test_attempts_are_filtered(client: Client, scene: Scene) -> None:
    endpoint, _ = await scene.endpoint(), await scene.endpoint()
    new = [
        factory.new_message(scene.app.no, event_type=kind, channels=channels, tags=tags)
        for kind, channels, tags in (
            ("a", ("eu",), None),
            ("a", None, ("x",)),
            ("b", ("us",), ("x",)),
            ("b", None, None),
        )
    ]
    await scene.ingest(new)
    jobs = {job.message_id: job for job in await scene.claim_all() if job.endpoint_no == endpoint.no}
    makers = (factory.delivered, factory.retry, factory.dead, no_answer)
    results = [maker(jobs[message.id]) for maker, message in zip(makers, new, strict=True)]
    await scene.record(*results)

    async def found(query: str) -> set[int]:
        seen = await keys(client, f"{at_endpoint(endpoint)}?{query}")
        assert seen == sorted(seen, reverse=True)
        return {n for n, result in enumerate(results) if result.attempt_id in seen}

    assert await found("") == {0, 1, 2, 3}
    assert await found("status=0") == {0}
    assert await found("status=2") == {1, 2, 3}
    assert await found("status=1") == await found("status=3") == set()
    assert await found("status_code_class=500") == {1}
    assert await found("status_code_class=400") == {2}
    assert await found("status_code_class=0") == {3}
    assert await found("status_code_class=200&status=0") == {0}
    assert await found("event_types=a") == {0, 1}
    assert await found("event_types=a,b") == {0, 1, 2, 3}
    assert await found("channel=us") == {2}
    assert await found("tag=x") == {1, 2}
    assert await found("tag=x&status=2&event_types=a") == {1}
    now = await scene.store.now()
    hour_ago, soon = (quote((now + timedelta(hours=n)).isoformat()) for n in (-1, 1))
    assert await found(f"after={hour_ago}&before={soon}") == {0, 1, 2, 3}
    assert await found(f"after={soon}") == await found(f"before={hour_ago}") == set()


async def test_attempts_of_a_message_are_filtered(client: Client, scene: Scene) -> None:
    one, two = await scene.endpoint(uid="one"), await scene.endpoint()
    new = factory.new_message(scene.app.no, event_id="evt-1", event_type="a", channels=("eu",), tags=("x",))
    await scene.ingest([new])
    jobs = {job.endpoint_no: job for job in await scene.claim_all()}
    good, bad = factory.delivered(jobs[one.no]), factory.dead(jobs[two.no])
    await scene.record(good, bad)

    async def found(query: str) -> set[str]:
        return set(await keys(client, f"{of_message(scene.app, 'evt-1')}?{query}"))

    both = {good.attempt_id, bad.attempt_id}
    assert await found("") == await found("channel=eu&tag=x&event_types=a") == both
    assert await found("channel=us") == await found("tag=y") == await found("event_types=b") == set()
    assert await found("status=1") == await found("status_code_class=500") == set()
    assert await found("status=0") == await found("endpoint_id=one") == {good.attempt_id}
    assert await found("status=2") == await found(f"endpoint_id={two.id}") == {bad.attempt_id}
    assert await found("status=0&endpoint_id=" + two.id) == set()


async def test_listings_can_be_paged_backwards(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    await scene.send(5)
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    for where in (at_endpoint(endpoint), f"{base(scene.app)}/endpoint/{endpoint.id}/msg"):
        first = (await client.get(where + "?limit=2")).json()
        second = (await client.get(f"{where}?limit=2&iterator={first['iterator']}")).json()
        third = (await client.get(f"{where}?limit=2&iterator={second['iterator']}")).json()
        assert [page["done"] for page in (first, second, third)] == [False, False, True]
        assert [len(page["data"]) for page in (first, second, third)] == [2, 2, 1]
        back = (await client.get(f"{where}?limit=2&iterator={third['prevIterator']}")).json()
        assert (back["data"], back["done"]) == (second["data"], False)
        start = (await client.get(f"{where}?limit=2&iterator={back['prevIterator']}")).json()
        assert (start["data"], start["done"]) == (first["data"], True)


BAD = [
    "status=7",
    "status=x",
    "status=",
    "status=99999999999999999999999999",
    "status_code_class=201",
    "status_code_class=-100",
    "before=now",
    "after=2026-01-01T00:00:00",
    "with_msg=2",
    "with_content=%00",
    "endpoint_id=%00",
]


@pytest.mark.parametrize("query", BAD)
async def test_bad_parameters_are_a_400(client: Client, scene: Scene, query: str) -> None:
    (message,) = await scene.send()
    (await client.get(f"{of_message(scene.app, message)}?{query}")).problem(400, "bad_request")


@pytest.mark.parametrize("query", ["iterator=x", "iterator=msg_2gPVnTSC8oBVtHFTK3mLSn4Bz0K", "channel=ü", "limit=0"])
async def test_parameters_out_of_bounds_are_a_422(client: Client, scene: Scene, query: str) -> None:
    endpoint = await scene.endpoint()
    (message,) = await scene.send()
    query = quote(query, safe="=")
    for where in (
        at_endpoint(endpoint),
        of_message(scene.app, message),
        f"{base(scene.app)}/endpoint/{endpoint.id}/msg",
    ):
        assert (await client.get(f"{where}?{query}")).faults()


# ── messages attempted at an endpoint ──


async def test_messages_that_were_tried_show_where_they_stand(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    delivered, waiting, dead, untried = await scene.send(4)
    jobs = await by_message(scene)
    await scene.record(
        factory.delivered(jobs[delivered]), factory.retry(jobs[waiting], after=900), factory.dead(jobs[dead])
    )
    where = f"{base(scene.app)}/endpoint/{endpoint.id}/msg"
    rows = {each["id"]: each for each in (await client.get(where)).json()["data"]}
    assert {id_: (row["status"], row["statusText"]) for id_, row in rows.items()} == {
        delivered: (0, "success"),
        waiting: (1, "pending"),
        dead: (2, "fail"),
    }
    assert untried not in rows
    assert rows[waiting]["nextAttempt"] is not None
    assert rows[delivered]["nextAttempt"] is None
    for row in rows.values():
        assert row.keys() >= {"eventType", "id", "payload", "status", "statusText", "timestamp", "firstAttempt"}
        assert row["payload"]["order"] > 0
    for status, expected in ((0, [delivered]), (1, [waiting]), (2, [dead]), (3, [])):
        assert await keys(client, f"{where}?status={status}") == expected
    (one, *_) = (await client.get(where + "?with_content=false")).json()["data"]
    assert (one["payload"], one["payloadSize"] > 0) == ({}, True)
    (await resend(client, scene.app, delivered, endpoint.id)).json(202)
    (job,) = [job for job in await scene.claim_all() if job.message_id == delivered]
    assert await keys(client, f"{where}?status=3") == [delivered]  # an attempt of this message is in progress
    await scene.record(factory.delivered(job))


# ── destinations of a message ──


async def test_destinations_of_a_message_show_where_it_stands(client: Client, scene: Scene) -> None:
    endpoints = [await scene.endpoint(uid=f"uid-{n}", throttle_rate=5.0 if n == 0 else None) for n in range(5)]
    (message,) = await scene.send()
    jobs = {job.endpoint_no: job for job in await scene.claim_all()}
    good, later, bad, busy, gone = endpoints
    await scene.record(
        factory.delivered(jobs[good.no]), factory.retry(jobs[later.no], after=900), factory.dead(jobs[bad.no])
    )
    await scene.store.pipeline.release([jobs[gone.no]])
    await scene.store.catalogue.delete_endpoint(gone.no)
    where = f"{base(scene.app)}/msg/{message}/endpoint"
    rows = (await client.get(where)).json()["data"]
    assert [row["id"] for row in rows] == sorted(endpoint.id for endpoint in endpoints)
    shown = {row["uid"]: row for row in rows}
    assert {uid: row["statusText"] for uid, row in shown.items()} == {
        "uid-0": "success",
        "uid-1": "pending",
        "uid-2": "fail",
        "uid-3": "sending",
        "uid-4": "pending",
    }
    for row in rows:
        assert row.keys() >= {"createdAt", "description", "id", "status", "statusText", "updatedAt", "url", "version"}
    assert shown["uid-0"]["throttleRate"] == 5
    assert [row["disabled"] for row in shown.values() if row["deleted"]] == [True]
    assert shown["uid-1"]["nextAttempt"] == shown["uid-1"]["delivery"]["nextAttemptAt"] is not None
    assert shown["uid-2"]["delivery"]["deadLetterId"].startswith("dl_")
    assert busy.id == shown["uid-3"]["id"]

    first = (await client.get(where + "?limit=2")).json()
    second = (await client.get(f"{where}?limit=2&iterator={first['iterator']}")).json()
    third = (await client.get(f"{where}?limit=2&iterator={second['iterator']}")).json()
    assert first["data"] + second["data"] + third["data"] == rows
    assert (first["done"], third["done"]) == (False, True)
    back = (await client.get(f"{where}?limit=2&iterator={third['prevIterator']}")).json()
    assert back["data"] == second["data"]
    assert (await client.get(f"{where}?iterator=x")).faults()


async def test_a_resend_is_the_latest_delivery(client: Client, scene: Scene) -> None:
    endpoint = await scene.endpoint()
    (message,) = await scene.send()
    await scene.record(*(factory.dead(job) for job in await scene.claim_all()))
    (await resend(client, scene.app, message, endpoint.id)).json(202)
    (row,) = (await client.get(f"{base(scene.app)}/msg/{message}/endpoint")).json()["data"]
    assert (row["status"], row["id"]) == (1, endpoint.id)
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    (row,) = (await client.get(f"{base(scene.app)}/msg/{message}/endpoint")).json()["data"]
    assert row["status"] == 0


# ── resend ──


async def test_a_message_is_sent_once_more(client: Client, scene: Scene) -> None:
    endpoint, other = await scene.endpoint(uid="warehouse"), await scene.endpoint()
    new = factory.new_message(scene.app.no, event_id="evt-1")
    await scene.ingest([new])
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    assert (await resend(client, scene.app, "evt-1", "warehouse")).json(202) == {}
    (job,) = await scene.claim_all()
    assert (job.message_id, job.endpoint_no, job.trigger) == (new.id, endpoint.no, 1)
    assert job.payload == new.payload
    await scene.record(factory.delivered(job))
    (newest, _) = (await client.get(at_endpoint(endpoint))).json()["data"]
    assert newest["triggerType"] == 1
    assert len((await client.get(at_endpoint(other))).json()["data"]) == 1


async def test_what_cannot_be_sent_again_is_refused(client: Client, scene: Scene) -> None:
    endpoint, off, gone = await scene.endpoint(), await scene.endpoint(), await scene.endpoint()
    (message,) = await scene.send()
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    await scene.store.catalogue.delete_endpoint(gone.no)
    await scene.store.catalogue.set_endpoint_status(off.no, EndpointStatus.DISABLED, "by hand")
    (await resend(client, scene.app, message, gone.id)).problem(404, "not_found")
    (await resend(client, scene.app, message, "ep_unknown")).problem(404, "not_found")
    (await resend(client, scene.app, "msg_unknown", endpoint.id)).problem(404, "not_found")
    assert "disabled" in (await resend(client, scene.app, message, off.id)).problem(409, "conflict")
    answer = await client.request("DELETE", f"{base(scene.app)}/msg/{message}/content", None, {})
    assert answer.status == 204
    assert "payload" in (await resend(client, scene.app, message, endpoint.id)).problem(409, "conflict")
    assert await scene.raw.count("delivery") == 0


# ── expunge ──


async def test_an_answer_is_removed_for_good(client: Client, scene: Scene) -> None:
    await scene.endpoint()
    (message,) = await scene.send()
    await scene.record(*factory.all_delivered(await scene.claim_all()))
    (before,) = (await client.get(of_message(scene.app, message))).json()["data"]
    where = f"{base(scene.app)}/msg/{message}/attempt/{before['id']}"
    for _ in range(2):
        answer = await client.request("DELETE", f"{where}/content", None, {})
        assert (answer.status, answer.body) == (204, b"")
    after = (await client.get(where)).json()
    assert after == before | {"response": "", "responseBase64": False, "responseHeaders": {}}


# ── tenants ──


async def test_nothing_of_another_application_is_reached(
    client: Client, narrow: Client, store: Store, scene: Scene
) -> None:
    """Every id exists, but it belongs to another application, is used in the wrong path, or the token is another
    tenant's."""
    other = await store.catalogue.create_application(scene.organization.id, factory.new_application())
    theirs = await scene.endpoint(other, uid="theirs")
    own = await scene.endpoint()
    (mine,) = await scene.send()
    message = factory.new_message(other.no, event_id="evt-theirs")
    await scene.ingest([message])
    results = factory.all_delivered(await scene.claim_all())
    await scene.record(*results)
    attempt = {result.job.message_id: result.attempt_id for result in results}

    foreign = [
        ("GET", at_endpoint(own).replace(own.id, theirs.id)),
        ("GET", at_endpoint(own).replace(own.id, "theirs")),
        ("GET", of_message(scene.app, message.id)),
        ("GET", of_message(scene.app, "evt-theirs")),
        ("GET", of_message(scene.app, mine) + f"?endpoint_id={theirs.id}"),
        ("GET", f"{base(scene.app)}/endpoint/{theirs.id}/msg"),
        ("GET", f"{base(scene.app)}/msg/{message.id}/endpoint"),
        ("GET", f"{base(scene.app)}/msg/{message.id}/attempt/{attempt[message.id]}"),
        ("GET", f"{base(scene.app)}/msg/{mine}/attempt/{attempt[message.id]}"),
        ("DELETE", f"{base(scene.app)}/msg/{message.id}/attempt/{attempt[message.id]}/content"),
        ("DELETE", f"{base(scene.app)}/msg/{mine}/attempt/{attempt[message.id]}/content"),
        ("POST", f"{base(scene.app)}/msg/{message.id}/endpoint/{own.id}/resend"),
        ("POST", f"{base(scene.app)}/msg/{mine}/endpoint/{theirs.id}/resend"),
        ("POST", f"{base(scene.app)}/msg/{message.id}/endpoint/{theirs.id}/resend"),
    ]
    for method, where in foreign:
        (await client.request(method, where, None, {})).problem(404, "not_found")
    before = (await client.get(of_message(other, message.id))).json()
    closed = [
        ("GET", at_endpoint(theirs)),
        ("GET", of_message(other, message.id)),
        ("GET", f"{base(other)}/endpoint/{theirs.id}/msg"),
        ("GET", f"{base(other)}/msg/{message.id}/endpoint"),
        ("GET", f"{base(other)}/msg/{message.id}/attempt/{attempt[message.id]}"),
        ("DELETE", f"{base(other)}/msg/{message.id}/attempt/{attempt[message.id]}/content"),
        ("POST", f"{base(other)}/msg/{message.id}/endpoint/{theirs.id}/resend"),
    ]
    for method, where in closed:
        (await narrow.request(method, where, None, {})).problem(404, "not_found")
        (await client.holding(None).request(method, where, None, {})).problem(401, "authentication_failed")
    assert (await client.get(of_message(other, message.id))).json() == before
    assert await scene.raw.count("delivery") == 0


@pytest.mark.parametrize("ref", ["%00", "%0A", "%7F", "..", "%2e%2e", "x" * 300, "%ED%A0%80", "'; --", "%F0%9F%92%A9"])
async def test_strange_ids_are_refused_in_the_documented_shape(client: Client, scene: Scene, ref: str) -> None:
    ref = ref.replace(" ", "%20")
    (message,) = await scene.send()
    for where in (
        f"{base(scene.app)}/attempt/endpoint/{ref}",
        f"{base(scene.app)}/attempt/msg/{ref}",
        f"{base(scene.app)}/msg/{message}/attempt/{ref}",
        f"{base(scene.app)}/msg/{ref}/endpoint",
        f"{base(scene.app)}/endpoint/{ref}/msg",
    ):
        answer: Any = await client.get(where)
        assert answer.status in (400, 404), answer
        assert set(answer.json(answer.status)) == {"code", "detail"}
