from __future__ import annotations

from typing import Any

import sdk
from svix import api
from world import World, ids, walk


def made_found_and_changed(world: World) -> None:
    svix, uid = world.svix, world.fresh("customer")
    made = world.application(uid=uid, metadata={"plan": "gold"})
    assert made.id.startswith("app_")
    assert (made.name, made.uid, made.metadata) == ("Made for a check", uid, {"plan": "gold"})
    assert made.created_at.tzinfo is not None
    assert svix.application.get(made.id) == svix.application.get(uid) == made

    upsert = sdk.first(svix.application, "upsert", "update")
    renamed = upsert(uid, api.ApplicationIn(name="Renamed", uid=uid))
    assert (renamed.id, renamed.name, renamed.metadata) == (made.id, "Renamed", {})
    assert renamed.updated_at >= made.updated_at

    other = world.fresh("customer")
    put = upsert(other, api.ApplicationIn(name="New by PUT", uid=other))
    assert put.id != made.id
    assert svix.application.get(other).name == "New by PUT"


def patched(world: World) -> None:
    svix, uid = world.svix, world.fresh("customer")
    made = world.application(uid=uid, metadata={"plan": "gold"})
    named = svix.application.patch(made.id, api.ApplicationPatch(name="Patched"))
    assert (named.name, named.uid, named.metadata) == ("Patched", uid, {"plan": "gold"})
    cleared = svix.application.patch(uid, api.ApplicationPatch(uid=None))
    assert (cleared.name, cleared.uid, cleared.metadata) == ("Patched", None, {"plan": "gold"})
    sdk.refused(404, "not_found", svix.application.get, uid)


def made_once(world: World) -> None:
    svix, uid = world.svix, world.fresh("customer")
    made = world.application(uid=uid)
    sdk.refused(409, "conflict", svix.application.create, api.ApplicationIn(name="Second", uid=uid))
    assert svix.application.get_or_create(api.ApplicationIn(name="Third", uid=uid)) == made
    other = world.fresh("customer")
    assert svix.application.get_or_create(api.ApplicationIn(name="Fourth", uid=other)).uid == other


def one_key_one_application(world: World) -> None:
    svix = world.svix
    options = api.ApplicationCreateOptions(idempotency_key=world.fresh("key"))
    made = svix.application.create(api.ApplicationIn(name="Once"), options)
    assert svix.application.create(api.ApplicationIn(name="Once"), options) == made
    sdk.invalid(svix.application.create, api.ApplicationIn(name="Another"), options)
    listed = walk(svix.application.list, api.ApplicationListOptions)
    assert [app.id for app in listed if app.name in {"Once", "Another"}] == [made.id]


def listed_in_both_orders_and_directions(world: World) -> None:
    mine = {world.application(uid=world.fresh("listed")).id for _ in range(5)}

    def listed(order: Any) -> list[str]:
        return ids(walk(world.svix.application.list, api.ApplicationListOptions, order=order))

    ascending = listed(api.Ordering.ASCENDING)
    assert mine <= set(ascending)
    assert ascending == sorted(ascending)
    assert listed(api.Ordering.DESCENDING) == ascending[::-1]
    assert listed(None) == ascending


def refused(world: World) -> None:
    svix = world.svix
    sdk.refused(404, "not_found", svix.application.get, "app_2bYFAkeAndNotThere0000000000")
    sdk.refused(404, "not_found", svix.application.delete, "nobody")
    sdk.refused(404, "not_found", svix.application.patch, "nobody", api.ApplicationPatch(name="x"))
    sdk.invalid(svix.application.create, api.ApplicationIn(name=""))
    sdk.invalid(svix.application.create, api.ApplicationIn(name="x", uid="not a uid"))
    sdk.invalid(svix.application.list, api.ApplicationListOptions(limit=251))
    sdk.refused(401, "authentication_failed", world.client("not.a.token").application.list)


def deleted(world: World) -> None:
    svix, uid = world.svix, world.fresh("customer")
    made = world.application(uid=uid)
    assert svix.application.delete(uid) is None
    for name in (uid, made.id):
        sdk.refused(404, "not_found", svix.application.get, name)
    assert world.application(uid=uid).id != made.id


CHECKS = (
    made_found_and_changed,
    patched,
    made_once,
    one_key_one_application,
    listed_in_both_orders_and_directions,
    refused,
    deleted,
)
