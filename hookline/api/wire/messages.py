"""Messages as the API shows them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Raw

from hookline.api.wire.base import Instant, Out, doc
from hookline.model.messages import Message, NewMessage
from hookline.rules import trace_context

_NOT_ASKED_FOR = Raw(b"{}")
_GONE = Raw(b'{"expired":true}')


class MessageOut(Out, frozen=True, kw_only=True):
    id: str
    event_id: str | None
    event_type: str
    payload: Annotated[
        Raw,
        doc('The accepted payload; `{}` if it was not requested; `{"expired": true}` once it was deleted.'),
    ]
    channels: tuple[str, ...] | None
    tags: tuple[str, ...] | None
    timestamp: Instant
    ordering_key: str | None = None
    deliver_at: Instant | None = None
    payload_size: Annotated[int | None, doc("Bytes of the payload; null once it was deleted.")] = None
    trace_id: Annotated[str | None, doc("The trace of the publisher's transaction or request.")] = None


def message(found: Message, *, with_payload: bool = True) -> MessageOut:
    return _message(found, found.created_at, found.size, with_payload)


def accepted_message(found: NewMessage, at: datetime, *, with_payload: bool) -> MessageOut:
    """Return the JSON of a message that was accepted just now, without reading it from the store."""
    return _message(found, at, None, with_payload)


def _message(found: Message | NewMessage, at: datetime, size: int | None, with_payload: bool) -> MessageOut:
    return MessageOut(
        id=found.id,
        event_id=found.event_id,
        event_type=found.event_type,
        payload=_payload(found.payload) if with_payload else _NOT_ASKED_FOR,
        channels=found.channels,
        tags=found.tags,
        timestamp=at,
        ordering_key=found.ordering_key,
        deliver_at=found.deliver_at,
        payload_size=size if found.payload is None else len(found.payload),
        trace_id=None if found.trace is None else trace_context.trace_id(found.trace),
    )


def _payload(kept: bytes | None) -> Raw:
    """Return the payload.

    If the payload was deleted, return a JSON object instead, because SDKs accept only an object here.
    """
    return _GONE if kept is None else Raw(kept)
