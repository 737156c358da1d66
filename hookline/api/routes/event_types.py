from __future__ import annotations

from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from hookline.api.call import Call, listing, page_of
from hookline.api.operation import OrderedQuery, Query, operation
from hookline.api.wire import event_types as wire
from hookline.api.wire.base import ListResponse
from hookline.model.catalogue import EventType
from hookline.services import event_types

_ALL = "/event-type"
_ONE = f"{_ALL}/{{event_type_name}}"


class EventTypesQuery(OrderedQuery, frozen=True, kw_only=True):
    include_archived: bool = False
    with_content: bool = False


class DeleteQuery(Query, frozen=True, kw_only=True):
    expunge: bool = False


@operation("POST", _ALL, "v1.event-type.create", status=201, whole=True)
async def create(call: Call, given: wire.EventTypeIn) -> wire.EventTypeOut:
    """Create an event type. It replaces an archived event type of the same name."""
    return wire.event_type(await call.run(event_types.create, _new(call, given.name, wire.event_type_values(given))))


@operation("GET", _ALL, "v1.event-type.list")
async def list_all(call: Call, asked: EventTypesQuery) -> ListResponse[wire.EventTypeOut]:
    """List the event types by name."""
    page = page_of(asked)
    found = await call.run(event_types.page, page, archived=asked.include_archived, content=asked.with_content)
    return listing(found, page, lambda each: wire.event_type(each, with_content=asked.with_content), attrgetter("name"))


@operation("GET", _ONE, "v1.event-type.get")
async def show(call: Call) -> wire.EventTypeOut:
    """Show one event type."""
    return wire.event_type(await call.run(event_types.find, _name(call)))


@operation("PUT", _ONE, "v1.event-type.update", status=(200, 201), whole=True)
async def put(call: Call, given: wire.EventTypeUpdate) -> wire.EventTypeOut:
    """Replace an event type, or create it."""
    values, name = wire.event_type_values(given), _name(call)

    def decide(seen: EventType | None) -> EventType:
        return _new(call, name, values) if seen is None else replace(seen, **values)

    saved, made = await call.run(event_types.put, name, decide)
    call.status = 201 if made else 200
    return wire.event_type(saved)


@operation("PATCH", _ONE, "v1.event-type.patch", whole=True)
async def patch(call: Call, given: wire.EventTypePatch) -> wire.EventTypeOut:
    """Change parts of an event type."""
    values = wire.event_type_values(given)
    return wire.event_type(await call.run(event_types.change, _name(call), lambda seen: replace(seen, **values)))


@operation("DELETE", _ONE, "v1.event-type.delete", whole=True)
async def delete(call: Call, asked: DeleteQuery) -> None:
    """Archive an event type. With expunge=true, delete it permanently."""
    delete = event_types.expunge if asked.expunge else event_types.archive
    await call.run(delete, _name(call))


def _name(call: Call) -> str:
    return call.path("event_type_name")


def _new(call: Call, name: str, values: dict[str, Any]) -> EventType:
    now = call.services.wall()
    return EventType(**values | {"org_id": call.caller.org_id, "name": name, "created_at": now, "updated_at": now})
