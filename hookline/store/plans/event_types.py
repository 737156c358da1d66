"""Event types."""

from __future__ import annotations

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from hookline.errors import NotFound, Overtaken
from hookline.model.audit import Note
from hookline.model.catalogue import EventType
from hookline.store.pages import Page
from hookline.store.plans.plan import Plan, Plans, Step, by_text, changes, noted, reads, row
from hookline.store.rows import documents


class EventTypes(Plans):
    @changes
    def save_event_type(
        self,
        event_type: EventType,
        *,
        replacing: EventType | UnsetType | None = UNSET,
        note: Note[EventType] | None = None,
    ) -> Plan[EventType]:
        """Create or replace the event type with this organization and name. A replaced event type keeps its
        `created_at`.

        `replacing` is the version that the caller read before, or None if there was none. If another caller saved the
        event type since then, raise `Overtaken` and change nothing. Without `replacing`, any version is replaced.
        """
        values = asdict(event_type) | {
            "schemas": None if event_type.schemas is None else documents.json_text(event_type.schemas),
            "policy": documents.policy_text(event_type.policy),
            "whatever": replacing is UNSET,
            "seen_at": replacing.updated_at if isinstance(replacing, EventType) else None,
        }
        saved = yield from row("event_type_save", **values)
        if saved is None:
            if not (yield Step("organization", org_id=event_type.org_id)):
                raise NotFound("no such organization")
            raise Overtaken("another request saved the event type meanwhile")
        return (yield from noted(note, self._reading.struct(EventType, saved)))

    @reads
    def event_type(self, org_id: str, name: str) -> Plan[EventType | None]:
        found = yield from row("event_type", org_id=org_id, name=name)
        return None if found is None else self._reading.struct(EventType, found)

    @reads
    def event_types(self, org_id: str, page: Page, *, archived: bool = True) -> Plan[list[EventType]]:
        """Return a page of event types ordered by name. `page.iterator` is the name after which the page begins.
        `archived=False` leaves out archived event types."""
        found = yield from by_text("event_types", page, org_id=org_id, archived=archived)
        return [self._reading.struct(EventType, each) for each in found]

    @changes
    def expunge_event_type(self, org_id: str, name: str, *, note: Note[None] | None = None) -> Plan[None]:
        """Delete the event type permanently. Raises `NotFound` if it does not exist."""
        if not (yield Step("event_type_expunge", org_id=org_id, name=name)):
            raise NotFound("no such event type")
        yield from noted(note, None)
