"""Outbox rows that could not become messages: retry or discard them."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.model.audit import Note
from hookline.store.plans.plan import Plan, Shared, Step, changes, noted


class RowsSetAside(Shared):
    @changes
    def retry_set_aside(self, ids: Sequence[int] | None, *, note: Note[int] | None = None) -> Plan[int]:
        if ids is None:
            back = yield Step("set_aside_retry_all")
        else:
            back = yield Step("set_aside_retry", ids=list(ids))
        return (yield from noted(note, len(back)))

    @changes
    def discard_set_aside(self, ids: Sequence[int], *, note: Note[int] | None = None) -> Plan[int]:
        gone = yield Step("set_aside_discard", ids=list(ids))
        return (yield from noted(note, len(gone)))
