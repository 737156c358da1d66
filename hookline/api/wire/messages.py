"""Messages."""

from __future__ import annotations

from datetime import datetime

from msgspec import UNSET, Raw, UnsetType

from hookline.api.wire.base import In, Out, Policy
from hookline.model import Message


class MessageIn(In, frozen=True, kw_only=True):
    event_type: str
    payload: Raw  # the caller's own bytes: these are stored, signed and sent
    event_id: str | None = None
    channels: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    ordering_key: str | None = None
    deliver_at: datetime | None = None
    policy: Policy | None = None


class MessageOut(Out, frozen=True, kw_only=True):
    id: str
    event_id: str | None
    event_type: str
    payload: Raw | UnsetType | None
    channels: tuple[str, ...] | None
    tags: tuple[str, ...] | None
    timestamp: datetime
    ordering_key: str | None = None
    deliver_at: datetime | None = None


def message(found: Message, *, with_payload: bool = True) -> MessageOut:
    return MessageOut(
        id=found.id,
        event_id=found.event_id,
        event_type=found.event_type,
        payload=_payload(found.payload) if with_payload else UNSET,
        channels=found.channels,
        tags=found.tags,
        timestamp=found.created_at,
        ordering_key=found.ordering_key,
        deliver_at=found.deliver_at,
    )


def _payload(payload: bytes | None) -> Raw | None:
    return None if payload is None else Raw(payload)
