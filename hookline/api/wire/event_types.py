"""Event types."""

from __future__ import annotations

from datetime import datetime

from hookline.api.wire.base import Out
from hookline.model import EventType


class EventTypeOut(Out, frozen=True, kw_only=True):
    name: str
    description: str
    archived: bool
    deprecated: bool
    created_at: datetime
    updated_at: datetime


def event_type(found: EventType) -> EventTypeOut:
    return EventTypeOut(
        name=found.name,
        description=found.description,
        archived=found.archived,
        deprecated=found.deprecated,
        created_at=found.created_at,
        updated_at=found.updated_at,
    )
