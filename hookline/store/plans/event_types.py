"""Event types."""

from __future__ import annotations

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from hookline.errors import NotFound, Overtaken
from hookline.model import EventType
from hookline.model.audit import Note
from hookline.store import rows
from hookline.store.plans.plan import Plan, Shared, Step, by_text, changes, noted, reads, row
from hookline.store.protocols import Page


class EventTypes(Shared):
    @changes
    def save_event_type(
        self,
        event_type: EventType,
        *,
        replacing: EventType | UnsetType | None = UNSET,
        note: Note[EventType] | None = None,
    ) -> Plan[EventType]:
        values = asdict(event_type) | {
            "schemas": None if event_type.schemas is None else rows.json_text(event_type.schemas),
            "policy": rows.policy_text(event_type.policy),
            "whatever": replacing is UNSET,
            "seen_at": replacing.updated_at if isinstance(replacing, EventType) else None,
        }
        saved = yield from row("event_type_save", **values)
        if saved is None:
            if not (yield Step("organization", org_id=event_type.org_id)):
                raise NotFound("no such organization")
            raise Overtaken("another request saved the event type meanwhile")
        return (yield from noted(note, rows.event_type(saved, self._reading)))

    @reads
    def event_type(self, org_id: str, name: str) -> Plan[EventType | None]:
        found = yield from row("event_type", org_id=org_id, name=name)
        return None if found is None else rows.event_type(found, self._reading)

    @reads
    def event_types(self, org_id: str, page: Page, *, archived: bool = True) -> Plan[list[EventType]]:
        found = yield from by_text("event_types", page, org_id=org_id, archived=archived)
        return [rows.event_type(each, self._reading) for each in found]

    @changes
    def expunge_event_type(self, org_id: str, name: str, *, note: Note[None] | None = None) -> Plan[None]:
        if not (yield Step("event_type_expunge", org_id=org_id, name=name)):
            raise NotFound("no such event type")
        yield from noted(note, None)
