"""Messages that callers publish."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Raw, UnsetType, defstruct
from msgspec.structs import astuple

from hookline.api.wire.applications import ApplicationIn
from hookline.api.wire.base import CHANNEL, NAMED, In, Instant, Out, Policy, doc
from hookline.api.wire.messages import MessageOut
from hookline.rules.checks.message import MAX_MESSAGE_CHANNELS, MAX_TAGS

MAX_IN_BATCH = 1000

EventTypeName = Annotated[str, NAMED]
EventId = Annotated[str, NAMED]
Channels = Annotated[tuple[Annotated[str, CHANNEL], ...], doc(minItems=1, maxItems=MAX_MESSAGE_CHANNELS)]
Tag = Annotated[str, doc(minLength=1, maxLength=128)]
OrderingKey = Annotated[str, doc(minLength=1, maxLength=256)]
Tags = Annotated[tuple[Tag, ...], doc(minItems=1, maxItems=MAX_TAGS)]


class MessageIn(In, frozen=True, kw_only=True):
    """One event. The payload is any JSON value. Its bytes are stored, signed and sent unchanged."""

    event_type: EventTypeName
    payload: Raw
    event_id: Annotated[EventId | None, doc("Unique in the application. A repeated id gets a 409.")] = None
    channels: Channels | None = None
    tags: Tags | None = None
    ordering_key: Annotated[
        OrderingKey | None,
        doc("Messages with the same key are delivered to an endpoint one at a time, in order."),
    ] = None
    deliver_at: Annotated[Instant | None, doc("Deliver no earlier than this, at most 30 days ahead.")] = None
    policy: Annotated[Policy | None, doc("Overrides the retry policy for this message.")] = None
    application: Annotated[
        ApplicationIn | None,
        doc("If no application has the id or uid in the path, create this one with that uid."),
    ] = None
    payload_retention_period: Annotated[
        Annotated[int, Meta(ge=5, le=90)] | None,
        doc("Days. The server keeps payloads for a fixed time; a shorter period is refused."),
    ] = None
    payload_retention_hours: Annotated[Annotated[int, Meta(ge=1, le=2160)] | None, doc("The same, in hours.")] = None
    transformations_params: Annotated[dict[str, Raw] | None, doc("Not supported: leave it out or empty.")] = None


class MessageBatchIn(In, frozen=True, kw_only=True):
    """Messages to accept in one transaction. A refused message does not affect the others."""

    messages: Annotated[list[MessageIn], Meta(min_length=1, max_length=MAX_IN_BATCH)]
    application: Annotated[ApplicationIn | None, doc("As in a single message.")] = None


# A list whose decoding stops at the first entry over the limit. With `max_length`, msgspec would
# decode all entries first.
_Unread = defstruct(
    "_Unread",
    [(f"message_{number}", Raw, Raw()) for number in range(MAX_IN_BATCH)],
    array_like=True,
    forbid_unknown_fields=True,
)


class MessageBatchBeside(In, frozen=True, kw_only=True):
    """`MessageBatchIn` without its messages."""

    application: ApplicationIn | None = None


class MessageBatchParts(In, frozen=True, kw_only=True):
    """`MessageBatchIn` before its messages are decoded, so that an invalid message does not affect the others."""

    messages: _Unread  # type: ignore[valid-type]
    application: Raw = Raw(b"null")

    @property
    def unread(self) -> list[bytes]:
        return [part for each in astuple(self.messages) if (part := bytes(each))]


class BatchErrorOut(Out, frozen=True, kw_only=True):
    code: str
    detail: str


class BatchResultOut(Out, frozen=True, kw_only=True):
    """The result of one message: either `message` or `error`."""

    status: Annotated[int, doc("The status of the same message sent alone: 202, 409 or 422.")]
    message: MessageOut | UnsetType = UNSET
    error: BatchErrorOut | UnsetType = UNSET


class MessageBatchOut(Out, frozen=True, kw_only=True):
    """A result for each message, in the order of the request."""

    results: list[BatchResultOut]
