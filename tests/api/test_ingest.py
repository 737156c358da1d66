"""Accepting messages: single, in batches, with idempotency keys, and with invalid input."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hookline.model.policy import PolicyOverride
from hookline.model.states import DeliveryState
from hookline.store import Store
from hookline.web.context import WebContext
from tests.api.conftest import JWT_SECRET, Answer, Client, serving
from tests.support import factory
from tests.support.scene import Scene

GIVEN = {"eventType": "order.paid", "payload": {"id": 1}}


def path_of(scene: Scene) -> str:
    return f"/api/v1/app/{scene.app.id}/msg"


def batch_path_of(scene: Scene) -> str:
    return f"{path_of(scene)}/batch"


# ── one message ──


async def test_every_field_comes_back_and_is_stored(client: Client, scene: Scene) -> None:
    await scene.endpoint(channels=("eu",))
    deliver_at = await scene.store.now() + timedelta(hours=2)
    given = {
        "eventType": "order.paid",
        "payload": {"amount": 10},
        "eventId": "evt-9",
        "channels": ["eu", "us"],
        "tags": ["größe", "b"],
        "deliverAt": deliver_at.isoformat(),
        "policy": {"maxAttempts": 3, "maxAge": 60.5},
        "orderingKey": "order 9",
        "payloadRetentionPeriod": 90,
        "application": {"name": "not needed: it exists"},
        "transformationsParams": {},
    }
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    sent = (await client.post(path_of(scene), given, traceparent=parent)).json(202)
    found = await scene.store.history.message(scene.app.no, "evt-9")
    assert found is not None
    assert sent == {
        "id": found.id,
        "eventId": "evt-9",
        "eventType": "order.paid",
        "payload": {"amount": 10},
        "channels": ["eu", "us"],
        "tags": ["größe", "b"],
        "timestamp": found.created_at.isoformat().replace("+00:00", "Z"),
        "orderingKey": "order 9",
        "deliverAt": deliver_at.isoformat().replace("+00:00", "Z"),
        "payloadSize": len(b'{"amount":10}'),
        "traceId": "0af7651916cd43dd8448eb211c80319c",
    }
    assert found.ordering_key == "order 9"
    assert (found.deliver_at, found.policy) == (deliver_at, PolicyOverride(max_attempts=3, max_age=60.5))
    delivery = await scene.delivery(found.id)
    assert (delivery.state, delivery.due_at) == (DeliveryState.QUEUED, deliver_at)


async def test_the_payload_is_kept_to_the_byte_and_left_out_if_asked(client: Client, scene: Scene) -> None:
    payload = b'{ "a" :  1.0e2, "b":"\\u00e4\xc3\xa4", "big": 123456789012345678901234567890, "c": [ ] }'
    raw = b'{"eventType": "a.b", "payload": ' + payload + b' , "eventId": "e"}'
    shown = await client.post(path_of(scene), raw)
    assert shown.status == 202
    assert payload in shown.body
    found = await scene.store.history.message(scene.app.no, "e")
    assert found is not None
    assert found.payload == payload
    short = (await client.post(f"{path_of(scene)}?with_content=false", GIVEN)).json(202)
    assert short["payload"] == {}
    assert "with_content" in (await client.post(f"{path_of(scene)}?with_content=maybe", GIVEN)).problem(
        400, "bad_request"
    )


async def test_both_forms_of_the_path_and_both_names_of_the_application(client: Client, scene: Scene) -> None:
    app = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application(uid="acme"))
    for name in ("acme", app.id):
        for slash in ("", "/"):
            (await client.post(f"/api/v1/app/{name}/msg{slash}", GIVEN)).json(202)
            (await client.post(f"/api/v1/app/{name}/msg/batch{slash}", {"messages": [GIVEN]})).json(202)
    assert await scene.raw.count("message", "app_no = $1", app.no) == 8


async def test_an_event_id_is_taken_once(client: Client, scene: Scene) -> None:
    given = GIVEN | {"eventId": "evt-1"}
    first = (await client.post(path_of(scene), given)).json(202)
    assert first["id"] in (await client.post(path_of(scene), given)).problem(409, "conflict")
    assert await scene.raw.count("message") == 1


async def test_the_payload_is_checked_against_its_schema(client: Client, scene: Scene) -> None:
    schema = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}
    await scene.store.catalogue.save_event_type(
        factory.event_type(scene.organization.id, name="order.paid", schemas={"1": schema}, validated=True)
    )
    (await client.post(path_of(scene), GIVEN)).json(202)
    (fault,) = (await client.post(path_of(scene), GIVEN | {"payload": {"id": "one"}})).faults()
    assert "order.paid" in fault["msg"]
    items = [GIVEN | {"payload": {"id": n}} for n in (1, "two", 3)]
    results = (await client.post(batch_path_of(scene), {"messages": items})).json(202)["results"]
    assert [each["status"] for each in results] == [202, 422, 202]
    assert await scene.raw.count("message") == 3


async def test_unsupported_fields_are_named_in_the_error(client: Client, scene: Scene) -> None:
    for field, value in (
        ("payloadRetentionPeriod", 7),
        ("payloadRetentionHours", 5),
        ("transformationsParams", {"rawPayload": "<xml/>", "headers": {"content-type": "text/xml"}}),
    ):
        (fault,) = (await client.post(path_of(scene), GIVEN | {field: value})).faults()
        assert field.removesuffix("Hours").removesuffix("Period") in fault["msg"]
    assert await scene.raw.count("message") == 0


# ── creating the application with the message ──


async def test_the_application_is_created_if_it_does_not_exist(client: Client, scene: Scene) -> None:
    (await client.post("/api/v1/app/globex/msg", GIVEN)).problem(404, "not_found")
    given = GIVEN | {"application": {"name": "Globex", "metadata": {"plan": "gold"}}}
    (await client.post("/api/v1/app/globex/msg", given)).json(202)
    (await client.post("/api/v1/app/globex/msg", given | {"application": {"name": "Other"}})).json(202)
    made = await scene.store.catalogue.application(scene.organization.id, "globex")
    assert made is not None
    assert (made.name, made.metadata) == ("Globex", {"plan": "gold"})
    assert await scene.raw.count("message", "app_no = $1", made.no) == 2
    batch = {"messages": [GIVEN, GIVEN], "application": {"name": "Initech", "uid": "initech"}}
    (await client.post("/api/v1/app/initech/msg/batch", batch)).json(202)
    other = await scene.store.catalogue.application(scene.organization.id, "initech")
    assert other is not None
    assert await scene.raw.count("message", "app_no = $1", other.no) == 2


async def test_an_application_is_not_made_under_another_name(client: Client, narrow: Client, scene: Scene) -> None:
    async def post(path: str, by: Client = client, **application: Any) -> Answer:
        return await by.post(f"/api/v1/app/{path}/msg", GIVEN | {"application": {"name": "n"} | application})

    assert "application.uid" in (await post("hooli", uid="aviato")).faults()[0]["msg"]
    (await post("hooli", metadata={"k": "v\0"})).faults()
    (await post("app_hooli")).problem(404, "not_found")
    (await post("hooli", by=narrow)).problem(404, "not_found")
    assert await scene.raw.count("application") == 1
    assert await scene.raw.count("message") == 0


# ── batches ──


async def test_a_batch_has_a_result_for_each_message_in_order(client: Client, scene: Scene) -> None:
    await scene.endpoint()
    taken = (await client.post(path_of(scene), GIVEN | {"eventId": "taken"})).json(202)["id"]
    items: list[Any] = [
        GIVEN | {"eventId": "a", "tags": ["t"]},
        GIVEN | {"eventId": "taken"},
        {"eventType": "order.paid"},
        GIVEN | {"eventType": 5},
        GIVEN | {"eventType": "no spaces"},
        GIVEN | {"eventId": "a"},
        17,
        GIVEN | {"orderingKey": "k" * 257},
        {"eventType": "x" * 64, "payload": [1, "zwei"], "policy": {"maxAttempts": 2}},
    ]
    results = (await client.post(f"{batch_path_of(scene)}?with_content=true", {"messages": items})).json(202)["results"]
    assert [each["status"] for each in results] == [202, 409, 422, 422, 422, 409, 422, 422, 202]
    assert [sorted(each) for each in results] == [
        ["message" if each["status"] == 202 else "error", "status"] for each in results
    ]
    first, last = results[0]["message"], results[8]["message"]
    assert (first["eventId"], first["tags"], first["payload"]) == ("a", ["t"], {"id": 1})
    assert last["payload"] == [1, "zwei"]
    assert results[1]["error"] == {"code": "conflict", "detail": f"the event id is taken by {taken}"}
    assert first["id"] in results[5]["error"]["detail"]
    assert [results[n]["error"]["code"] for n in (2, 3, 4, 6, 7)] == ["invalid"] * 5
    assert "payload" in results[2]["error"]["detail"]
    assert await scene.raw.count("message") == await scene.raw.count("delivery") == 3
    kept = await scene.store.history.message(scene.app.no, first["id"])
    assert kept is not None
    assert kept.payload == b'{"id":1}'


async def test_a_batch_has_one_to_a_thousand_messages(client: Client, scene: Scene) -> None:
    for items in ([], [GIVEN] * 1001, None, "x", {"a": 1}):
        (await client.post(batch_path_of(scene), {"messages": items})).faults()
    for body in ([GIVEN], {}, {"message": [GIVEN]}):
        (await client.post(batch_path_of(scene), body)).faults()
    assert await scene.raw.count("message") == 0
    results = (await client.post(batch_path_of(scene), {"messages": [GIVEN] * 1000})).json(202)["results"]
    assert len({each["message"]["id"] for each in results}) == 1000
    assert {each["message"]["timestamp"] for each in results} == {results[0]["message"]["timestamp"]}
    assert await scene.raw.count("message") == 1000


async def test_a_payload_of_a_batch_that_is_too_large_fails_alone(
    served: WebContext, client: Client, scene: Scene
) -> None:
    big = {"eventType": "a", "payload": "x" * served.max_payload}
    results = (await client.post(batch_path_of(scene), {"messages": [big, GIVEN]})).json(202)["results"]
    assert [each["status"] for each in results] == [422, 202]


async def test_the_body_of_a_batch_is_bounded(served: WebContext, scene: Scene, token: str) -> None:
    async with serving(replace(served, max_batch=2000)) as address:
        client = Client(address, token)
        (await client.post(batch_path_of(scene), {"messages": [GIVEN] * 100})).problem(413, "payload_too_large")
        (await client.post(batch_path_of(scene), {"messages": [GIVEN] * 10})).json(202)
    assert await scene.raw.count("message") == 10


async def test_text_of_a_batch_that_is_not_utf8_fails_alone(client: Client, scene: Scene) -> None:
    items = [
        b'{"eventType": "a", "payload": "\xff"}',
        b'{"eventType": "\xff", "payload": 1}',
        msgspec.json.encode(GIVEN),
    ]
    answer = await client.post(batch_path_of(scene), b'{"messages": [%s]}' % b",".join(items))
    assert [each["status"] for each in answer.json(202)["results"]] == [422, 422, 202]


async def test_an_application_that_was_deleted_meanwhile(client: Client, scene: Scene) -> None:
    """The API still has the application in its cache, but the store refuses the message."""
    (await client.post(path_of(scene), GIVEN)).json(202)
    await scene.store.catalogue.delete_application(scene.app.no)
    (await client.post(path_of(scene), GIVEN)).problem(404, "not_found")
    app = await scene.store.catalogue.create_application(
        scene.organization.id, factory.new_application(uid="soon-gone")
    )
    (await client.post("/api/v1/app/soon-gone/msg/batch", {"messages": [GIVEN]})).json(202)
    await scene.store.catalogue.delete_application(app.no)
    (await client.post("/api/v1/app/soon-gone/msg/batch", {"messages": [GIVEN]})).problem(404, "not_found")


# ── idempotency keys ──


async def test_the_same_request_again_gets_the_same_answer(client: Client, scene: Scene) -> None:
    first = await client.post(path_of(scene), GIVEN, idempotency_key="k-1")
    again = await client.post(path_of(scene), GIVEN, idempotency_key="k-1")
    assert again.json(202) == first.json(202)
    assert again.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert await scene.raw.count("message") == 1


async def test_the_same_key_with_another_body_is_refused(client: Client, scene: Scene) -> None:
    for path, body, other in (
        (path_of(scene), GIVEN, GIVEN | {"payload": 2}),
        (batch_path_of(scene), {"messages": [GIVEN]}, {"messages": [GIVEN, GIVEN]}),
    ):
        (await client.post(path, body, idempotency_key="k-2")).json(202)
        (fault,) = (await client.post(path, other, idempotency_key="k-2")).faults()
        assert fault["loc"] == ["header", "idempotency-key"]
    assert await scene.raw.count("message") == 2


async def test_a_key_belongs_to_its_organization_application_and_path(
    client: Client, nobody: Client, scene: Scene, store: Store
) -> None:
    sibling = await store.catalogue.create_application(scene.organization.id, factory.new_application())
    for app in (scene.app, sibling):
        (await client.post(f"/api/v1/app/{app.id}/msg", GIVEN, idempotency_key="k-3")).json(202)
    (await client.post(batch_path_of(scene), {"messages": [GIVEN]}, idempotency_key="k-3")).json(202)
    assert await scene.raw.count("message") == 3


async def test_a_key_is_the_same_under_both_names_of_the_application(client: Client, scene: Scene) -> None:
    app = await scene.store.catalogue.create_application(scene.organization.id, factory.new_application(uid="acme"))
    names = (app.id, "acme")
    answers = [await client.post(f"/api/v1/app/{name}/msg", GIVEN, idempotency_key="k-4") for name in names]
    assert answers[0].json(202) == answers[1].json(202)


async def test_a_request_that_was_refused_leaves_its_key_free(client: Client, scene: Scene) -> None:
    for refused in (GIVEN | {"eventType": "no spaces"}, GIVEN | {"eventId": "taken"}):
        await client.post(path_of(scene), GIVEN | {"eventId": "taken"})
        assert (await client.post(path_of(scene), refused, idempotency_key="k-5")).status in (409, 422)
    (await client.post(path_of(scene), GIVEN, idempotency_key="k-5")).json(202)


async def test_a_retry_of_an_accepted_message_is_accepted_after_a_schema_change(
    served: WebContext, client: Client, scene: Scene
) -> None:
    """The caller retries because the first answer was lost. The schema has changed in the meantime."""
    first = await client.post(path_of(scene), GIVEN, idempotency_key="k-7")
    await _tighten_schema(served, scene)
    (await client.post(path_of(scene), GIVEN)).faults()
    again = await client.post(path_of(scene), GIVEN, idempotency_key="k-7")
    assert again.json(202) == first.json(202)
    (fault,) = (await client.post(path_of(scene), GIVEN | {"payload": 2}, idempotency_key="k-7")).faults()
    assert fault["loc"] == ["header", "idempotency-key"]
    assert await scene.raw.count("message") == 1


async def _tighten_schema(served: WebContext, scene: Scene) -> None:
    """Save a schema that refuses every payload, and drop the cached one."""
    schema = {"type": "object", "required": ["nothing has this"]}
    org = scene.organization.id
    await scene.store.catalogue.save_event_type(
        factory.event_type(org, name="order.paid", schemas={"1": schema}, validated=True)
    )
    served.schemas.forget(org, "order.paid")


async def test_the_same_batch_again_gets_the_same_results(served: WebContext, client: Client, scene: Scene) -> None:
    """The results of refused messages stay the same too, although the data has changed."""
    (await client.post(path_of(scene), GIVEN | {"eventId": "taken"})).json(202)
    items = [GIVEN, GIVEN | {"eventId": "taken"}, GIVEN | {"eventType": "no spaces"}, GIVEN | {"eventId": "b"}, 5]
    first = await client.post(batch_path_of(scene), {"messages": items}, idempotency_key="k-6")
    await scene.raw.execute("DELETE FROM event_id")
    await _tighten_schema(served, scene)
    again = await client.post(batch_path_of(scene), {"messages": items}, idempotency_key="k-6")
    assert again.json(202) == first.json(202)
    assert again.headers["idempotent-replayed"] == "true"
    assert await scene.raw.count("message") == 3


async def test_a_key_of_the_wrong_length(client: Client, scene: Scene) -> None:
    for key in ("", "k" * 257):
        for path, body in ((path_of(scene), GIVEN), (batch_path_of(scene), {"messages": [GIVEN]})):
            (await client.post(path, body, idempotency_key=key)).faults()
    assert await scene.raw.count("message") == 0


# ── invalid input ──

HOSTILE: dict[str, tuple[bytes, int]] = {
    "nothing": (b"", 400),
    "not JSON": (b'{"eventType": "a", "payload": {}', 400),
    "two documents": (b'{"eventType": "a", "payload": {}}{}', 400),
    "a number that is none": (b'{"eventType": "a", "payload": NaN}', 400),
    "another encoding": ('{"eventType": "a", "payload": {}}'.encode("utf-16"), 400),
    "a form": (b"eventType=a&payload=%7B%7D", 400),
    "a NUL in the JSON": (b'{"eventType": "a", "payload": "\x00"}', 400),
    "a lone surrogate in the payload": (b'{"eventType": "a", "payload": "\\ud800"}', 400),
    "half a surrogate pair": (b'{"eventType": "a", "payload": "\\ud800\\u0041"}', 400),
    "a lone surrogate in a tag": (b'{"eventType": "a", "payload": 1, "tags": ["\\udfff"]}', 400),
    "bytes that are no UTF-8 in a name": (b'{"eventType": "\xff", "payload": 1}', 400),
    "bytes that are no UTF-8 in the payload": (b'{"eventType": "a", "payload": "\xff"}', 422),
    "deep nesting": (b'{"eventType": "a", "payload": ' + b"[" * 9000 + b"]" * 9000 + b"}", 400),
    "a list": (b"[]", 422),
    "null": (b"null", 422),
    "no payload": (b'{"eventType": "a"}', 422),
    "no event type": (b'{"payload": 1}', 422),
    "an empty event type": (b'{"eventType": "", "payload": 1}', 422),
    "a line break at the end": (b'{"eventType": "a\\n", "payload": 1}', 422),
    "a long event type": (b'{"eventType": "%s", "payload": 1}' % (b"a" * 257), 422),
    "a NUL in a tag": (b'{"eventType": "a", "payload": 1, "tags": ["a\\u0000"]}', 422),
    "a NUL in an event id": (b'{"eventType": "a", "payload": 1, "eventId": "\\u0000"}', 422),
    "an event id like ours": (b'{"eventType": "a", "payload": 1, "eventId": "msg_1"}', 422),
    "too many channels": (b'{"eventType": "a", "payload": 1, "channels": ["1","2","3","4","5","6"]}', 422),
    "no channels": (b'{"eventType": "a", "payload": 1, "channels": []}', 422),
    "a channel twice": (b'{"eventType": "a", "payload": 1, "channels": ["x","x"]}', 422),
    "a time without its offset": (b'{"eventType": "a", "payload": 1, "deliverAt": "2030-01-01T00:00:00"}', 422),
    "a time too far ahead": (b'{"eventType": "a", "payload": 1, "deliverAt": "9999-12-31T23:59:59Z"}', 422),
    "a time that is a number": (b'{"eventType": "a", "payload": 1, "deliverAt": 1e400}', 422),
    "a huge number of attempts": (
        b'{"eventType": "a", "payload": 1, "policy": {"maxAttempts": %s}}' % (b"9" * 400),
        422,
    ),
    "a policy without bounds": (b'{"eventType": "a", "payload": 1, "policy": {"maxAge": 1e308}}', 422),
    "a misspelt policy": (b'{"eventType": "a", "payload": 1, "policy": {"maxAttemps": 3}}', 422),
    "a retention without bounds": (b'{"eventType": "a", "payload": 1, "payloadRetentionPeriod": 1e99}', 422),
    "a wrong application": (b'{"eventType": "a", "payload": 1, "application": {"name": 5}}', 422),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_bodies_change_nothing(client: Client, scene: Scene, name: str) -> None:
    raw, status = HOSTILE[name]
    answer = await client.post(path_of(scene), raw, idempotency_key=f"hostile {name}")
    assert answer.status == status, answer
    _documented(answer)
    batch = await client.post(batch_path_of(scene), b'{"messages": [%s]}' % raw)
    if batch.status == 202:
        (result,) = batch.json(202)["results"]
        assert result["status"] == 422, batch
    else:
        _documented(batch)
    assert await scene.raw.count("message") == await scene.raw.count("idempotency") == 0
    (await client.post(path_of(scene), GIVEN)).json(202)


def _documented(answer: Answer) -> None:
    if answer.status == 422:
        answer.faults()
    else:
        answer.problem(answer.status, "bad_request")


async def test_very_large_numbers_are_passed_on_unchanged(client: Client, scene: Scene) -> None:
    """Hookline passes the payload on unchanged. The receiver must decide about such numbers."""
    numbers = b'{"a": %s, "b": 1e999, "c": -0.0}' % (b"9" * 5000)
    answer = await client.post(path_of(scene), b'{"eventType": "a", "eventId": "n", "payload": %s}' % numbers)
    assert answer.status == 202
    found = await scene.store.history.message(scene.app.no, "n")
    assert found is not None
    assert found.payload == numbers


async def test_a_body_that_is_too_large(served: WebContext, client: Client, scene: Scene) -> None:
    fits = {"eventType": "a", "payload": "x" * (served.max_payload - 2)}
    (await client.post(path_of(scene), fits)).json(202)
    (fault,) = (await client.post(path_of(scene), {"eventType": "a", "payload": "x" * served.max_payload})).faults()
    assert fault["msg"].startswith("payload: ")
    huge = {"eventType": "a", "payload": "x" * (2 * served.max_payload)}
    (await client.post(path_of(scene), huge)).problem(413, "payload_too_large")


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=x", "\xff"]
)
async def test_the_content_type_does_not_matter(client: Client, scene: Scene, kind: str) -> None:
    (await client.post(path_of(scene), GIVEN, content_type=kind)).json(202)


async def test_a_body_in_chunks(address: str, token: str, scene: Scene) -> None:
    """The body has no length, is cut inside a character, or grows without end."""
    body = msgspec.json.encode({"eventType": "a", "payload": {"text": "größe"}, "eventId": "chunked"})
    head = (
        f"POST {path_of(scene)} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\ntransfer-encoding: chunked\r\n"
    )
    pieces = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    found = await _exchange(address, head.encode() + b"connection: close\r\n\r\n" + pieces)
    assert found.startswith(b"HTTP/1.1 202 ")
    kept = await scene.store.history.message(scene.app.no, "chunked")
    assert kept is not None
    assert kept.payload == '{"text":"größe"}'.encode()
    endless = b"10000\r\n" + b"[" * 0x10000 + b"\r\n"
    refused = await _exchange(address, head.encode() + b"\r\n" + endless * 3)
    assert refused.startswith(b"HTTP/1.1 413 ")


async def test_a_body_that_comes_too_slowly(served: WebContext, token: str, scene: Scene) -> None:
    head = f"POST {path_of(scene)} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\ncontent-length: 50\r\n\r\n{{"
    async with serving(replace(served, body_time=0.05)) as address:
        assert (await _exchange(address, head.encode())).startswith(b"HTTP/1.1 408 ")
    assert await scene.raw.count("message") == 0


async def _exchange(address: str, sent: bytes) -> bytes:
    """Send these bytes, and read until one whole answer has arrived."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(sent)
        return await asyncio.wait_for(reader.readuntil(b"}"), 60)
    finally:
        writer.close()


