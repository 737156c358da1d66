"""Operational webhooks. All checks share the organization, so each check subscribes to its own events and unsubscribes."""

from __future__ import annotations

from typing import Any

import sdk
from endpoints import KEYS
from sdk import FILTER
from svix import api
from world import World, ids, walk


def made_found_changed_and_deleted(world: World) -> None:
    operational, uid = world.svix.operational_webhook.endpoint, world.fresh("operational")
    url = world.receiver.url(world.path())
    new = {"url": url, "uid": uid, "description": "Pager", "throttle_rate": 9, "metadata": {"team": "red"}}
    made = operational.create(api.OperationalWebhookEndpointIn(**new, **{FILTER: ["endpoint.disabled"]}))
    assert made.id.startswith("ep_")
    assert (made.url, made.uid, made.description, made.throttle_rate) == (url, uid, "Pager", 9)
    assert (made.metadata, made.disabled, getattr(made, FILTER)) == ({"team": "red"}, False, ["endpoint.disabled"])
    assert operational.get(made.id) == operational.get(uid) == made

    upsert = sdk.first(operational, "upsert", "update")
    put = upsert(uid, sdk.OperationalUpsert(url=url + "/moved", uid=uid, disabled=True))
    assert (put.id, put.url, put.disabled, put.description) == (made.id, url + "/moved", True, "")
    other = world.fresh("operational")
    others = upsert(other, sdk.OperationalUpsert(url=url, uid=other, disabled=True))
    assert others.uid == other

    listed = walk(operational.list, api.OperationalWebhookEndpointListOptions)
    assert {made.id, others.id} <= set(ids(listed))
    sdk.invalid(operational.create, api.OperationalWebhookEndpointIn(url=url, **{FILTER: ["order.paid"]}))
    for each in (made, others):
        operational.delete(each.id)
        sdk.refused(404, "not_found", operational.get, each.id)


def secret_and_headers(world: World) -> None:
    operational = world.svix.operational_webhook.endpoint
    url = world.receiver.url(world.path())
    made = operational.create(api.OperationalWebhookEndpointIn(url=url, secret=KEYS[0], disabled=True))
    assert operational.get_secret(made.id).key == KEYS[0]
    operational.rotate_secret(made.id, api.OperationalWebhookEndpointSecretIn(key=KEYS[1]))
    assert operational.get_secret(made.id).key == KEYS[1]
    put_headers = sdk.first(operational, "set_headers", "update_headers")
    put_headers(made.id, api.OperationalWebhookEndpointHeadersIn(headers={"X-Team": "red", "X-Token": "s3cr3t"}))
    shown = operational.get_headers(made.id)
    assert (shown.headers, shown.sensitive) == ({"X-Team": "red"}, ["X-Token"])
    operational.delete(made.id)


def changes_are_sent_as_events_and_verified(world: World) -> None:
    operational, path = world.svix.operational_webhook.endpoint, world.path()
    kinds = ["endpoint.created", "message.attempt.exhausted"]
    listener = operational.create(
        api.OperationalWebhookEndpointIn(url=world.receiver.url(path), secret=KEYS[0], **{FILTER: kinds})
    )
    app, refusing = world.application(uid=world.fresh("customer")), world.path()
    world.receiver.answer(refusing, (400, b"no"))
    endpoint = world.endpoint(app, refusing)
    message = world.send(app, event_id=world.fresh("event"))
    events = {each["type"]: each["data"] for each in _events_of(world, path, app, 2)}
    operational.delete(listener.id)
    who = {"appId": app.id, "appUid": app.uid, "endpointId": endpoint.id, "endpointUid": None}
    assert events["endpoint.created"] == who
    exhausted = events["message.attempt.exhausted"]
    assert who.items() <= exhausted.items()
    assert (exhausted["msgId"], exhausted["msgEventId"]) == (message.id, message.event_id)
    (attempt,) = world.attempts(app, message, 1)
    last = exhausted["lastAttempt"]
    assert (last["id"], last["responseStatusCode"]) == (attempt.id, 400)


def _events_of(world: World, path: str, app: Any, count: int) -> list[Any]:
    """Wait at `path` for `count` events of `app` and return them. Other checks may cause events too."""
    found: list[Any] = []
    while len(found) < count:
        arrival = world.receiver.next(path)
        assert arrival.verified_by(KEYS[0])
        if arrival.payload["data"]["appId"] == app.id:
            found.append(arrival.payload)
    return found


CHECKS = (made_found_changed_and_deleted, secret_and_headers, changes_are_sent_as_events_and_verified)
