"""The state of the outbox, and its rows that could not become messages: list, retry or discard them."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.model.audit import Note
from hookline.model.outbox import OutboxView, SetAside
from hookline.store import rows
from hookline.store.bounds import COUNTED
from hookline.store.pages import Page
from hookline.store.plans.plan import Plan, Plans, Step, by_number, changes, noted, reads


class SetAsideRows(Plans):
    """Show the state of the outbox, and list, retry or discard rows that were set aside."""

    @reads
    def outbox(self) -> Plan[OutboxView]:
        """Return the state of the outbox. The cost does not grow with the backlog."""
        found = yield Step("outbox", max_rows=COUNTED)
        return self._reading.struct(OutboxView, found[0])

    @reads
    def set_aside(self, page: Page) -> Plan[list[SetAside]]:
        """Return a page of outbox rows that could not become messages, sorted by row number. `page.iterator` is the row
        number after which the page begins."""
        found = yield from by_number("set_aside", page)
        return [rows.set_aside(each, self._reading) for each in found]

    @changes
    def retry_set_aside(self, ids: Sequence[int] | None, *, note: Note[int] | None = None) -> Plan[int]:
        """Move these rows (None: all that were set aside) back to the outbox, and return their number."""
        if ids is None:
            back = yield Step("set_aside_retry_all")
        else:
            back = yield Step("set_aside_retry", ids=list(ids))
        return (yield from noted(note, len(back)))

    @changes
    def discard_set_aside(self, ids: Sequence[int], *, note: Note[int] | None = None) -> Plan[int]:
        """Delete these rows permanently and return their number."""
        gone = yield Step("set_aside_discard", ids=list(ids))
        return (yield from noted(note, len(gone)))
