"""Event types by the page, as many as fit: each may have 256 KiB of schemas, and whoever asks may want a thousand."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from hookline.model import EventType
from hookline.store.plans.listing import MAX_BYTES
from hookline.store.protocols import Page, Store, Walk

STEP = 64  # that are read from the store at a time


async def event_types(store: Store, org_id: str, page: Page, *, archived: bool, content: bool) -> Walk[EventType]:
    """A page of them, which ends early after `MAX_BYTES` of schemas; without content they have none."""
    found: list[EventType] = []
    size, iterator = 0, page.iterator
    while len(found) < page.limit:
        step = replace(page, limit=min(STEP, page.limit - len(found)), iterator=iterator)
        listed = await store.event_types(org_id, step, archived=archived)
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
