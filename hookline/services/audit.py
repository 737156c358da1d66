"""The audit log: the changes that people made through the API, the dashboard or the command line."""

from __future__ import annotations

from msgspec import Struct

from hookline.model.audit import NewAuditEntry
from hookline.model.callers import Caller
from hookline.model.endpoints import Endpoint
from hookline.rules.checks.text import one_line
from hookline.rules.operational_events import MANAGEMENT


def entry(by: Caller, action: str, subject: str, *, app_id: str | None = None, detail: str = "") -> NewAuditEntry:
    """Return an audit entry. `app_id` may be left out if the caller is limited to one application."""
    return NewAuditEntry(
        org_id=by.org_id,
        actor=by.actor,
        action=action,
        subject=subject,
        app_id=app_id or (None if by.app is None else by.app.id),
        detail=one_line(detail),
        address=by.address,
    )


def endpoint_entry(by: Caller, verb: str, endpoint: Endpoint, detail: str = "") -> NewAuditEntry:
    """Return an audit entry about an endpoint. If the endpoint receives operational webhooks, the entry names no
    application, because the application of such an endpoint is internal."""
    if endpoint.org_id == MANAGEMENT:
        return entry(by, f"operational_webhook.{verb}", endpoint.id, detail=detail)
    return entry(by, f"endpoint.{verb}", endpoint.id, app_id=endpoint.app_id, detail=detail)


def differences(before: Struct, after: Struct) -> str:
    """Return the names of the changed fields. Values are left out, because some are secret."""
    ignored = ("updated_at", "revision", "status_reason")
    named = (name for name in after.__struct_fields__ if name not in ignored)
    return ", ".join(name for name in sorted(named) if getattr(before, name) != getattr(after, name))
