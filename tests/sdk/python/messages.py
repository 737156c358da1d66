from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import sdk
from sdk import FILTER
from svix import api
from svix.api.message import message_in_raw
from world import World, ago, ids, newest_first, walk

WITH_CONTENT = api.MessageGetOptions(with_content=True)


def delivered_and_verified(world: World) -> None:
    svix, app, path = world.svix, world.application(), world.path()
    endpoint = world.endpoint(app, path)
    payload = {"name": "Żółć 🚲", "deep": {"list": [1, 2.5, None, True]}, "amount": 2**53}
    options = api.MessageCreateOptions(with_content=True)
    body = api.MessageIn(event_type="order.paid", payload=payload, event_id="first", channels=["north"], tags=["vip"])
    sent = svix.message.create(app.id, body, options)
    assert sent.id.startswith("msg_")
    assert (sent.event_type, sent.event_id, sent.payload) == ("order.paid", "first", payload)
    assert (sent.channels, sent.tags) == (["north"], ["vip"])

    arrival = world.receiver.next(path)
    assert (arrival.id, arrival.payload) == (sent.id, payload)
    assert arrival.headers["content-type"] == "application/json"
    assert arrival.verified_by(world.secret(app, endpoint))
    assert svix.message.get(app.id, sent.id, WITH_CONTENT) == sent
    assert svix.message.get(app.id, "first", WITH_CONTENT) == sent


def content_is_left_out_when_asked(world: World) -> None:
    svix, app = world.svix, world.application()
    body = api.MessageIn(event_type="order.paid", payload={"amount": 5})
    sent = svix.message.create(app.id, body, api.MessageCreateOptions(with_content=False))
    assert sent.payload == {}
    assert svix.message.get(app.id, sent.id, api.MessageGetOptions(with_content=False)).payload == {}
    assert svix.message.get(app.id, sent.id, WITH_CONTENT).payload == {"amount": 5}


def routed_by_type_and_channel(world: World) -> None:
    app, kind = world.application(), world.event_type().name
    by_type, by_channel, everything = world.path(), world.path(), world.path()
    world.endpoint(app, by_type, **{FILTER: [kind]})
    world.endpoint(app, by_channel, channels=["north"])
    world.endpoint(app, everything)
    typed, channelled = world.send(app, kind), world.send(app, channels=["north", "west"])
    assert world.receiver.next(by_type).id == typed.id
    assert world.receiver.next(by_channel).id == channelled.id
    assert {world.receiver.next(everything).id for _ in range(2)} == {typed.id, channelled.id}
    assert world.receiver.nothing_more(by_type)
    assert world.receiver.nothing_more(by_channel)


def one_key_one_message(world: World) -> None:
    svix, app, path = world.svix, world.application(), world.path()
    world.endpoint(app, path)
    options = api.MessageCreateOptions(idempotency_key=world.fresh("key"))
    body = api.MessageIn(event_type="order.paid", payload={"n": 1})
    sent = svix.message.create(app.id, body, options)
    assert svix.message.create(app.id, body, options).id == sent.id
    sdk.invalid(svix.message.create, app.id, api.MessageIn(event_type="order.paid", payload={"n": 2}), options)
    assert world.receiver.next(path).id == sent.id
    assert ids(svix.message.list(app.id).data) == [sent.id]


def one_event_id_one_message(world: World) -> None:
    svix, app = world.svix, world.application()
    world.send(app, event_id="order-7")
    again = api.MessageIn(event_type="order.paid", payload={}, event_id="order-7")
    sdk.refused(409, "conflict", svix.message.create, app.id, again)
    assert world.send(world.application(), event_id="order-7").event_id == "order-7"


def the_application_is_made_with_its_first_message(world: World) -> None:
    svix, uid = world.svix, world.fresh("inline")
    body = api.MessageIn(
        event_type="order.paid", payload={}, application=api.ApplicationIn(name="Made on the way", uid=uid)
    )
    sent = svix.message.create(uid, body)
    assert svix.application.get(uid).name == "Made on the way"
    assert ids(svix.message.list(uid).data) == [sent.id]
    assert svix.message.create(uid, body).id != sent.id


