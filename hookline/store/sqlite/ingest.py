"""Ingest: write messages, deliveries, wake tokens, event ids and idempotency keys in one transaction.

Lane rows are never written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hookline.model.endpoints import Ordering
from hookline.model.messages import Accepted, BatchAccepted, IngestStatus, NewBatch, NewMessage
from hookline.model.states import DeliveryState
from hookline.rules.fanout import Plan, Route, Target, max_age
from hookline.rules.ordering import queue_of
from hookline.store.plans import batch_answers
from hookline.store.rows.documents import policy_text, read_policy
from hookline.store.sqlite.clock import instant, to_micros
from hookline.store.sqlite.database import Database
from hookline.store.sqlite.lanes import Wakes
from hookline.store.sqlite.transaction import READ, Tx, texts

PLANS = 10_000  # maximum applications whose `fanout.Plan` is cached

_SCHEDULED = 0
# Plain integers, because the driver binds enum members many times slower.
_PENDING, _QUEUED = int(DeliveryState.PENDING), int(DeliveryState.QUEUED)


class Ingest:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def ingest(self, batch: Sequence[NewMessage]) -> list[Accepted]:
        answers = await self._db.write(ingest, batch)
        self._db.events.work.set()
        return answers

    async def ingest_batch(self, batch: NewBatch) -> BatchAccepted:
        accepted = await self._db.write(_ingest_batch, batch)
        self._db.events.work.set()
        return accepted

    async def accepted_under(self, key: bytes, body: bytes) -> Accepted | None:
        return await self._db.read(_accepted_under, key, body)


def ingest(tx: Tx, batch: Sequence[NewMessage]) -> list[Accepted]:
    ingesting = IngestBatch(tx)
    answers = [ingesting.accept(new) for new in batch]
    ingesting.write()
    return answers


def _ingest_batch(tx: Tx, batch: NewBatch) -> BatchAccepted:
    key, body = batch.idempotency_key, batch.idempotency_body or b""
    kept = None if key is None else tx.row("ingest_batch_kept", (key, tx.now))
    if kept is not None:
        return batch_answers.again(batch, *kept)
    accepted = batch_answers.accepted(batch, ingest(tx, batch.messages))
    if key is not None:
        expires = tx.now + round(tx.options.idempotency_hours * 3_600_000_000)
        tx.run("ingest_batch_keep", (key, body, tx.now, expires, batch_answers.keep(accepted)))
    return accepted


def _accepted_under(tx: Tx, key: bytes, body: bytes) -> Accepted | None:
    found = tx.row("ingest_keys", (key, tx.now))
    return None if found is None else _judge_key(body, *found)


def plan_of(tx: Tx, app_no: int) -> Plan | None:
    """Return the endpoints of an application with their filters and policies, and the policies of its event types.
    Return None if the application does not exist.

    `Plan.routes` then finds the endpoints that get a message. The result is cached until an application, an endpoint
    or an event type changes.
    """
    plans = tx.context.plans
    if app_no not in plans:
        if len(plans) >= PLANS:
            plans.clear()
        plans[app_no] = _load_plan(tx, app_no)
    return plans[app_no]


def _load_plan(tx: Tx, app_no: int) -> Plan | None:
    org_id = tx.value("ingest_application", (app_no,))
    if org_id is None:
        return None
    policies = {name: read_policy(text) for name, text in tx.tuples("ingest_type_policies", (org_id,))}
    targets = [_target(*row) for row in sorted(tx.tuples("ingest_targets", (app_no,)))]
    return Plan(targets, {name: policy for name, policy in policies.items() if policy is not None})


def _target(no: int, event_types: str | None, channels: str | None, policy: str | None, ordering: str) -> Target:
    return Target(
        endpoint_no=no,
        event_types=None if event_types is None else frozenset(READ.texts(event_types)),
        channels=None if channels is None else frozenset(READ.texts(channels)),
        policy=read_policy(policy),
        ordering=Ordering(ordering),
    )


class IngestBatch:
    """The state of one batch. New rows are written at the end, table by table."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._at = tx.at
        self._seq: int = tx.value("ingest_last_seq") or 0
        self._wakes = Wakes(tx)
        self._messages: list[tuple[Any, ...]] = []
        self._deliveries: list[tuple[Any, ...]] = []
        self._event_ids: dict[tuple[int, str], tuple[Any, ...]] = {}
        self._keys: dict[bytes, tuple[Any, ...]] = {}
        self._keep_key = to_micros(self._at) + round(tx.options.idempotency_hours * 3_600_000_000)

    def accept(self, new: NewMessage) -> Accepted:
        plan = plan_of(self._tx, new.app_no)
        if plan is None:
            return Accepted(status=IngestStatus.NO_APPLICATION, message_id=new.id)
        earlier = self._same_key(new) or self._same_event(new)
        if earlier is not None:
            return earlier
        self._seq += 1
        self._note_keys(new)
        self._message(new)
        routes = plan.routes(new.event_type, new.channels, new.policy)
        self._fan_out(new, routes)
        return Accepted(status=IngestStatus.ACCEPTED, message_id=new.id, created_at=self._at, deliveries=len(routes))

    def write(self) -> None:
        self._tx.many("message_insert", self._messages)
        self._tx.many("delivery_insert", self._deliveries)
        self._tx.many("event_id_insert", list(self._event_ids.values()))
        self._tx.many("key_insert", list(self._keys.values()))
        self._wakes.write()

    def _same_key(self, new: NewMessage) -> Accepted | None:
        if new.idempotency_key is None:
            return None
        same = self._keys.get(new.idempotency_key, ())[1:4]
        found = same or self._tx.row("ingest_keys", (new.idempotency_key, self._tx.now))
        return None if found is None else _judge_key(new.idempotency_body or b"", *found)

    def _same_event(self, new: NewMessage) -> Accepted | None:
        if new.event_id is None:
            return None
        key = new.app_no, new.event_id
        found = self._event_ids.get(key, ())[2:] or self._tx.row("ingest_event_ids", key)
        if found is None:
            return None
        message_id, created_at = found
        return Accepted(status=IngestStatus.EVENT_ID_TAKEN, message_id=message_id, created_at=instant(created_at))

    def _note_keys(self, new: NewMessage) -> None:
        now = self._tx.now
        if new.event_id is not None:
            self._event_ids[new.app_no, new.event_id] = (new.app_no, new.event_id, new.id, now)
        if new.idempotency_key is not None:
            body = new.idempotency_body or b""
            self._keys[new.idempotency_key] = (new.idempotency_key, body, new.id, now, self._keep_key)

    def _message(self, new: NewMessage) -> None:
        self._messages.append(
            (
                self._seq,
                new.id,
                new.app_no,
                new.event_type,
                new.event_id,
                texts(new.channels),
                texts(new.tags),
                new.ordering_key,
                None if new.deliver_at is None else to_micros(new.deliver_at),
                policy_text(new.policy),
                new.payload,
                self._tx.now,
                new.trace,
            )
        )

    def _fan_out(self, new: NewMessage, routes: Sequence[Route]) -> None:
        now, retry = self._tx.now, self._tx.options.retry
        deliver_at = 0 if new.deliver_at is None else to_micros(new.deliver_at)
        due, begins = max(now, deliver_at), max(now - round(new.age * 1_000_000), deliver_at)
        for route in routes:
            no, policy = route.endpoint_no, route.policy
            expires = begins + round(max_age(policy, retry) * 1_000_000)
            key = queue_of(route.ordering, new.ordering_key)
            row = (
                new.app_no,
                no,
                self._seq,
                now,
                new.id,
                new.event_type,
                _SCHEDULED,
                due,
                expires,
                policy_text(policy),
                key,
                _PENDING if key is None else _QUEUED,
            )
            self._deliveries.append(row)
            if key is None:
                self._wakes.add(no, due, due)
            else:
                self._wakes.turn(no, key, due)


def _judge_key(asked: bytes, body: bytes, message_id: str, created_at: int) -> Accepted:
    status = IngestStatus.REPLAYED if asked == body else IngestStatus.KEY_REUSED
    return Accepted(status=status, message_id=message_id, created_at=instant(created_at))
