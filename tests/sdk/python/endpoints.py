from __future__ import annotations

from typing import Any

import sdk
from sdk import FILTER
from svix import api
from world import World, ids, walk

KEYS = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"]


def made_found_and_changed(world: World) -> None:
    svix, app, uid, path = world.svix, world.application(), world.fresh("endpoint"), world.path()
    kind = world.event_type().name
    made = world.endpoint(
        app,
        path,
        uid=uid,
        description="Orders",
        throttle_rate=20,
        channels=["north", "south"],
        metadata={"team": "red"},
        secret=KEYS[0],
        **{FILTER: [kind]},
    )
    assert made.id.startswith("ep_")
    assert (made.url, made.uid, made.description) == (world.receiver.url(path), uid, "Orders")
    assert (made.throttle_rate, made.metadata, made.disabled) == (20, {"team": "red"}, False)
    assert (set(made.channels), getattr(made, FILTER)) == ({"north", "south"}, [kind])
    assert svix.endpoint.get(app.id, made.id) == svix.endpoint.get(app.id, uid) == made
    assert svix.endpoint.get_secret(app.id, uid).key == KEYS[0]

    upsert = sdk.first(svix.endpoint, "upsert", "update")
    put = upsert(app.id, uid, sdk.EndpointUpsert(url=made.url + "/moved", uid=uid, disabled=True))
    assert (put.id, put.url, put.disabled) == (made.id, made.url + "/moved", True)
    assert (put.description, put.channels, getattr(put, FILTER), put.throttle_rate) == ("", None, None, None)
    other = world.fresh("endpoint")
    assert upsert(app.id, other, sdk.EndpointUpsert(url=made.url, uid=other)).uid == other


def patched(world: World) -> None:
    svix, app, path = world.svix, world.application(), world.path()
    made = world.endpoint(app, path, description="Before", channels=["north"], throttle_rate=20)
    described = svix.endpoint.patch(app.id, made.id, api.EndpointPatch(description="After"))
    assert (described.description, described.channels, described.throttle_rate) == ("After", ["north"], 20)
    cleared = svix.endpoint.patch(app.id, made.id, api.EndpointPatch(channels=None, throttle_rate=None))
    assert (cleared.description, cleared.channels, cleared.throttle_rate) == ("After", None, None)
    kind = world.event_type().name
    narrowed = svix.endpoint.patch(app.id, made.id, api.EndpointPatch(**{FILTER: [kind]}))
    assert getattr(narrowed, FILTER) == [kind]


def listed_in_both_orders_and_directions(world: World) -> None:
    app = world.application()
    mine = sorted(world.endpoint(app, world.path()).id for _ in range(5))

    def listed(order: Any) -> list[str]:
        return ids(
            walk(lambda options: world.svix.endpoint.list(app.id, options), api.EndpointListOptions, order=order)
        )

    assert listed(api.Ordering.ASCENDING) == listed(None) == mine
    assert listed(api.Ordering.DESCENDING) == mine[::-1]


def headers_are_kept_hidden_and_sent(world: World) -> None:
    svix, app, path = world.svix, world.application(), world.path()
    endpoint = world.endpoint(app, path)
    put_headers = sdk.first(svix.endpoint, "set_headers", "update_headers")
    put_headers(app.id, endpoint.id, api.EndpointHeadersIn(headers={"X-Team": "red", "Authorization": "Bearer s3cr3t"}))
    shown = svix.endpoint.get_headers(app.id, endpoint.id)
    assert (shown.headers, shown.sensitive) == ({"X-Team": "red"}, ["Authorization"])

    svix.endpoint.patch_headers(app.id, endpoint.id, api.EndpointHeadersPatchIn(headers={"X-Desk": "7"}))
    assert svix.endpoint.get_headers(app.id, endpoint.id).headers == {"X-Team": "red", "X-Desk": "7"}
    world.send(app)
    arrived = world.receiver.next(path).headers
    assert (arrived["x-team"], arrived["x-desk"], arrived["authorization"]) == ("red", "7", "Bearer s3cr3t")

    without = api.EndpointHeadersPatchIn(headers={}, delete_headers=["X-Team", "Authorization"])
    svix.endpoint.patch_headers(app.id, endpoint.id, without)
    left = svix.endpoint.get_headers(app.id, endpoint.id)
    assert (left.headers, left.sensitive) == ({"X-Desk": "7"}, [])


