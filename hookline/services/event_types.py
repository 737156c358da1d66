"""Event types: the catalogue that endpoints choose from."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

import msgspec
from msgspec.structs import replace

from hookline.errors import Conflict, NoSuch, Overtaken
from hookline.model.audit import NewAuditEntry
from hookline.model.callers import Caller
from hookline.model.catalogue import EventType
from hookline.rules.checks import catalogue
from hookline.services import audit, lookup
from hookline.services.deps import Deps
from hookline.store import Page, Walk
from hookline.store.plans.listing import MAX_BYTES

CHANGE_TRIES = 5  # maximum number of tries to save a change, while other callers change the event type too
STEP = 64  # maximum number of event types that one query reads


async def find(deps: Deps, by: Caller, name: str) -> EventType:
    return _existing(await deps.store.catalogue.event_type(by.org_id, name) if lookup.storable(name) else None, name)


async def create(deps: Deps, by: Caller, new: EventType) -> EventType:
    """Create an event type. It replaces an archived event type of the same name."""

    def decide(seen: EventType | None) -> EventType:
        if seen is not None and not seen.archived:
            raise Conflict(f"event type {new.name!r} exists already")
        return new

    return (await _save(deps, by, new.name, decide, "create"))[0]


async def put(
    deps: Deps, by: Caller, name: str, decide: Callable[[EventType | None], EventType]
) -> tuple[EventType, bool]:
    """Save the event type that `decide` returns. Also return whether it was created."""
    return await _save(deps, by, name, decide, "edit")


async def change(deps: Deps, by: Caller, name: str, decide: Callable[[EventType], EventType]) -> EventType:
    """Change the event type. `decide` gets the current event type and returns the new one. It is called again if
    another caller changed the event type before it was saved."""
    return (await _save(deps, by, name, lambda seen: decide(_existing(seen, name)), "edit"))[0]


async def archive(deps: Deps, by: Caller, name: str) -> EventType:
    """Archive the event type. Endpoints that subscribe to it stay subscribed."""
    return await _set_archived(deps, by, name, True, "archive")


async def restore(deps: Deps, by: Caller, name: str) -> EventType:
    return await _set_archived(deps, by, name, False, "restore")


async def _set_archived(deps: Deps, by: Caller, name: str, archived: bool, verb: str) -> EventType:
    return (await _save(deps, by, name, lambda seen: replace(_existing(seen, name), archived=archived), verb))[0]


async def expunge(deps: Deps, by: Caller, name: str) -> None:
    """Delete the event type."""
    found = await find(deps, by, name)
    entry = audit.entry(by, "event_type.expunge", found.name)
    await deps.store.catalogue.expunge_event_type(by.org_id, found.name, note=lambda _: entry)
    deps.schemas.forget(by.org_id, found.name)


async def page(deps: Deps, by: Caller, page: Page, *, archived: bool, content: bool) -> Walk[EventType]:
    """Return a page of event types. `archived` includes archived ones. With `content`, a page ends early after
    `MAX_BYTES` of schemas. Without `content`, schemas are left out."""
    found: list[EventType] = []
    size, iterator = 0, page.iterator
    while len(found) < page.limit:
        step = replace(page, limit=min(STEP, page.limit - len(found)), iterator=iterator)
        listed = await deps.store.catalogue.event_types(by.org_id, step, archived=archived)
        for each in listed[::-1] if page.backwards else listed:
            size += len(msgspec.json.encode(each.schemas)) if content else 0
            if size > MAX_BYTES and found:
                return _walked(found, page, found[-1].name)
            found.append(each if content else replace(each, schemas=None))
        if len(listed) < step.limit:
            break
        iterator = found[-1].name
    return _walked(found, page, None)


def _walked(found: list[EventType], page: Page, end: str | None) -> Walk[EventType]:
    return Walk(rows=found[::-1] if page.backwards else found, end=end)


async def _save(
    deps: Deps, by: Caller, name: str, decide: Callable[[EventType | None], EventType], verb: str
) -> tuple[EventType, bool]:
    for _ in range(CHANGE_TRIES):
        seen = await deps.store.catalogue.event_type(by.org_id, name) if lookup.storable(name) else None
        wanted = catalogue.check_event_type(decide(seen))
        if seen is None or _validation(wanted) != _validation(seen):
            await deps.schemas.check_saved(wanted)
        stamped = _stamped(wanted, seen, await deps.store.now())
        try:
            saved = await deps.store.catalogue.save_event_type(
                stamped, replacing=seen, note=partial(_entry, by, verb, seen)
            )
        except Overtaken:
            continue
        deps.schemas.forget(by.org_id, name)
        return saved, seen is None
    raise Overtaken("others are changing this event type at the same time; try again in a moment")


def _validation(event_type: EventType) -> tuple[bool, bytes]:
    """Return the values to compare before and after a change. Schemas are checked again only if these values differ.

    An event type that an earlier release saved may fail a newer check. Its other fields can still be changed. Schemas
    are compared as JSON, because True == 1 in Python.
    """
    return event_type.validated, msgspec.json.encode(event_type.schemas, order="sorted")


def _stamped(wanted: EventType, seen: EventType | None, now: datetime) -> EventType:
    """Return the event type with a new `updated_at`. Caches and the store detect a change by it."""
    after = now if seen is None else max(now, seen.updated_at + timedelta(microseconds=1))
    return replace(wanted, created_at=now if seen is None else seen.created_at, updated_at=after)


def _existing(found: EventType | None, name: str) -> EventType:
    if found is None:
        raise NoSuch("event type", name)
    return found


def _entry(by: Caller, verb: str, seen: EventType | None, saved: EventType) -> NewAuditEntry | None:
    if seen is None or verb == "create":
        return audit.entry(by, "event_type.create", saved.name)
    changed = audit.differences(seen, saved)
    detail = changed if verb == "edit" else ""
    return audit.entry(by, f"event_type.{verb}", saved.name, detail=detail) if changed else None