# ── permissions ──


async def test_which_tokens_may_publish(nobody: Client, narrow: Client, scene: Scene, store: Store) -> None:
    sibling = await store.catalogue.create_application(scene.organization.id, factory.new_application())
    for path, body in (("", GIVEN), ("/batch", {"messages": [GIVEN]})):
        (await nobody.post(path_of(scene) + path, body)).problem(401, "authentication_failed")
        wrong = nobody.holding("not a token")
        (await wrong.post(path_of(scene) + path, body)).problem(401, "authentication_failed")
        (await narrow.post(f"/api/v1/app/{sibling.id}/msg{path}", body)).problem(404, "not_found")
        (await narrow.post(path_of(scene) + path, body)).json(202)
    assert await scene.raw.count("message") == 2
    assert JWT_SECRET not in (await nobody.post(path_of(scene), GIVEN)).body.decode()


async def test_other_methods_on_the_path_go_to_the_router(client: Client, scene: Scene) -> None:
    assert (await client.get(path_of(scene))).json()["data"] == []
    assert (await client.request("PUT", path_of(scene), b"{}", {})).status == 405
    assert (await client.request("DELETE", batch_path_of(scene), None, {})).status in (204, 404, 405)
    (await client.post(f"{path_of(scene)}/nothing/here", GIVEN)).problem(404, "not_found")
    answer = await client.post(path_of(scene), GIVEN, x_request_id="mine-1")
    assert answer.headers["x-request-id"] == "mine-1"
    assert answer.headers["cache-control"] == "no-store"
