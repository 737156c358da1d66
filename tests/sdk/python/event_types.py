from __future__ import annotations

from typing import Any

import sdk
from svix import api
from world import World, ids, walk

SCHEMAS = {"1": {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}}


def made_found_and_changed(world: World) -> None:
    svix = world.svix
    made = world.event_type(schemas=SCHEMAS, group_name="orders", feature_flags=["beta"])
    assert (made.description, made.schemas, made.group_name) == ("Paid", SCHEMAS, "orders")
    assert (made.feature_flags, made.archived, made.deprecated) == (["beta"], False, False)
    assert svix.event_type.get(made.name) == made
    sdk.refused(409, "conflict", svix.event_type.create, api.EventTypeIn(name=made.name, description="Again"))

    upsert = sdk.first(svix.event_type, "upsert", "update")
    put = upsert(made.name, sdk.EventTypeUpsert(description="Put", deprecated=True))
    assert (put.name, put.description, put.deprecated, put.group_name) == (made.name, "Put", True, None)
    new = world.fresh("order.refunded")
    assert upsert(new, sdk.EventTypeUpsert(description="New by PUT")).name == new
    assert svix.event_type.get(new).description == "New by PUT"


def patched(world: World) -> None:
    svix = world.svix
    made = world.event_type(schemas=SCHEMAS, group_name="orders")
    described = svix.event_type.patch(made.name, api.EventTypePatch(description="Patched"))
    assert (described.description, described.schemas, described.group_name) == ("Patched", SCHEMAS, "orders")
    cleared = svix.event_type.patch(made.name, api.EventTypePatch(schemas=None, group_name=None))
    assert (cleared.description, cleared.schemas, cleared.group_name) == ("Patched", None, None)


def archived_and_expunged(world: World) -> None:
    svix = world.svix
    made = world.event_type()
    svix.event_type.delete(made.name)
    assert svix.event_type.get(made.name).archived is True
    assert made.name not in _listed(world)
    assert made.name in _listed(world, include_archived=True)

    again = svix.event_type.create(api.EventTypeIn(name=made.name, description="Back"))
    assert (again.description, again.archived) == ("Back", False)
    assert made.name in _listed(world)

    svix.event_type.delete(made.name, api.EventTypeDeleteOptions(expunge=True))
    sdk.refused(404, "not_found", svix.event_type.get, made.name)
    assert made.name not in _listed(world, include_archived=True)


def listed_in_both_orders_and_directions(world: World) -> None:
    mine = {world.event_type(schemas=SCHEMAS).name for _ in range(5)}
    ascending = _listed(world, order=api.Ordering.ASCENDING)
    assert mine <= set(ascending)
    assert ascending == sorted(ascending)
    assert _listed(world, order=api.Ordering.DESCENDING) == ascending[::-1]

    def schemas(*, with_content: bool) -> list[Any]:
        rows = walk(world.svix.event_type.list, api.EventTypeListOptions, with_content=with_content)
        return [row.schemas for row in rows if row.name in mine]

    assert schemas(with_content=True) == [SCHEMAS] * 5
    assert schemas(with_content=False) == [None] * 5


def refused(world: World) -> None:
    svix = world.svix
    sdk.refused(404, "not_found", svix.event_type.get, "no.such.type")
    sdk.refused(404, "not_found", svix.event_type.patch, "no.such.type", api.EventTypePatch(description="x"))
    sdk.refused(404, "not_found", svix.event_type.delete, "no.such.type")
    sdk.invalid(svix.event_type.create, api.EventTypeIn(name="not a name", description="x"))
    sdk.invalid(
        svix.event_type.create, api.EventTypeIn(name=world.fresh("x"), description="x", schemas={"1": {"type": 7}})
    )


def _listed(world: World, **fields: Any) -> list[str]:
    return ids(walk(world.svix.event_type.list, api.EventTypeListOptions, **fields))


CHECKS = (
    made_found_and_changed,
    patched,
    archived_and_expunged,
    listed_in_both_orders_and_directions,
    refused,
)
