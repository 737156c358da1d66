"""Ingest: store a batch of messages with their deliveries and wake tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from hookline import clock
from hookline.errors import Conflict, InvalidInput, StoreUnavailable
from hookline.model.deliveries import LeasedDelivery, Offer
from hookline.model.messages import Accepted, BatchAccepted, IngestStatus, NewBatch, NewMessage
from hookline.store.plans import batch_answers
from hookline.store.plans.message_by_id import made_within
from hookline.store.postgres.database import DATA_ERRORS, Connection, Database
from hookline.store.rows import documents
from hookline.store.rows.handed_over import handed_over

_SETTLE_TRIES, _SETTLE_PAUSE = 40, 0.05
_MAX_DOUBTS = 50_000
# Seconds to wait while another request uses the same idempotency key: the first pause, the longest pause, all
# pauses.
_FIRST_PAUSE, _LONGEST_PAUSE, _MAX_WAIT = 0.005, 0.1, 3.0


class Ingest:
    def __init__(self, database: Database) -> None:
        self._db = database
        self._sql = database.sql
        self._options = database.options
        # Messages whose COMMIT was not confirmed: the process id of the PostgreSQL backend that ran it, by message id.
        self._doubts: dict[str, int] = {}

    async def ingest(self, batch: Sequence[NewMessage], offer: Offer | None = None) -> list[Accepted]:
        if not batch:
            return []
        known = await self._settle_doubts(batch)
        fresh = [message for message in batch if message.id not in known]
        answers = iter(await self._ingest_fresh(fresh, offer))
        return [known.get(message.id) or next(answers) for message in batch]

    async def _ingest_fresh(self, batch: Sequence[NewMessage], offer: Offer | None = None) -> list[Accepted]:
        if not batch:
            return []
        process = 0
        try:
            async with self._db.cached_plans() as connection:
                process = connection.get_server_pid()
                return await self._ingest_on(connection, batch, offer)
        except DATA_ERRORS as error:
            raise InvalidInput(f"a message cannot be stored: {error}") from error
        except StoreUnavailable:
            if process == 0:
                raise
            self._note_doubts(batch, process)
            known = await self._settle_doubts(batch)
            if not known:
                raise
        # At least one message is stored, so the COMMIT took effect, although it was not confirmed. That transaction
        # refused the messages that are not in `known`. They are refused again now.
        refused = iter(await self._ingest_fresh([message for message in batch if message.id not in known]))
        return [known.get(message.id) or next(refused) for message in batch]

    async def _ingest_on(
        self, connection: Connection, batch: Sequence[NewMessage], offer: Offer | None
    ) -> list[Accepted]:
        """Accept a batch, in one round trip if one statement can do it."""
        if _simple(batch):
            return await self.accept(connection, batch, offer)
        async with connection.transaction():
            return await self.accept(connection, batch)

    async def accept(
        self, connection: Connection, batch: Sequence[NewMessage], offer: Offer | None = None
    ) -> list[Accepted]:
        """Accept a batch. If several messages have the same idempotency key, the first is stored first, so that the
        others find its key."""
        answers: dict[int, Accepted] = {}
        rest = dict(enumerate(batch))
        while rest:
            first, rest = _first_of_each(rest)
            answers |= await self._insert(connection, first, offer)
        return [answers[index] for index in range(len(batch))]

    async def _insert(
        self, connection: Connection, batch: dict[int, NewMessage], offer: Offer | None
    ) -> dict[int, Accepted]:
        options = self._options
        settings = options.idempotency_hours * 3600, options.retry.max_age, ages(batch.values())
        lease = self.lease_values(offer)
        found = await connection.fetch(self._sql["ingest"], *_columns(batch.values()), *settings, *lease)
        if offer is not None and found and found[-1]["id"] is None:
            lease_to(offer, found.pop(), batch.values(), lease)
        accepted = {row["id"]: _committed(row) for row in found}
        refused = [message for message in batch.values() if message.id not in accepted]
        if refused:
            accepted |= await self._refused(connection, refused)
        return {index: accepted[message.id] for index, message in batch.items()}

    def lease_values(self, offer: Offer | None) -> tuple[list[int] | None, int | None, float]:
        """Return the parameters of the statement that leases deliveries to the worker that made the offer."""
        if offer is None or not offer.reserved:
            return None, None, self._options.lease
        return list(offer.reserved), clock.chance.getrandbits(62), self._options.lease

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
        return {message.id: _refusal(message, by_key, by_event) for message in refused}

    async def accepted_under(self, key: bytes, body: bytes) -> Accepted | None:
        found = await self._db.fetchrow("ingest_accepted_under", key)
        return None if found is None else _judge_key(body, found)

    # ── a batch that one caller sends ──

    async def ingest_batch(self, batch: NewBatch) -> BatchAccepted:
        if batch.idempotency_key is None:
            return batch_answers.accepted(batch, await self.ingest(batch.messages))
        for pause in _pauses():
            try:
                found = await self._try_batch(batch, batch.idempotency_key)
            except DATA_ERRORS as error:
                raise InvalidInput(f"a message cannot be stored: {error}") from error
            if found is not None:
                return found
            # Wait without holding a connection. The request that uses the key sends no notification at its end.
            await asyncio.sleep(pause)
        raise Conflict("another request with this idempotency key is still running; try again in a moment")

    async def _try_batch(self, batch: NewBatch, key: bytes) -> BatchAccepted | None:
        """Accept a batch under its idempotency key. Return None if another request is using this key now."""
        process = 0

        async def work(connection: Connection) -> BatchAccepted | None:
            nonlocal process
            process = connection.get_server_pid()
            return await self._batch_on(connection, batch, key)

        try:
            return await self._db.transact(work, cached_plans=True)
        except StoreUnavailable:
            if process == 0:
                raise
            await self._wait_for_end(process)
            # If the first try was committed, its key is stored, and the second try returns the stored answers.
            return await self._db.transact(work, cached_plans=True)

    async def _batch_on(self, connection: Connection, batch: NewBatch, key: bytes) -> BatchAccepted | None:
        if not await connection.fetchval(self._sql["ingest_batch_lock"], _lock_of(key)):
            return None
        body, seconds = batch.idempotency_body or b"", self._options.idempotency_hours * 3600
        if not await connection.fetchval(self._sql["ingest_batch_key"], key, body, seconds):
            kept = await connection.fetchrow(self._sql["ingest_batch_kept"], key)
            return None if kept is None else batch_answers.again(batch, kept["body"], kept["answers"])
        accepted = batch_answers.accepted(batch, await self.accept(connection, batch.messages))
        await connection.execute(self._sql["ingest_batch_keep"], key, batch_answers.keep(accepted))
        return accepted

    # ── an unconfirmed COMMIT ──

    def _note_doubts(self, batch: Iterable[NewMessage], process: int) -> None:
        self._doubts |= {message.id: process for message in batch}
        while len(self._doubts) > _MAX_DOUBTS:
            self._doubts.pop(next(iter(self._doubts)))

    async def _settle_doubts(self, batch: Sequence[NewMessage]) -> dict[str, Accepted]:
        """Return the messages of the batch that an unconfirmed COMMIT has stored. A caller that retries with the same
        id must not create a duplicate."""
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
        return {row["id"]: _committed(row) for row in found}

    async def _wait_for_end(self, process: int) -> None:
        for _ in range(_SETTLE_TRIES):
            if not await self._db.fetchval("ingest_at_work", process):
                return
            await asyncio.sleep(_SETTLE_PAUSE)  # PostgreSQL sends no notification when a backend process ends
        raise StoreUnavailable("PostgreSQL is still running a transaction of a lost connection; try again")


def _lock_of(key: bytes) -> int:
    """Return the number of the advisory lock for an idempotency key.

    Two different keys may have the same lock. Their requests then run one after the other.
    """
    return int.from_bytes(key[:4], "big", signed=True)


def _pauses() -> Iterator[float]:
    """Yield increasing pauses, in seconds, until their sum reaches `_MAX_WAIT`.

    A request makes these pauses while another request with the same idempotency key runs.
    """
    pause, left = _FIRST_PAUSE, _MAX_WAIT
    while left > 0:
        yield pause
        left -= pause
        pause = min(2 * pause, _LONGEST_PAUSE)


def lease_to(offer: Offer, row: Any, batch: Iterable[NewMessage], lease: tuple[Any, ...]) -> None:
    """Give the deliveries that a statement leased to the worker that made the offer. `lease` has the parameters that the
    statement got for that."""
    messages = {message.id: message for message in batch}
    lanes = {endpoint_no: (revision, epoch) for endpoint_no, revision, epoch in row["lanes"] or ()}
    now, (_, claim, _) = row["created_at"], lease
    offer.took = row["took"]
    offer.jobs = [_leased(each, messages[each[0]], now, claim, *lanes[each[2]]) for each in row["leased"] or ()]


def _leased(
    row: Sequence[Any], message: NewMessage, now: datetime, claim: int, revision: int, epoch: int
) -> LeasedDelivery:
    _, delivery_id, endpoint_no, due_at, expires_at, lease_until, policy = row
    return handed_over(
        message,
        delivery_id=delivery_id,
        claim=claim,
        endpoint_no=endpoint_no,
        revision=revision,
        epoch=epoch,
        now=now,
        lease_until=lease_until,
        due_at=due_at,
        expires_at=expires_at,
        policy=documents.read_policy(policy),
    )


def _committed(row: Any) -> Accepted:
    at, deliveries = row["created_at"], row["deliveries"]
    return Accepted(status=IngestStatus.ACCEPTED, message_id=row["id"], created_at=at, deliveries=deliveries)


def _simple(batch: Sequence[NewMessage]) -> bool:
    """Return whether one statement can accept the batch: no message has both an idempotency key and an event id, and
    no idempotency key occurs twice."""
    keys = [message.idempotency_key for message in batch if message.idempotency_key is not None]
    if len(set(keys)) < len(keys):
        return False
    return not keys or not any(message.idempotency_key and message.event_id for message in batch)


def _first_of_each(batch: dict[int, NewMessage]) -> tuple[dict[int, NewMessage], dict[int, NewMessage]]:
    first: dict[int, NewMessage] = {}
    later: dict[int, NewMessage] = {}
    seen: set[bytes] = set()
    for index, message in batch.items():
        key = message.idempotency_key
        (later if key in seen else first)[index] = message
        if key is not None:
            seen.add(key)
    return first, later


def _columns(batch: Iterable[NewMessage]) -> list[list[Any]]:
    return [list(column) for column in zip(*map(_row, batch), strict=True)]


def contents(batch: Iterable[NewMessage]) -> list[list[Any]]:
    """Return the columns of messages, without those of idempotency keys."""
    return [list(column) for column in zip(*map(_content, batch), strict=True)]


def ages(batch: Iterable[NewMessage]) -> str | None:
    """Return how many seconds each message waited in an outbox: a JSON object by message id. None: none has waited."""
    waited = {message.id: message.age for message in batch if message.age > 0}
    return msgspec.json.encode(waited).decode() if waited else None


def _row(message: NewMessage) -> tuple[Any, ...]:
    return (*_content(message), message.idempotency_key, message.idempotency_body or b"")


def _content(message: NewMessage) -> tuple[Any, ...]:
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
        documents.policy_text(message.policy),
        message.trace,
    )


def text_array(texts: Sequence[str] | None) -> str | None:
    """Encode an array as PostgreSQL text, because `unnest` would flatten an array of arrays."""
    if texts is None:
        return None
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return "{" + ",".join(f'"{text}"' for text in quoted) + "}"


def _judge_key(asked: bytes, key: Any) -> Accepted:
    return _earlier(IngestStatus.REPLAYED if asked == key["body"] else IngestStatus.KEY_REUSED, key)


def _earlier(status: IngestStatus, row: Any) -> Accepted:
    return Accepted(status=status, message_id=row["message_id"], created_at=row["created_at"])


def _refusal(message: NewMessage, by_key: Mapping[Any, Any], by_event: Mapping[Any, Any]) -> Accepted:
    key, event = by_key.get(message.idempotency_key), by_event.get((message.app_no, message.event_id))
    if key is not None and key["message_id"] != message.id:
        return _judge_key(message.idempotency_body or b"", key)
    if event is not None:
        return _earlier(IngestStatus.EVENT_ID_TAKEN, event)
    return Accepted(status=IngestStatus.NO_APPLICATION, message_id=message.id)
