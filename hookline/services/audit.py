"""The audit log: who did what by hand, through the API, the dashboard or the command line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
from msgspec import Struct

from hookline.errors import HooklineError
from hookline.model.audit import NewAuditEntry
from hookline.model.callers import Caller
from hookline.rules.checks.text import one_line
from hookline.services.deps import Deps
from hookline.store.protocols import Store

T = TypeVar("T")
Note = Callable[[T], NewAuditEntry | None]  # from a change's result to its entry; None: nothing changed

log = structlog.get_logger(__name__)


def entry(by: Caller, action: str, subject: str, *, app_id: str | None = None, detail: str = "") -> NewAuditEntry:
    """`app_id`: of the application that it is about, if that is not the only one that the caller reaches."""
    return NewAuditEntry(
        org_id=by.org_id,
        actor=by.actor,
        action=action,
        subject=subject,
        app_id=app_id or (None if by.app is None else by.app.id),
        detail=one_line(detail),
        address=by.address,
    )


async def noted(deps: Deps, change: Awaitable[T], note: Note[T]) -> T:
    """The result of a change, once its audit entry is written."""
    result = await change
    made = note(result)
    if made is not None:
        await write(deps.store, made)
    return result


async def write(store: Store, made: NewAuditEntry) -> None:
    """The change is committed. A failed audit write is logged and ignored."""
    try:
        await store.add_audit([made])
    except HooklineError as error:
        log.error("audit_not_written", action=made.action, subject=made.subject, error=str(error))


def differences(before: Struct, after: Struct) -> str:
    """The names of the fields that a change has changed; never the values, some of which are secret."""
    kept = ("updated_at", "revision", "status_reason")
    named = (name for name in after.__struct_fields__ if name not in kept)
    return ", ".join(name for name in sorted(named) if getattr(before, name) != getattr(after, name))
