"""Deliveries and the attempts that were made for them."""

from __future__ import annotations

import base64
from datetime import datetime

from hookline import ids
from hookline.api.wire.base import Out
from hookline.model import Attempt, Delivery, Timing
from hookline.states import ErrorKind, Reason


class DeliveryOut(Out, frozen=True, kw_only=True):
    endpoint_id: str
    state: str
    attempts: int
    sent: int
    next_attempt_at: datetime | None
    expires_at: datetime | None
    finished_at: datetime | None
    reason: Reason | None
    detail: str | None
    dead_letter_id: str | None


def delivery(found: Delivery) -> DeliveryOut:
    waiting = found.state.name in ("PENDING", "SCHEDULED")
    return DeliveryOut(
        endpoint_id=found.endpoint_id,
        state=found.state.name.lower(),
        attempts=found.attempts,
        sent=found.sent,
        next_attempt_at=found.due_at if waiting else None,
        expires_at=found.expires_at,
        finished_at=found.finished_at,
        reason=found.reason,
        detail=found.detail,
        dead_letter_id=f"{ids.DEAD_LETTER}{found.id}" if found.state.name in ("DEAD", "RESOLVED") else None,
    )


class AttemptOut(Out, frozen=True, kw_only=True):
    id: str
    endpoint_id: str
    number: int
    trigger: str
    outcome: str
    probe: bool
    started_at: datetime
    status_code: int | None
    error: ErrorKind | None
    detail: str
    address: str
    response_headers: dict[str, str]
    response: str  # text where it is UTF-8, otherwise base64
    response_base64: bool
    truncated: bool
    micros: Timing


def attempt(found: Attempt) -> AttemptOut:
    text, encoded = _text(found.response_body)
    return AttemptOut(
        id=found.id,
        endpoint_id=found.endpoint_id,
        number=found.number,
        trigger="manual" if found.trigger else "scheduled",
        outcome=found.outcome,
        probe=found.probe,
        started_at=found.started_at,
        status_code=found.status_code,
        error=found.error,
        detail=found.detail,
        address=found.address,
        response_headers=found.response_headers,
        response=text,
        response_base64=encoded,
        truncated=found.truncated,
        micros=found.timing,
    )


def _text(body: bytes) -> tuple[str, bool]:
    try:
        return body.decode(), False
    except UnicodeDecodeError:
        return base64.b64encode(body).decode(), True
