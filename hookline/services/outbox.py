"""Outbox rows that were set aside because they could not become messages: retry or discard them."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.errors import NotFound
from hookline.model.audit import NewAuditEntry
from hookline.model.callers import Caller
from hookline.model.outbox import SetAside
from hookline.services import audit
from hookline.services.deps import Deps
from hookline.store import Page


async def find(deps: Deps, ids: Sequence[int]) -> list[SetAside]:
    """Return the set-aside rows with these ids. Raises `NotFound` if one is missing."""
    found = []
    for row_id in sorted(set(ids)):
        page = Page(limit=1, iterator=str(row_id - 1))
        found += [row for row in await deps.store.repair.set_aside(page) if row.id == row_id]
    missing = sorted(set(ids) - {row.id for row in found})
    if missing:
        raise NotFound(f"no row {', '.join(map(str, missing))} is set aside; nothing was changed")
    return found


async def retry(deps: Deps, by: Caller, ids: Sequence[int] | None) -> int:
    """Put the set-aside rows with these ids (None: all set-aside rows) back into the outbox. Return their number."""
    if ids is not None:
        await find(deps, ids)
    return await deps.store.repair.retry_set_aside(ids, note=lambda count: _entry(by, "retry", count))


async def discard(deps: Deps, by: Caller, ids: Sequence[int]) -> int:
    """Delete the set-aside rows with these ids without sending them. Return their number."""
    found = [row.id for row in await find(deps, ids)]
    return await deps.store.repair.discard_set_aside(found, note=lambda count: _entry(by, "discard", count))


def _entry(by: Caller, verb: str, count: int) -> NewAuditEntry | None:
    return audit.entry(by, f"outbox.{verb}", "outbox", detail=f"{count:,} rows") if count else None
