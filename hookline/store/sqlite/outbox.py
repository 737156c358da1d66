"""The outbox of this database, and rows that were copied from other databases."""

from __future__ import annotations

from collections.abc import Sequence

from hookline.model.outbox import OutboxPlace, OutboxRow, RelayReport
from hookline.store.sqlite import relay
from hookline.store.sqlite.database import Database, wait_for
from hookline.store.stages import HandOver

# Maximum seconds between two polls of the outbox. The writer thread sets the event `outbox` when another connection has
# committed. Commits of the writer's own connection do not set the event, so the relay finds their rows only by polling.
_MAX_POLL = 0.1


class Outbox:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def relay(self, limit: int, hand_over: HandOver | None = None) -> RelayReport:  # noqa: ARG002
        """Relay as the protocol says, but without hand-over: only operational events are in this outbox, and their
        deliveries may wait for a claim."""
        return self._woke(await self._db.write(relay.relay, limit))

    async def wait_outbox(self, timeout: float) -> None:
        await wait_for(self._db.events.outbox, min(timeout, _MAX_POLL))

    async def leave_outbox(self) -> None:
        """Do nothing. On PostgreSQL this lets another relay listen. On SQLite every process sees every commit."""

    async def take(
        self,
        rows: Sequence[OutboxRow],
        *,
        source: str,
        place: OutboxPlace | None = None,
        after: OutboxPlace | None = None,
    ) -> RelayReport | None:
        report = await self._db.write(relay.take, rows, source, place, after)
        return None if report is None else self._woke(report)

    async def place(self, source: str) -> OutboxPlace | None:
        return await self._db.read(relay.place_of, source)

    def _woke(self, report: RelayReport) -> RelayReport:
        if report.relayed:
            self._db.events.work.set()
        return report
