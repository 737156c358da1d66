"""The audit log of changes that users make. A change writes its own entry: see `plan.noted`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from msgspec import Struct
from msgspec.structs import asdict

from hookline.model.audit import AuditEntry, AuditFilter, NewAuditEntry
from hookline.store import rows
from hookline.store.bounds import LAST_NUMBER
from hookline.store.pages import Page, Walk, after_number
from hookline.store.plans import listing
from hookline.store.plans.plan import Batch, Plan, Plans, Step, changes, in_direction, reads, value
from hookline.store.rows.documents import storable

# The time of an entry is the start of its transaction, so the times of entries may be out of order by up to this much.
_WAITED = timedelta(hours=1)


class AuditLog(Plans):
    @changes
    def add_audit(self, entries: Sequence[NewAuditEntry]) -> Plan[None]:
        """Write entries to the audit log. Long texts are truncated and characters that the database cannot store are
        replaced."""
        yield Batch("audit_add", [rows.audit_columns(entry) for entry in entries])

    @reads
    def audit_log(self, where: AuditFilter, page: Page) -> Plan[Walk[AuditEntry]]:
        """Return a page of audit entries, newest first. `page.iterator` is an entry number."""
        if not storable(where.org_id, where.app_id, where.action, where.actor, where.subject):
            return Walk(rows=[])  # the filter contains a text that the database cannot store, so no entry matches
        whole = yield from _span(where, page)
        end = (yield from _end(where, whole, page)) if _rare(where) else None
        span = whole if end is None else Span(whole.near, end + 1 if page.backwards else end - 1)
        found = yield Step(in_direction("audit_log", page), **asdict(where), **asdict(span), limit=page.limit)
        listed = [rows.audit(each, self._reading) for each in found]
        return listing.walked(listed, page, None if end is None else str(end))


class Span(Struct, frozen=True):
    """The entry numbers between which a scan runs: it starts after `near` and ends before `far`."""

    near: int
    far: int


def _span(where: AuditFilter, page: Page) -> Plan[Span]:
    """Return the entry numbers between which the page's entries lie.

    The scan starts after `page.iterator`. The filter's `since` and `until` limit it too: entry numbers are nearly in
    order of time, so a time can be translated to an entry number (see `_WAITED`).
    """
    oldest = newest = None
    if where.since is not None:
        oldest = yield from value("audit_far", at=where.since - _WAITED)
    if where.until is not None:
        newest = yield from value("audit_near", at=where.until + _WAITED)
    low, high = oldest or 0, newest or LAST_NUMBER
    start = after_number(page.iterator)
    if page.backwards:
        return Span(max(low, start or 0), high)
    return Span(high if start is None else min(high, start), low)


def _end(where: AuditFilter, span: Span, page: Page) -> Plan[int | None]:
    """Return the number of the last entry that a limited scan reads. None: fewer than `STRIDE` entries are left, so the
    scan needs no limit."""
    bounds = asdict(span) | {"stride": listing.STRIDE}
    end: int | None = yield from value(in_direction("audit_end", page), org_id=where.org_id, **bounds)
    return end


def _rare(where: AuditFilter) -> bool:
    """Return whether the filter may match so rarely that one call should read only `STRIDE` entries."""
    return any(each is not None for each in (where.app_id, where.action, where.actor, where.subject))
