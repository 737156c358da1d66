"""Attempts: the result of one HTTP request of a delivery, and the attempt as it is stored."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from hookline.model.messages import Message, MessageFilter
from hookline.model.states import DeliveryState, ErrorKind


class Timing(Struct, frozen=True, kw_only=True):
    """Microseconds from the start of the attempt to the end of each phase. 0 means that the phase did not take
    place."""

    dns: int = 0
    connect: int = 0
    tls: int = 0
    first_byte: int = 0
    total: int = 0


class Sent(Struct, frozen=True, kw_only=True):
    """The result of one HTTP request: either `status` or `error` is set. If the request was not started, both are
    None."""

    status: int | None = None
    error: ErrorKind | None = None
    detail: str = ""  # a text for operators; never contains a secret
    headers: dict[str, str] = {}  # selected response headers, with names in lower case
    body: bytes = b""
    truncated: bool = False
    address: str = ""  # the IP address that the sender connected to
    started_at: datetime
    timing: Timing = Timing()
    untouched: bool = False  # the request failed before any byte of it was sent


class Attempt(Struct, frozen=True, kw_only=True):
    """One HTTP request of a delivery, as it is stored."""

    id: str
    delivery_id: int
    message_id: str
    endpoint_no: int
    endpoint_id: str
    endpoint_url: str  # the endpoint's current URL, which may differ from the one that was called
    event_type: str
    number: int  # number of the attempt within its delivery, from 1; continues after a replay
    trigger: int
    outcome: str  # delivered, retry or dead
    probe: bool
    started_at: datetime
    status_code: int | None
    error: ErrorKind | None
    detail: str
    address: str
    response_headers: dict[str, str]
    response_body: bytes
    truncated: bool
    timing: Timing


class AttemptFilter(MessageFilter, frozen=True, kw_only=True):
    """A filter for attempts. `after` and `before` apply to the attempt's start, `channel` and `tag` to its message."""

    delivered: bool | None = None
    code_class: int | None = None  # 100, 200 ... 500; 0 means no response


class AttemptedFilter(MessageFilter, frozen=True, kw_only=True):
    """A filter for messages that were sent to an endpoint. `after` and `before` apply to the first attempt."""

    states: tuple[DeliveryState, ...] | None = None  # states of the message's latest delivery to the endpoint


class Attempted(Struct, frozen=True, kw_only=True):
    """A message with at least one attempt at an endpoint, and the state of its latest delivery there."""

    message: Message
    attempt_id: str  # id of the first attempt that is still stored; listings are sorted by it
    attempted_at: datetime
    state: DeliveryState
    next_at: datetime | None = None  # time of the next attempt, if the delivery waits for one
