"""Deliveries, their attempts, and the status of a message at an endpoint."""

from __future__ import annotations

import base64
from enum import IntEnum, StrEnum
from typing import Annotated

from msgspec import UNSET, UnsetType

from hookline import ids
from hookline.api.wire.base import Instant, Out, doc, fill
from hookline.api.wire.endpoints import EndpointBase, endpoint
from hookline.api.wire.messages import MessageOut, message
from hookline.model.attempts import Attempt, Attempted
from hookline.model.deliveries import Delivery
from hookline.model.endpoints import Endpoint
from hookline.model.states import DeliveryState, EndpointStatus, ErrorKind, Reason

_MILLI = 1000  # microseconds in a millisecond


class DeliveryOut(Out, frozen=True, kw_only=True):
    endpoint_id: str
    state: str
    attempts: int
    sent: int
    next_attempt_at: Instant | None
    expires_at: Instant | None
    finished_at: Instant | None
    reason: Reason | None
    detail: str | None
    dead_letter_id: str | None


def delivery(found: Delivery) -> DeliveryOut:
    waiting = found.state.name in ("PENDING", "SCHEDULED")
    return fill(
        DeliveryOut,
        found,
        state=found.state.name.lower(),
        next_attempt_at=found.due_at if waiting else None,
        dead_letter_id=f"{ids.DEAD_LETTER}{found.id}" if found.state.name in ("DEAD", "RESOLVED") else None,
    )


# ── status ────────────────────────────────────────────────────────────────────────────────────────────────────────


class MessageStatus(IntEnum):
    """0 success, 1 pending (waiting for the next attempt), 2 fail, 3 sending (a request is in progress)."""

    SUCCESS = 0
    PENDING = 1
    FAIL = 2
    SENDING = 3


class StatusText(StrEnum):
    SUCCESS = "success"
    PENDING = "pending"
    FAIL = "fail"
    SENDING = "sending"


class TriggerType(IntEnum):
    """0 scheduled: Hookline created the delivery when it accepted the message. 1 manual: the delivery is a replay, a
    resend or a test message."""

    SCHEDULED = 0
    MANUAL = 1


class CodeClass(IntEnum):
    """The class of a status code: 200 stands for 2xx, and so on. 0 means that there was no response."""

    NONE = 0
    INFORMATIONAL = 100
    SUCCESS = 200
    REDIRECT = 300
    CLIENT_ERROR = 400
    SERVER_ERROR = 500


STATES = {
    MessageStatus.PENDING: (DeliveryState.QUEUED, DeliveryState.PENDING, DeliveryState.SCHEDULED),
    MessageStatus.SENDING: (DeliveryState.DELIVERING,),
    MessageStatus.SUCCESS: (DeliveryState.DELIVERED,),
    MessageStatus.FAIL: (DeliveryState.DEAD, DeliveryState.RESOLVED),
}
_STATUS = {state: status for status, states in STATES.items() for state in states}


# ── attempts ──────────────────────────────────────────────────────────────────────────────────────────────────────


class PhasesOut(Out, frozen=True, kw_only=True):
    """Microseconds from the start of the attempt to the end of each phase; 0 if a phase did not take place."""

    dns: int
    connect: int
    tls: int
    first_byte: int
    total: int


class AttemptOut(Out, frozen=True, kw_only=True):
    """One HTTP request of a delivery. Attempts are shown after they ended, so the status is success or fail."""

    id: str
    msg_id: str
    endpoint_id: str
    url: Annotated[str, doc("The current URL of the endpoint.")]
    event_type: str
    number: Annotated[int, doc("1, 2, 3 ... Replays continue the count.")]
    status: MessageStatus
    status_text: StatusText
    outcome: Annotated[str, doc("What followed: `delivered`, `retry` or `dead`.")]
    trigger_type: TriggerType
    probe: Annotated[bool, doc("Whether it was a probe of an open circuit.")]
    timestamp: Annotated[Instant, doc("Start of the attempt.")]
    response_status_code: Annotated[int, doc("0 if there was no response; `error` has the reason.")]
    response_duration_ms: int
    response: Annotated[str, doc("The start of the body: text if it is UTF-8, otherwise base64.")]
    response_base64: bool
    response_headers: dict[str, str]
    truncated: bool
    error: ErrorKind | None
    detail: str
    address: Annotated[str, doc("The IP address of the connection.")]
    micros: PhasesOut
    msg: Annotated[MessageOut | UnsetType, doc("The message without its payload, if `with_msg` is true.")] = UNSET


def attempt(found: Attempt, *, msg: MessageOut | None = None) -> AttemptOut:
    text, encoded = _text(found.response_body)
    status = MessageStatus.SUCCESS if found.outcome == "delivered" else MessageStatus.FAIL
    return fill(
        AttemptOut,
        found,
        msg_id=found.message_id,
        url=found.endpoint_url,
        status=status,
        status_text=StatusText[status.name],
        trigger_type=TriggerType(found.trigger),
        timestamp=found.started_at,
        response_status_code=found.status_code or 0,
        response_duration_ms=found.timing.total // _MILLI,
        response=text,
        response_base64=encoded,
        micros=fill(PhasesOut, found.timing),
        msg=UNSET if msg is None else msg,
    )


def _text(body: bytes) -> tuple[str, bool]:
    try:
        return body.decode(), False
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), True


# ── a message at an endpoint ──────────────────────────────────────────────────────────────────────────────────────


class AttemptedMessageOut(MessageOut, frozen=True, kw_only=True):
    """A message that was sent to an endpoint at least once, with the status of its latest delivery to that endpoint."""

    status: MessageStatus
    status_text: StatusText
    next_attempt: Instant | None
    first_attempt: Annotated[Instant, doc("The first attempt at this endpoint.")]


def attempted_message(found: Attempted, *, with_payload: bool) -> AttemptedMessageOut:
    status = _STATUS[found.state]
    return fill(
        AttemptedMessageOut,
        message(found.message, with_payload=with_payload),
        status=status,
        status_text=StatusText[status.name],
        next_attempt=found.next_at,
        first_attempt=found.attempted_at,
    )


class DestinationOut(EndpointBase, frozen=True, kw_only=True):
    """An endpoint of a message, and the status of the latest delivery to it. Endpoints without an attempt are
    included."""

    version: int
    deleted: bool
    channels: tuple[str, ...] | None
    status: MessageStatus
    status_text: StatusText
    next_attempt: Instant | None
    delivery: DeliveryOut


def destination(found: Delivery, at: Endpoint) -> DestinationOut:
    status, shown = _STATUS[found.state], delivery(found)
    return fill(
        DestinationOut,
        endpoint(at),
        disabled=at.status in (EndpointStatus.DISABLED, EndpointStatus.DELETED),
        deleted=at.status == EndpointStatus.DELETED,
        status=status,
        status_text=StatusText[status.name],
        next_attempt=shown.next_attempt_at,
        delivery=shown,
    )
