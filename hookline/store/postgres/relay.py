"""Relay: outbox rows of this database become messages, in the transaction that deletes them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from hookline import ids
from hookline.clock import wall
from hookline.errors import InvalidInput
from hookline.flow.record import clean
from hookline.messages import check_message
from hookline.model import IngestStatus, NewMessage, RelayReport
from hookline.operational import MANAGEMENT, room
from hookline.store import rows
from hookline.store.postgres.database import DATA_ERRORS, Connection
from hookline.store.postgres.ingest import Ingest

_Taken = tuple[int, NewMessage]  # the outbox row and what it becomes


class Relay(Ingest):
    async def relay(self, limit: int) -> RelayReport:
        async def work(connection: Connection) -> RelayReport:
            return await self._relay(connection, limit)

        return await self._db.transact(work)

    async def _relay(self, connection: Connection, limit: int) -> RelayReport:
        keyed = await connection.fetchval(self._sql["relay_guard"])
        found = await connection.fetch(self._sql["relay_rows"], limit, keyed, MANAGEMENT)
        taken, faults = _messages(found, wall(), self._options.max_payload)
        statuses = await self._relay_batch(connection, taken, faults)
        gone = [row_id for row_id, status in statuses.items() if status != IngestStatus.NO_APPLICATION]
        faults |= {row_id: "no such application" for row_id in statuses if row_id not in gone}
        if gone:
            await connection.execute(self._sql["relay_delete"], gone)
        if faults:
            await connection.execute(self._sql["relay_set_aside"], list(faults), list(faults.values()))
        relayed = sum(status == IngestStatus.ACCEPTED for status in statuses.values())
        reasons = tuple(faults.values())[:3]
        return RelayReport(relayed=relayed, repeated=len(gone) - relayed, set_aside=len(faults), reasons=reasons)

    async def _relay_batch(
        self, connection: Connection, taken: Sequence[_Taken], faults: dict[int, str]
    ) -> dict[int, IngestStatus]:
        """Halved down to the row that the database will not take; that one is set aside and never blocks the rest."""
        if not taken:
            return {}
        try:
            async with connection.transaction():
                answers = await self._accept(connection, [message for _, message in taken])
        except DATA_ERRORS as error:
            if len(taken) == 1:
                faults[taken[0][0]] = clean(str(error))
                return {}
            middle = len(taken) // 2
            first = await self._relay_batch(connection, taken[:middle], faults)
            return first | await self._relay_batch(connection, taken[middle:], faults)
        return {row_id: answer.status for (row_id, _), answer in zip(taken, answers, strict=True)}


def _messages(found: Sequence[Any], now: datetime, max_payload: int) -> tuple[list[_Taken], dict[int, str]]:
    taken: list[_Taken] = []
    faults: dict[int, str] = {}
    for row in found:
        if row["app_no"] is None:
            faults[row["id"]] = clean(f"no such application: {row['app']}")
            continue
        try:
            message = _message(row, ids.mint(ids.MESSAGE, now))
            most = room(row["org_id"], max_payload)
            taken.append((row["id"], check_message(message, now=now, max_payload=most)))
        except msgspec.MsgspecError as error:
            faults[row["id"]] = clean(f"the policy cannot be used: {error}")
        except InvalidInput as error:
            faults[row["id"]] = clean(str(error))
    return taken, faults


def _message(row: Any, message_id: str) -> NewMessage:
    return NewMessage(
        id=message_id,
        app_no=row["app_no"],
        event_type=row["event_type"],
        payload=row["payload"],
        event_id=row["event_id"],
        channels=None if row["channels"] is None else tuple(row["channels"]),
        tags=None if row["tags"] is None else tuple(row["tags"]),
        ordering_key=row["ordering_key"],
        deliver_at=row["deliver_at"],
        policy=rows.read_policy(row["policy"]),
    )
