"""HTTP requests: what came of them, and as they are kept."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from hookline.model.messages import Message, MessageFilter
from hookline.model.states import DeliveryState, ErrorKind


class Timing(Struct, frozen=True, kw_only=True):
    """Microseconds from the start of the attempt to the end of each phase; 0 where it did not happen."""

    dns: int = 0
    connect: int = 0
    tls: int = 0
    first_byte: int = 0
    total: int = 0


class Sent(Struct, frozen=True, kw_only=True):
    """What came of one HTTP request: either a status, or an error and what kind."""

    status: int | None = None
    error: ErrorKind | None = None
    detail: str = ""  # for people; never a secret
    headers: dict[str, str] = {}  # those of interest, names in lower case
    body: bytes = b""
    truncated: bool = False
    address: str = ""  # that was dialled
    started_at: datetime
    timing: Timing = Timing()
    untouched: bool = False  # it failed before any byte of the request was sent


class Attempt(Struct, frozen=True, kw_only=True):
    """One HTTP request, as it is kept."""

    id: str
    delivery_id: int
    message_id: str
    endpoint_no: int
    endpoint_id: str
    endpoint_url: str  # as it is now
    event_type: str
    number: int  # 1, 2, 3 ... over the whole life of the delivery
    trigger: int
    outcome: str  # delivered | retry | dead
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
    """`after` and `before` are about when it started; channel and tag are its message's."""

    delivered: bool | None = None
    code_class: int | None = None  # 0: no response; 100, 200 ... 500


class AttemptedFilter(MessageFilter, frozen=True, kw_only=True):
    """`after` and `before` are about the first attempt."""

    states: tuple[DeliveryState, ...] | None = None  # of the latest delivery: one of them


class Attempted(Struct, frozen=True, kw_only=True):
    """A message that was tried at an endpoint, and how its latest delivery there stands."""

    message: Message
    attempt_id: str  # the first that is kept: the listing's key
    attempted_at: datetime
    state: DeliveryState
    next_at: datetime | None = None  # of a delivery that waits