def secrets_rotate_without_a_gap(world: World) -> None:
    svix, app, path = world.svix, world.application(), world.path()
    endpoint = world.endpoint(app, path)
    made = world.secret(app, endpoint)
    rotation = api.EndpointSecretRotateIn(key=KEYS[1], grace_period_seconds=3600)
    answer = svix.endpoint.rotate_secret(app.id, endpoint.id, rotation)
    assert world.secret(app, endpoint) == KEYS[1]
    assert answer is None or answer.key == KEYS[1]  # the older generation of the SDK does not read the answer
    world.send(app)
    arrival = world.receiver.next(path)
    assert arrival.verified_by(made)
    assert arrival.verified_by(KEYS[1])
    assert not arrival.verified_by(KEYS[0])

    svix.endpoint.rotate_secret(app.id, endpoint.id, api.EndpointSecretRotateIn(grace_period_seconds=0))
    assert world.secret(app, endpoint) not in {made, *KEYS}


def examples_are_sent_to_one_endpoint(world: World) -> None:
    app, path, elsewhere = world.application(), world.path(), world.path()
    endpoint = world.endpoint(app, path)
    world.endpoint(app, elsewhere)
    kind = world.event_type(schemas={"1": {"type": "object", "examples": [{"amount": 7}]}}).name
    sent = world.svix.endpoint.send_example(app.id, endpoint.id, api.EventExampleIn(event_type=kind))
    assert sent.event_type == kind
    arrival = world.receiver.next(path)
    assert (arrival.id, arrival.payload) == (sent.id, {"amount": 7})
    assert arrival.verified_by(world.secret(app, endpoint))
    world.attempts(app, sent, 1)
    destinations = world.svix.message_attempt.list_attempted_destinations(app.id, sent.id).data
    assert ids(destinations) == [endpoint.id]
    assert world.receiver.nothing_more(elsewhere)


def refused(world: World) -> None:
    svix, app, uid = world.svix, world.application(), world.fresh("endpoint")
    url = world.receiver.url("/nowhere")
    world.endpoint(app, "/nowhere", uid=uid)
    sdk.refused(409, "conflict", svix.endpoint.create, app.id, api.EndpointIn(url=url, uid=uid))
    sdk.invalid(svix.endpoint.create, app.id, api.EndpointIn(url="no address"))
    sdk.invalid(svix.endpoint.create, app.id, api.EndpointIn(url="http://10.0.0.1/"))
    sdk.invalid(svix.endpoint.create, app.id, api.EndpointIn(url=url, **{FILTER: ["no.such.type"]}))
    sdk.invalid(svix.endpoint.create, app.id, api.EndpointIn(url=url, secret="whsec_short"))
    for call in (svix.endpoint.get, svix.endpoint.delete, svix.endpoint.get_secret, svix.endpoint.get_headers):
        sdk.refused(404, "not_found", call, app.id, "ep_2bYFAkeAndNotThere0000000000")
    stranger = world.application()
    sdk.refused(404, "not_found", svix.endpoint.get, stranger.id, uid)


def disabled_and_deleted(world: World) -> None:
    svix, app, path, elsewhere = world.svix, world.application(), world.path(), world.path()
    disabled, endpoint = world.endpoint(app, path, disabled=True), world.endpoint(app, elsewhere)
    world.send(app)
    world.receiver.next(elsewhere)
    assert svix.endpoint.delete(app.id, endpoint.id) is None
    sdk.refused(404, "not_found", svix.endpoint.get, app.id, endpoint.id)
    assert ids(svix.endpoint.list(app.id).data) == [disabled.id]
    assert world.receiver.nothing_more(path)


CHECKS = (
    made_found_and_changed,
    patched,
    listed_in_both_orders_and_directions,
    headers_are_kept_hidden_and_sent,
    secrets_rotate_without_a_gap,
    examples_are_sent_to_one_endpoint,
    refused,
    disabled_and_deleted,
)
