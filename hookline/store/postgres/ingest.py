"""Ingest: a batch of messages becomes durable, with its deliveries and tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from hookline.errors import InvalidInput, StoreUnavailable
from hookline.model import Accepted, IngestStatus, NewMessage
from hookline.store import rows
from hookline.store.base import StoreOptions
from hookline.store.postgres.base import Part, made_within
from hookline.store.postgres.database import DATA_ERRORS, Connection, Database
from hookline.vault import Vault

_SETTLE_TRIES, _SETTLE_PAUSE = 40, 0.05
_MOST_DOUBTS = 50_000


class Ingest(Part):
    def __init__(self, database: Database, vault: Vault, options: StoreOptions) -> None:
        super().__init__(database, vault, options)
        self._doubts: dict[str, int] = {}  # messages whose COMMIT was not answered, and the server process that had it

    async def ingest(self, batch: Sequence[NewMessage]) -> list[Accepted]:
        if not batch:
            return []
        known = await self._settle_doubts(batch)
        fresh = [message for message in batch if message.id not in known]
        answers = iter(await self._ingest_fresh(fresh))
        return [known.get(message.id) or next(answers) for message in batch]

    async def _ingest_fresh(self, batch: Sequence[NewMessage]) -> list[Accepted]:
        if not batch:
            return []
        process = 0
        try:
            async with self._db.hot() as connection:
                process = connection.get_server_pid()
                return await self._ingest_on(connection, batch)
        except DATA_ERRORS as error:
            raise InvalidInput(f"a message cannot be stored: {error}") from error
        except StoreUnavailable:
            if process == 0:
                raise
            self._note_doubts(batch, process)
            known = await self._settle_doubts(batch)
            if len(known) < len(batch):
                raise
            return [known[message.id] for message in batch]

    async def _ingest_on(self, connection: Connection, batch: Sequence[NewMessage]) -> list[Accepted]:
        """One round trip where one statement can do it."""
        if _simple(batch):
            return await self._accept(connection, batch)
        async with connection.transaction():
            return await self._accept(connection, batch)

    async def _accept(self, connection: Connection, batch: Sequence[NewMessage]) -> list[Accepted]:
        """Of those with one key or event id the first goes ahead; the others come after it and find it there."""
        first, later = _first_of_each(batch)
        answers = await self._insert(connection, first)
        if later:
            answers |= dict(zip(later, await self._accept(connection, list(later.values())), strict=True))
        return [answers[index] for index in range(len(batch))]

    async def _insert(self, connection: Connection, batch: dict[int, NewMessage]) -> dict[int, Accepted]:
        options = self._options
        found = await connection.fetch(
            self._sql["ingest"], *_columns(batch.values()), options.idempotency_hours * 3600, options.retry.max_age
        )
        accepted = {
            row["id"]: Accepted(
                status=IngestStatus.ACCEPTED,
                message_id=row["id"],
                created_at=row["now"],
                deliveries=row["deliveries"],
            )
            for row in found
        }
        refused = [message for message in batch.values() if message.id not in accepted]
        if refused:
            accepted |= await self._refused(connection, refused)
        return {index: accepted[message.id] for index, message in batch.items()}

    async def _refused(self, connection: Connection, refused: Sequence[NewMessage]) -> dict[str, Accepted]:
        keys = [message.idempotency_key for message in refused if message.idempotency_key is not None]
        events = [(message.app_no, message.event_id) for message in refused if message.event_id is not None]
        by_key = {row["key"]: row for row in await connection.fetch(self._sql["ingest_keys"], keys)} if keys else {}
        by_event = {}
        if events:
            found = await connection.fetch(self._sql["ingest_event_ids"], *map(list, zip(*events, strict=True)))
            by_event = {(row["app_no"], row["event_id"]): row for row in found}
        if keys and events:
            await connection.execute(self._sql["ingest_forget_keys"], keys, [message.id for message in refused])
        return {
            message.id: _refusal(
                message, by_key.get(message.idempotency_key), by_event.get((message.app_no, message.event_id))
            )
            for message in refused
        }

    # ── a COMMIT that was not answered ──

    def _note_doubts(self, batch: Iterable[NewMessage], process: int) -> None:
        self._doubts |= {message.id: process for message in batch}
        while len(self._doubts) > _MOST_DOUBTS:
            self._doubts.pop(next(iter(self._doubts)))

    async def _settle_doubts(self, batch: Sequence[NewMessage]) -> dict[str, Accepted]:
        """Those of the batch that are already there: a caller that tries again with the same id must not double it."""
        doubtful = [message.id for message in batch if message.id in self._doubts]
        if not doubtful:
            return {}
        for process in {self._doubts[message_id] for message_id in doubtful}:
            await self._wait_for_end(process)
        spans = [made_within(message_id) for message_id in doubtful]
        since, until = min(span[0] for span in spans), max(span[1] for span in spans)
        found = await self._db.fetch("ingest_settle", doubtful, since, until)
        for message_id in doubtful:
            self._doubts.pop(message_id, None)
        return {row["id"]: _there(row) for row in found}

    async def _wait_for_end(self, process: int) -> None:
        for _ in range(_SETTLE_TRIES):
            if not await self._db.fetchval("ingest_at_work", process):
                return
            await asyncio.sleep(_SETTLE_PAUSE)  # the server tells nobody that a process has ended
        raise StoreUnavailable("a lost connection is still at work in PostgreSQL; try again")


def _there(row: Any) -> Accepted:
    return Accepted(
        status=IngestStatus.ACCEPTED, message_id=row["id"], created_at=row["created_at"], deliveries=row["deliveries"]
    )


def _simple(batch: Sequence[NewMessage]) -> bool:
    """Whether one statement does it all: no message with both a key and an event id, and none of them twice."""
    keys = [message.idempotency_key for message in batch if message.idempotency_key is not None]
    events = [(message.app_no, message.event_id) for message in batch if message.event_id is not None]
    if len(set(keys)) < len(keys) or len(set(events)) < len(events):
        return False
    return not (keys and events) or not any(message.idempotency_key and message.event_id for message in batch)


def _first_of_each(batch: Sequence[NewMessage]) -> tuple[dict[int, NewMessage], dict[int, NewMessage]]:
    first: dict[int, NewMessage] = {}
    later: dict[int, NewMessage] = {}
    seen: set[object] = set()
    for index, message in enumerate(batch):
        names: set[object] = set()
        if message.idempotency_key is not None:
            names.add(message.idempotency_key)
        if message.event_id is not None:
            names.add((message.app_no, message.event_id))
        (later if names & seen else first)[index] = message
        seen |= names
    return first, later


def _columns(batch: Iterable[NewMessage]) -> list[list[Any]]:
    return [list(column) for column in zip(*map(_row, batch), strict=True)]


def _row(message: NewMessage) -> tuple[Any, ...]:
    return (
        message.id,
        message.app_no,
        message.event_type,
        message.payload,
        message.event_id,
        text_array(message.channels),
        text_array(message.tags),
        message.ordering_key,
        message.deliver_at,
        rows.policy_text(message.policy),
        message.idempotency_key,
        message.idempotency_body or b"",
    )


def text_array(texts: Sequence[str] | None) -> str | None:
    """An array as PostgreSQL writes it: `unnest` would flatten an array of arrays."""
    if texts is None:
        return None
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return "{" + ",".join(f'"{text}"' for text in quoted) + "}"


def _refusal(message: NewMessage, key: Any, event: Any) -> Accepted:
    if key is not None and key["message_id"] != message.id:
        same = key["body"] == (message.idempotency_body or b"")
        status = IngestStatus.REPLAYED if same else IngestStatus.KEY_REUSED
        return Accepted(status=status, message_id=key["message_id"], created_at=key["created_at"])
    if event is not None:
        return Accepted(
            status=IngestStatus.EVENT_ID_TAKEN, message_id=event["message_id"], created_at=event["created_at"]
        )
    return Accepted(status=IngestStatus.NO_APPLICATION, message_id=message.id)
