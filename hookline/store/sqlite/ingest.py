"""Ingest: write messages, deliveries, wake tokens, event ids and idempotency keys in one transaction.

Lane rows are never written.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from hookline import clock
from hookline.model.deliveries import Offer
from hookline.model.endpoints import Ordering
from hookline.model.messages import Accepted, BatchAccepted, IngestStatus, NewBatch, NewMessage
from hookline.model.policy import PolicyOverride
from hookline.model.states import DeliveryState
from hookline.rules.claim.budgets import LARGE
from hookline.rules.fanout import Plan, Route, Target, max_age
from hookline.rules.ordering import queue_of
from hookline.store.plans import batch_answers
from hookline.store.rows.documents import policy_text, read_policy
from hookline.store.rows.handed_over import handed_over
from hookline.store.sqlite.clock import instant, to_micros
from hookline.store.sqlite.database import Database
from hookline.store.sqlite.lanes import Wakes
from hookline.store.sqlite.transaction import READ, Tx, numbers, texts

PLANS = 10_000  # maximum applications whose `fanout.Plan` is cached

_SCHEDULED = 0
# Plain integers, because the driver binds enum members many times slower.
_PENDING, _DELIVERING, _QUEUED = (
    int(state) for state in (DeliveryState.PENDING, DeliveryState.DELIVERING, DeliveryState.QUEUED)
)


class Ingest:
    def __init__(self, database: Database) -> None:
        self._db = database

    async def ingest(self, batch: Sequence[NewMessage], offer: Offer | None = None) -> list[Accepted]:
        answers, woke = await self._db.write(_ingest, batch, offer)
        if woke:
            self._db.events.work.set()
        return answers

    async def ingest_batch(self, batch: NewBatch) -> BatchAccepted:
        accepted = await self._db.write(_ingest_batch, batch)
        self._db.events.work.set()
        return accepted

    async def accepted_under(self, key: bytes, body: bytes) -> Accepted | None:
        return await self._db.read(_accepted_under, key, body)


def _ingest(tx: Tx, batch: Sequence[NewMessage], offer: Offer | None) -> tuple[list[Accepted], bool]:
    """Accept messages. Return the results, and whether a wake token was inserted."""
    ingesting = IngestBatch(tx, offer)
    answers = [ingesting.accept(new) for new in batch]
    return answers, ingesting.write()


def _ingest_batch(tx: Tx, batch: NewBatch) -> BatchAccepted:
    key, body = batch.idempotency_key, batch.idempotency_body or b""
    kept = None if key is None else tx.row("ingest_batch_kept", (key, tx.now))
    if kept is not None:
        return batch_answers.again(batch, *kept)
    accepted = batch_answers.accepted(batch, _ingest(tx, batch.messages, None)[0])
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

    def __init__(self, tx: Tx, offer: Offer | None = None) -> None:
        self._tx = tx
        self._at = tx.at
        self._seq, self._delivery_id = _last_numbers(tx)
        self._leases = None if offer is None or not offer.reserved else _Leases(tx, offer)
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

    def write(self) -> bool:
        """Write the rows. Return whether a wake token was inserted."""
        self._tx.many("message_insert", self._messages)
        self._tx.many("delivery_insert", self._deliveries)
        self._tx.many("event_id_insert", list(self._event_ids.values()))
        self._tx.many("key_insert", list(self._keys.values()))
        return self._wakes.write() > 0

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
        # A worker reserves no slots for large or later messages.
        leases = self._leases if new.deliver_at is None and len(new.payload) <= LARGE else None
        deliver_at = 0 if new.deliver_at is None else to_micros(new.deliver_at)
        due, begins = max(now, deliver_at), max(now - round(new.age * 1_000_000), deliver_at)
        for route in routes:
            no, policy = route.endpoint_no, route.policy
            expires = begins + round(max_age(policy, retry) * 1_000_000)
            key = queue_of(route.ordering, new.ordering_key)
            self._delivery_id += 1
            lease: tuple[int, int | None, int | None] = (_PENDING if key is None else _QUEUED, None, None)
            if key is not None:
                self._wakes.turn(no, key, due)
            elif (
                leases is not None
                and now < expires
                and leases.take(self._delivery_id, new, no, policy, instant(due), instant(expires))
            ):
                lease = leases.columns
            else:
                self._wakes.add(no, due, due)
            self._deliveries.append(
                (
                    self._delivery_id,
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
                    *lease,
                )
            )


def _last_numbers(tx: Tx) -> tuple[int, int]:
    """Return the last number of a message and the last id of a delivery."""
    last = dict(tx.tuples("ingest_last_numbers"))
    return last.get("message", 0), last.get("delivery", 0)


class _Leases:
    """The deliveries of one batch that are leased at once to the worker that made the offer."""

    def __init__(self, tx: Tx, offer: Offer) -> None:
        self._now = tx.at
        self._until = self._now + timedelta(seconds=tx.options.lease)
        self._claim = clock.chance.getrandbits(63)
        self._lanes = {no: lane for no, *lane in tx.tuples("ingest_offered", (numbers(offer.reserved), tx.now))}
        self._jobs = offer.jobs
        self._jobs.clear()
        self.columns = _DELIVERING, self._claim, to_micros(self._until)

    def take(
        self,
        delivery_id: int,
        new: NewMessage,
        endpoint_no: int,
        policy: PolicyOverride | None,
        due: datetime,
        expires: datetime,
    ) -> bool:
        """Lease a delivery, if the lane of its endpoint allows it. Return whether it is leased."""
        lane = self._lanes.get(endpoint_no)
        if lane is None:
            return False
        revision, epoch = lane
        self._jobs.append(
            handed_over(
                new,
                delivery_id=delivery_id,
                claim=self._claim,
                endpoint_no=endpoint_no,
                revision=revision,
                epoch=epoch,
                now=self._now,
                lease_until=self._until,
                due_at=due,
                expires_at=expires,
                policy=policy,
            )
        )
        return True


def _judge_key(asked: bytes, body: bytes, message_id: str, created_at: int) -> Accepted:
    status = IngestStatus.REPLAYED if asked == body else IngestStatus.KEY_REUSED
    return Accepted(status=status, message_id=message_id, created_at=instant(created_at))
