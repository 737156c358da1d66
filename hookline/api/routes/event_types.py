from __future__ import annotations

from datetime import datetime
from operator import attrgetter
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from hookline.api.call import Call, listing, page_of
from hookline.api.operation import Operations, OrderedQuery, Query
from hookline.api.wire.base import ListResponse, Policy
from hookline.api.wire.event_types import EventTypeIn, EventTypeOut, EventTypePatch, EventTypeUpdate, event_type
from hookline.model import EventType, PolicyOverride
from hookline.services import event_types

_ALL = "/event-type"
_ONE = f"{_ALL}/{{event_type_name}}"
OPERATIONS = Operations()


class EventTypesQuery(OrderedQuery, frozen=True, kw_only=True):
    include_archived: bool = False
    with_content: bool = False


class DeleteQuery(Query, frozen=True, kw_only=True):
    expunge: bool = False


@OPERATIONS.post(_ALL, "v1.event-type.create", status=201, whole=True)
async def create(call: Call, given: EventTypeIn) -> EventTypeOut:
    """Add an event type to the catalogue, or bring back an archived one."""
    return event_type(await event_types.create(call.deps, call.caller, _new(call, given.name, given)))


@OPERATIONS.get(_ALL, "v1.event-type.list")
async def list_all(call: Call, asked: EventTypesQuery) -> ListResponse[EventTypeOut]:
    """List the event types by name."""
    page = page_of(asked)
    found = await event_types.page(
        call.deps, call.caller, page, archived=asked.include_archived, content=asked.with_content
    )
    return listing(found, page, lambda each: event_type(each, with_content=asked.with_content), attrgetter("name"))


@OPERATIONS.get(_ONE, "v1.event-type.get")
async def show(call: Call) -> EventTypeOut:
    """Show one event type."""
    return event_type(await event_types.find(call.deps, call.caller, _name(call)))


@OPERATIONS.put(_ONE, "v1.event-type.update", status=(200, 201), whole=True)
async def put(call: Call, given: EventTypeUpdate) -> EventTypeOut:
    """Replace an event type, or create it."""
    new = _new(call, _name(call), given)
    saved, made = await event_types.put(call.deps, call.caller, new.name, lambda seen: _replaced(seen, new, given))
    call.status = 201 if made else 200
    return event_type(saved)


@OPERATIONS.patch(_ONE, "v1.event-type.patch", whole=True)
async def patch(call: Call, given: EventTypePatch) -> EventTypeOut:
    """Change parts of an event type."""
    change = _change(given)
    return event_type(
        await event_types.change(call.deps, call.caller, _name(call), lambda seen: replace(seen, **change))
    )


@OPERATIONS.delete(_ONE, "v1.event-type.delete", whole=True)
async def delete(call: Call, asked: DeleteQuery) -> None:
    """Archive an event type, or expunge it."""
    delete = event_types.expunge if asked.expunge else event_types.archive
    await delete(call.deps, call.caller, _name(call))


def _name(call: Call) -> str:
    return call.path("event_type_name")


def _new(call: Call, name: str, given: EventTypeUpdate) -> EventType:
    now: datetime = call.services.wall()
    return EventType(
        org_id=call.caller.org_id,
        name=name,
        created_at=now,
        updated_at=now,
        description=given.description,
        archived=given.archived,
        deprecated=given.deprecated,
        schemas=given.schemas,
        feature_flags=_flags(given.feature_flag, given.feature_flags),
        group_name=given.group_name,
        policy=_policy(given.policy),
        validated=given.validated is True,
    )


def _replaced(seen: EventType | None, new: EventType, given: EventTypeUpdate) -> EventType:
    """Keep `policy` and `validated` if the request leaves them out, because Svix's SDKs do not send them."""
    if seen is None:
        return new
    return replace(
        new,
        policy=seen.policy if given.policy is UNSET else new.policy,
        validated=seen.validated if given.validated is UNSET else new.validated,
    )


def _change(change: EventTypePatch) -> dict[str, Any]:
    fields = ("description", "archived", "deprecated", "schemas", "group_name", "validated")
    given = {name: value for name in fields if (value := getattr(change, name)) is not UNSET}
    if change.feature_flag is not UNSET or change.feature_flags is not UNSET:
        given["feature_flags"] = _flags(change.feature_flag, change.feature_flags)
    if change.policy is not UNSET:
        given["policy"] = _policy(change.policy)
    return given


def _flags(flag: str | UnsetType | None, flags: tuple[str, ...] | UnsetType | None) -> tuple[str, ...]:
    """Return the feature flags. Older SDKs send one flag under another name."""
    return flags or (() if flag is None or flag is UNSET else (flag,))


def _policy(given: Policy | UnsetType | None) -> PolicyOverride | None:
    return given.override() if isinstance(given, Policy) else None
