"""Events that are accepted once, and how they are looked for."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from hookline.model.policy import PolicyOverride


class NewMessage(Struct, frozen=True, kw_only=True):
    """One event to accept. The id is made before COMMIT, so that a lost answer can be looked up."""

    id: str
    app_no: int
    event_type: str
    payload: bytes  # as it came; these bytes are stored, signed and sent
    event_id: str | None = None
    channels: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    ordering_key: str | None = None
    deliver_at: datetime | None = None
    policy: PolicyOverride | None = None
    trace: str | None = None  # of the publisher: traceparent, and tracestate after a space
    idempotency_key: bytes | None = None  # hash of organization, application, path and key
    idempotency_body: bytes | None = None  # hash of the request body


class IngestStatus(StrEnum):
    ACCEPTED = "accepted"
    REPLAYED = "replayed"  # same idempotency key, same body: `message_id` is the first one's
    KEY_REUSED = "key_reused"  # same idempotency key, another body
    EVENT_ID_TAKEN = "event_id_taken"  # `message_id` is the one that has it
    NO_APPLICATION = "no_application"


class Accepted(Struct, frozen=True, kw_only=True):
    status: IngestStatus
    message_id: str
    created_at: datetime | None = None
    deliveries: int = 0  # how many endpoints it fanned out to


class NewBatch(Struct, frozen=True, kw_only=True):
    """Messages of one application that are accepted in one transaction, under one idempotency key."""

    app_no: int
    messages: tuple[NewMessage, ...]  # without keys of their own
    faults: dict[int, str] = {}  # positions in the caller's list that are no messages, and why: kept with the key
    idempotency_key: bytes | None = None
    idempotency_body: bytes | None = None


class BatchAccepted(Struct, frozen=True, kw_only=True):
    status: IngestStatus  # of the batch as a whole: accepted, replayed or key_reused
    answers: tuple[Accepted, ...] = ()  # one for each message, in order; replayed: the first ones again
    faults: dict[int, str] = {}  # likewise


class Message(Struct, frozen=True, kw_only=True):
    seq: int  # the order in which the database accepted it
    id: str
    app_no: int
    app_id: str
    event_type: str
    payload: bytes | None  # None: expunged, taken by retention, or not asked for
    created_at: datetime
    event_id: str | None = None
    channels: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    ordering_key: str | None = None
    deliver_at: datetime | None = None
    policy: PolicyOverride | None = None
    trace: str | None = None  # of the publisher: traceparent, and tracestate after a space
    size: int | None = None  # of the payload, in bytes; None: it is gone


class MessageFilter(Struct, frozen=True, kw_only=True):
    """All of the given fields must match."""

    event_types: tuple[str, ...] | None = None  # one of them
    channel: str | None = None
    tag: str | None = None
    after: datetime | None = None
    before: datetime | None = None


class MessageSearch(MessageFilter, frozen=True, kw_only=True):
    """For people who search."""

    app_no: int | None = None  # None: every application of the organization
    ref: str | None = None  # a message's id, or an event's
    state: str | None = None  # delivered (everywhere), open (somewhere), dead (somewhere), none (no endpoint matched)


class FoundMessage(Struct, frozen=True, kw_only=True):
    message: Message
    states: dict[str, int]  # its deliveries: those held by their lane are `held`, others go by the name of their state
