"""The audit log: who did something by hand, wherever they did it."""

from __future__ import annotations

import structlog
from msgspec.structs import replace

from hookline.errors import HooklineError
from hookline.model.audit import NewAuditEntry
from hookline.rules.checks.text import one_line
from hookline.store.protocols import Store

log = structlog.get_logger(__name__)


async def remember(store: Store, entry: NewAuditEntry) -> None:
    """The deed is done: that it cannot be noted is no reason to say otherwise."""
    try:
        await store.add_audit([replace(entry, detail=one_line(entry.detail))])
    except HooklineError as error:
        log.error("audit_not_written", action=entry.action, subject=entry.subject, error=str(error))
