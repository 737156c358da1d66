"""Messages, the results of accepting them, and the filters that search them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from hookline.model.policy import PolicyOverride


class EventFields(Struct, frozen=True, kw_only=True):
    """The fields of an event that stay the same from the publisher to the delivery."""

    event_type: str
    event_id: str | None = None
    channels: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    ordering_key: str | None = None
    deliver_at: datetime | None = None
    policy: PolicyOverride | None = None
    trace: str | None = None  # the publisher's traceparent, then a space and its tracestate


class NewMessage(EventFields, frozen=True, kw_only=True):
    """One event to accept. It gets its message id before COMMIT, so that the store can look up the message if the
    database's answer to COMMIT is lost."""

    id: str
    app_no: int
    payload: bytes  # exactly the bytes that the publisher sent; they are stored, signed and delivered unchanged
    idempotency_key: bytes | None = None  # hash of organization, application, path and key
    idempotency_body: bytes | None = None  # hash of the request body
    age: float = 0.0  # seconds that the event waited in an outbox; they count against its time budget


class IngestStatus(StrEnum):
    ACCEPTED = "accepted"
    REPLAYED = "replayed"  # an earlier request had the same idempotency key and body; `message_id` is its message
    KEY_REUSED = "key_reused"  # same idempotency key as an earlier request, but another body
    EVENT_ID_TAKEN = "event_id_taken"  # `message_id` is the message that already has this event id
    NO_APPLICATION = "no_application"


class Accepted(Struct, frozen=True, kw_only=True):
    status: IngestStatus
    message_id: str
    created_at: datetime | None = None
    deliveries: int = 0  # number of endpoints that will get the message


class NewBatch(Struct, frozen=True, kw_only=True):
    """Messages of one application, accepted in one transaction under one idempotency key."""

    app_no: int
    messages: tuple[NewMessage, ...]  # messages without idempotency keys of their own
    faults: dict[int, str] = {}  # why an item was refused, by its position; stored with the idempotency key
    idempotency_key: bytes | None = None
    idempotency_body: bytes | None = None


class BatchAccepted(Struct, frozen=True, kw_only=True):
    status: IngestStatus  # result of the whole batch: accepted, replayed or key_reused
    answers: tuple[Accepted, ...] = ()  # one for each message, in order; a replayed batch repeats the first answers
    faults: dict[int, str] = {}  # why an item was refused, by its position


class Message(EventFields, frozen=True, kw_only=True):
    seq: int  # position in the order in which the database accepted messages
    id: str
    app_no: int
    app_id: str
    payload: bytes | None  # None if it was expunged, deleted by retention, or not requested
    created_at: datetime
    size: int | None = None  # bytes of the payload; None if the payload was deleted


class MessageFilter(Struct, frozen=True, kw_only=True):
    """A filter for messages. All fields that are set must match."""

    event_types: tuple[str, ...] | None = None  # the message has one of these event types
    channel: str | None = None
    tag: str | None = None
    after: datetime | None = None
    before: datetime | None = None


class MessageSearch(MessageFilter, frozen=True, kw_only=True):
    """A message search, as the dashboard and the command line offer it."""

    app_no: int | None = None  # None means every application of the organization
    ref: str | None = None  # a message id or an event id
    # "delivered": all deliveries are delivered. "open": at least one delivery is open. "dead": at least one delivery is
    # dead. "none": the message has no deliveries.
    state: str | None = None


class FoundMessage(Struct, frozen=True, kw_only=True):
    message: Message
    states: dict[str, int]  # number of its deliveries by state; waiting deliveries in a held lane count as `held`