def delivered_later(world: World) -> None:
    app, path = world.application(), world.path()
    world.endpoint(app, path)
    later = ago(days=-1).replace(microsecond=0)
    sent = world.send(app, deliver_at=later)
    assert sent.deliver_at == later
    now = world.send(app)
    assert world.receiver.next(path).id == now.id
    assert world.svix.message_attempt.list_by_msg(app.id, sent.id).data == []


def raw_payloads_are_refused_rather_than_sent_empty(world: World) -> None:
    app = world.application()
    sdk.invalid(world.svix.message.create, app.id, message_in_raw("order.paid", "<order/>", "application/xml"))
    assert world.svix.message.list(app.id).data == []


def listed_with_filters(world: World) -> None:
    app, kind = world.application(), world.event_type().name
    sent = [
        world.send(app, kind, channels=["north"]),
        world.send(app, kind, tags=["vip"]),
        world.send(app, channels=["north", "south"]),
        world.send(app),
        world.send(app),
    ]

    def listed(**fields: Any) -> list[str]:
        return ids(walk(lambda options: world.svix.message.list(app.id, options), api.MessageListOptions, **fields))

    assert listed() == newest_first(sent)
    assert listed(event_types=[kind]) == newest_first(sent[:2])
    assert listed(channel="north") == newest_first([sent[0], sent[2]])
    assert listed(tag="vip") == [sent[1].id]
    assert listed(before=ago(minutes=-5)) == listed(after=ago(minutes=5)) == newest_first(sent)
    assert listed(before=ago(minutes=5)) == listed(after=ago(minutes=-5)) == []
    options = api.MessageListOptions(with_content=True)
    assert [row.payload for row in world.svix.message.list(app.id, options).data] == [{"amount": 1042}] * 5
    options = api.MessageListOptions(with_content=False)
    assert [row.payload for row in world.svix.message.list(app.id, options).data] == [{}] * 5


def content_is_expunged(world: World) -> None:
    svix, app, path = world.svix, world.application(), world.path()
    endpoint = world.endpoint(app, path)
    sent = world.send(app, payload={"card": "4242"})
    world.receiver.next(path)
    world.attempts(app, sent, 1)
    assert svix.message.expunge_content(app.id, sent.id) is None
    left = svix.message.get(app.id, sent.id, WITH_CONTENT)
    assert (left.id, left.event_type) == (sent.id, "order.paid")
    assert "4242" not in str(left.payload)
    sdk.raised((sdk.HttpError, sdk.HTTPValidationError), svix.message_attempt.resend, app.id, sent.id, endpoint.id)
    assert world.receiver.nothing_more(path)


def refused(world: World) -> None:
    svix, app = world.svix, world.application()
    body = api.MessageIn(event_type="order.paid", payload={})
    sdk.refused(404, "not_found", svix.message.create, "nobody", body)
    sdk.refused(404, "not_found", svix.message.get, app.id, "msg_2bYFAkeAndNotThere0000000000")
    sdk.refused(404, "not_found", svix.message.expunge_content, app.id, "msg_2bYFAkeAndNotThere0000000000")
    sdk.invalid(svix.message.create, app.id, api.MessageIn(event_type="not a type", payload={}))
    sdk.invalid(svix.message.create, app.id, api.MessageIn(event_type="x", payload={}, channels=["not a channel"]))
    sdk.refused(404, "not_found", svix.message.get, world.application().id, world.send(app).id)


def many_at_once_with_the_asynchronous_client(world: World) -> None:
    app, path = world.application(), world.path()
    world.endpoint(app, path)

    async def send() -> list[Any]:
        client = api.SvixAsync(world.token, world.options())
        bodies = [api.MessageIn(event_type="order.paid", payload={"n": n}) for n in range(20)]
        return await asyncio.gather(*(client.message.create(app.id, body) for body in bodies))

    sent = asyncio.run(send())
    assert {world.receiver.next(path).id for _ in range(20)} == set(ids(sent))
    assert len(set(ids(sent))) == 20
    assert max(row.timestamp for row in sent) - min(row.timestamp for row in sent) < timedelta(minutes=1)


CHECKS = (
    delivered_and_verified,
    content_is_left_out_when_asked,
    routed_by_type_and_channel,
    one_key_one_message,
    one_event_id_one_message,
    the_application_is_made_with_its_first_message,
    delivered_later,
    raw_payloads_are_refused_rather_than_sent_empty,
    listed_with_filters,
    content_is_expunged,
    refused,
    many_at_once_with_the_asynchronous_client,
)
