"""Alerts as the API shows them."""

from __future__ import annotations

from hookline.api.wire.base import Instant, Out, fill
from hookline.model.alerts import Alert, Severity
from hookline.rules.alerts import wording


class AlertOut(Out, frozen=True, kw_only=True):
    id: int
    name: str
    subject: str | None  # id of the endpoint, if the alert is about an endpoint
    severity: Severity
    firing: bool
    value: float  # the last measured value while the alert fired
    threshold: float
    text: str
    look: str  # command line that shows more about the problem
    began_at: Instant
    fired_at: Instant
    resolved_at: Instant | None


def alert(found: Alert) -> AlertOut:
    return fill(
        AlertOut,
        found,
        subject=found.subject or None,
        firing=found.resolved_at is None,
        look=wording.command(found),
    )
