"""Dead letters."""

from __future__ import annotations

from datetime import datetime

from hookline import ids
from hookline.api.wire.base import Out
from hookline.model import DeadLetter, DeadStats
from hookline.states import Reason


class DeadLetterOut(Out, frozen=True, kw_only=True):
    id: str
    app_id: str
    endpoint_id: str
    endpoint_url: str
    message_id: str
    event_type: str
    reason: Reason
    detail: str
    attempts: int
    sent: int
    accepted_at: datetime
    died_at: datetime
    last_status: int | None
    resolved_at: datetime | None
    note: str | None


def dead_letter(found: DeadLetter) -> DeadLetterOut:
    return DeadLetterOut(
        id=f"{ids.DEAD_LETTER}{found.id}",
        app_id=found.app_id,
        endpoint_id=found.endpoint_id,
        endpoint_url=found.endpoint_url,
        message_id=found.message_id,
        event_type=found.event_type,
        reason=found.reason,
        detail=found.detail,
        attempts=found.attempts,
        sent=found.sent,
        accepted_at=found.accepted_at,
        died_at=found.died_at,
        last_status=found.last_status,
        resolved_at=found.resolved_at,
        note=found.note,
    )


class DeadStatsOut(Out, frozen=True, kw_only=True):
    dead: int
    resolved: int
    by_reason: dict[str, int]
    oldest_at: datetime | None


def dead_stats(found: DeadStats) -> DeadStatsOut:
    return DeadStatsOut(dead=found.dead, resolved=found.resolved, by_reason=found.by_reason, oldest_at=found.oldest)
