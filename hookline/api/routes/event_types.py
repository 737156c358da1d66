from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace
from starlette.responses import Response

from hookline.api.call import Call, listing, nothing, page_of, respond
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


@OPERATIONS.post(_ALL, "v1.event-type.create", {201: EventTypeOut}, body=EventTypeIn, whole=True)
async def create(call: Call) -> Response:
    """Add an event type to the catalogue, or bring back an archived one."""
    given = await call.body(EventTypeIn)
    return respond(event_type(await event_types.create(call.deps, call.caller, _new(call, given.name, given))), 201)


@OPERATIONS.get(_ALL, "v1.event-type.list", ListResponse[EventTypeOut], query=EventTypesQuery)
async def list_all(call: Call) -> Response:
    """List the event types by name."""
    asked = call.query(EventTypesQuery)
    page = page_of(asked)
    found = await event_types.page(
        call.deps, call.caller, page, archived=asked.include_archived, content=asked.with_content
    )
    shown = [event_type(each, with_content=asked.with_content) for each in found.rows]
    return listing(shown, [each.name for each in found.rows], page, found.end)


@OPERATIONS.get(_ONE, "v1.event-type.get", EventTypeOut)
async def show(call: Call) -> Response:
    """Show one event type."""
    return respond(event_type(await event_types.find(call.deps, call.caller, _name(call))))


@OPERATIONS.put(_ONE, "v1.event-type.update", {200: EventTypeOut, 201: EventTypeOut}, body=EventTypeUpdate, whole=True)
async def put(call: Call) -> Response:
    """Replace an event type, or create it."""
    given = await call.body(EventTypeUpdate)
    new = _new(call, _name(call), given)
    saved, made = await event_types.put(call.deps, call.caller, new.name, lambda seen: _replaced(seen, new, given))
    return respond(event_type(saved), 201 if made else 200)


@OPERATIONS.patch(_ONE, "v1.event-type.patch", EventTypeOut, body=EventTypePatch, whole=True)
async def patch(call: Call) -> Response:
    """Change parts of an event type."""
    given = _given(await call.body(EventTypePatch))
    changed = await event_types.change(call.deps, call.caller, _name(call), lambda seen: replace(seen, **given))
    return respond(event_type(changed))


@OPERATIONS.delete(_ONE, "v1.event-type.delete", query=DeleteQuery, whole=True)
async def delete(call: Call) -> Response:
    """Archive an event type, or expunge it."""
    delete = event_types.expunge if call.query(DeleteQuery).expunge else event_types.archive
    await delete(call.deps, call.caller, _name(call))
    return nothing()


def _name(call: Call) -> str:
    return call.path("event_type_name")


def _new(call: Call, name: str, given: EventTypeUpdate) -> EventType:
    now: datetime = call.services.wall()
    return EventType(
        org_id=call.organization(),
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


def _given(change: EventTypePatch) -> dict[str, Any]:
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
