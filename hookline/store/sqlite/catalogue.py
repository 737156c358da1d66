"""The store's catalogue (applications, event types and endpoints) on SQLite.

When an endpoint is resumed, the time budgets of its deliveries restart in batches.
"""

from __future__ import annotations

from hookline.model.states import EndpointStatus
from hookline.store.parts import Catalogue
from hookline.store.sqlite.database import Database
from hookline.store.sqlite.transaction import Tx

BATCH = 2000  # maximum deliveries that one transaction changes


class SqliteCatalogue(Catalogue):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._db = database

    async def _renew_held(self, endpoint_no: int, status: EndpointStatus) -> None:
        """Before a paused endpoint changes its status, restart the time budgets of its waiting and queued
        deliveries, in batches. If one transaction did this for a long backlog, it would block other writes."""
        if status == EndpointStatus.PAUSED:
            return
        found = await self.endpoints_for([endpoint_no])
        if found and found[0].status == EndpointStatus.PAUSED:
            after: tuple[int, int] | None = (-1, -1)
            while after is not None:
                after = await self._db.write(_renew_waiting, endpoint_no, after, BATCH)
            behind: tuple[str, int, int] | None = ("", -1, -1)
            while behind is not None:
                behind = await self._db.write(_renew_queued, endpoint_no, behind, BATCH)


def _renew_waiting(tx: Tx, endpoint_no: int, after: tuple[int, int], limit: int) -> tuple[int, int] | None:
    """Restart the time budgets of at most `limit` waiting deliveries in a paused lane, from the position `after` on.
    Return the position where this batch ends, or None if it was the last batch."""
    params = {"no": endpoint_no, "due_at": after[0], "id": after[1], "limit": limit, "now": tx.now}
    last = tx.row("held_stretch", params)
    end = (last[0], last[1]) if last is not None else (1 << 62, 1 << 62)
    bounds = {"last_due": end[0], "last_id": end[1], "max_age": tx.options.retry.max_age}
    tx.run("held_renew", params | bounds)
    return None if last is None else end


def _renew_queued(tx: Tx, endpoint_no: int, after: tuple[str, int, int], limit: int) -> tuple[str, int, int] | None:
    """Restart the time budgets of at most `limit` queued deliveries in a paused lane, from the position `after` on.
    Return the position where this batch ends, or None if it was the last batch."""
    key, seq, id_ = after
    params = {"no": endpoint_no, "key": key, "seq": seq, "id": id_, "limit": limit, "now": tx.now}
    last = tx.row("queued_stretch", params)
    end = (last[0], last[1], last[2]) if last is not None else None
    # If the range has no end, use a blob as its end. A blob sorts after every text, so all remaining rows are
    # included.
    last_key, last_seq, last_id = end or (b"", 0, 0)
    bounds = {"last_key": last_key, "last_seq": last_seq, "last_id": last_id, "max_age": tx.options.retry.max_age}
    tx.run("queued_renew", params | bounds)
    return end
