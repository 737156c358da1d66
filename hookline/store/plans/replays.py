"""Send messages again: replay, resolve, replay of missed messages, resend, and the test message to one endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from hookline.errors import Conflict, NotFound
from hookline.model.audit import Note
from hookline.model.dead import DeadFilter
from hookline.model.endpoints import Endpoint
from hookline.model.messages import Message, NewMessage
from hookline.model.states import EndpointStatus
from hookline.rules.operational_events import Batch as OfEndpoint
from hookline.rules.operational_events import Kind
from hookline.rules.outcomes import clean
from hookline.rules.replay import CLOCKS_APART, Seen, Window, refusal
from hookline.store import rows
from hookline.store.plans.endpoint_state import existing, lock_lane
from hookline.store.plans.message_by_id import message_row
from hookline.store.plans.operational_events import write_events
from hookline.store.plans.plan import Database, Plan, Plans, Step, changes, noted, value
from hookline.store.rows import Row


class MessageScan(Struct, frozen=True, kw_only=True):
    """The messages that a scan read, and where the next scan continues. `end` is None if no messages are left."""

    seen: list[Seen]
    end: str | None


class Redelivery(Protocol):
    """The plans of a replay that each engine writes in its own way."""

    def replay(self, where: DeadFilter, limit: int) -> Plan[list[Row]]:
        """Turn up to `limit` matching dead letters back into deliveries and wake their lanes.

        Return a row for each endpoint: `endpoint_no`, `count` (of its replayed dead letters), `first` (the lowest
        delivery id among them) and `at` (the time of the change).
        """

    def resolve(self, where: DeadFilter, text: str, limit: int) -> Plan[list[Row]]:
        """Resolve up to `limit` matching dead letters and wake the queues that they blocked. Return the same columns
        as `replay`, for the resolved dead letters of each endpoint."""

    def deliver(self, endpoint: Endpoint, window: Window, message_ids: Sequence[str]) -> Plan[int]:
        """Create a manual delivery of each message, due no earlier than the message's `deliver_at`. Return the number
        of deliveries."""

    def resend(self, endpoint_no: int, message_id: str) -> Plan[int | None]:
        """Create a manual delivery of one message. The delivery is due now. Return the delivery's id, or None if
        the message or its payload does not exist or the endpoint was deleted."""


class Replays(Plans):
    """Send messages again: replay, replay of missed messages, resend. Resolve dead letters."""

    def __init__(self, database: Database, redelivery: Redelivery) -> None:
        super().__init__(database)
        self._redelivery = redelivery

    @changes
    def replay(self, where: DeadFilter, limit: int = 1000, *, note: Note[int] | None = None) -> Plan[int]:
        """Turn up to `limit` matching dead letters back into pending deliveries, and return their number. Call it
        until it returns 0.

        The oldest deaths come first. Each delivery keeps its id, history and retry policy, has 0 attempts and a new
        time budget from now. Dead letters of deleted and disabled endpoints are skipped, because nothing would be
        sent. Those of paused endpoints wait until the endpoint is resumed. The lanes are woken.
        """
        return (yield from noted(note, (yield from self._replay(where, limit))))

    def _replay(self, where: DeadFilter, limit: int) -> Plan[int]:
        found = yield from self._redelivery.replay(where, limit)
        return (yield from self._tell(found, Kind.DEAD_REPLAYED))

    @changes
    def resolve(self, where: DeadFilter, text: str, limit: int = 1000, *, note: Note[int] | None = None) -> Plan[int]:
        """Resolve up to `limit` matching dead letters and store `text` in each as the operator's note. Return their
        number. The argument `note` is the audit entry."""
        done = 0 if where.resolved else (yield from self._resolve(where, text, limit))
        return (yield from noted(note, done))

    def _resolve(self, where: DeadFilter, text: str, limit: int) -> Plan[int]:
        found = yield from self._redelivery.resolve(replace(where, resolved=None), clean(text), limit)
        return (yield from self._tell(found, Kind.DEAD_RESOLVED, clean(text)))

    def _tell(self, found: Sequence[Row], kind: Kind, text: str | None = None) -> Plan[int]:
        """Write operational events about the dead letters that were just replayed or resolved. Return the number of
        these dead letters. `found` has a row for each endpoint."""
        batches = [self._reading.struct(OfEndpoint, each, kind=kind, note=text) for each in found]
        yield from write_events(batches, self._reading)
        return sum(batch.count for batch in batches)

    # ── missed messages, resend ──

    def _lock_endpoint(self, endpoint_no: int) -> Plan[tuple[Endpoint, datetime]]:
        """Lock the endpoint's lane and return the endpoint and the current instant. Raises `NotFound` if the endpoint
        does not exist, and `Conflict` if it was deleted or is disabled."""
        lane = yield from lock_lane(endpoint_no)
        refused = refusal(EndpointStatus(lane["status"]))
        if refused is not None:
            raise Conflict(refused)
        endpoint = yield from existing(endpoint_no, self._reading, self._vault)
        return endpoint, self._reading.instant(lane["now"])

    def _scan_messages(self, endpoint: Endpoint, window: Window, after: str | None, limit: int) -> Plan[MessageScan]:
        found = yield Step(
            "messages_in_range",
            no=endpoint.no,
            app_no=endpoint.app_no,
            after=after or window.first_id(),
            before=window.last_id(),
            since=window.since - CLOCKS_APART,
            until=window.until + CLOCKS_APART,
            limit=limit,
        )
        seen = [self._reading.struct(Seen, each) for each in found]
        return MessageScan(seen=seen, end=seen[-1].id if len(seen) == limit else None)

    @changes
    def resend(self, endpoint_no: int, message_id: str, *, note: Note[int | None] | None = None) -> Plan[int | None]:
        """Create a manual delivery of one message to one endpoint, even if the message was delivered before. Return the
        delivery's id, or None if the message or its payload does not exist.

        Raises `NotFound` if the endpoint was deleted.
        """
        delivery_id = yield from self._redelivery.resend(endpoint_no, message_id)
        if delivery_id is None and (yield from value("endpoint_lives", no=endpoint_no)) is None:
            raise NotFound("no such endpoint")
        return (yield from noted(note, delivery_id))

    @changes
    def send_example(self, endpoint_no: int, new: NewMessage, *, note: Note[Message] | None = None) -> Plan[Message]:
        """Accept a test message for one endpoint, with a manual delivery to it, regardless of its subscriptions.

        No other endpoint gets it, not even through `replay_missing`. A test message has no event id, no ordering
        key and no channels.
        """
        made = yield Step("example_insert", no=endpoint_no, id=new.id, event_type=new.event_type, payload=new.payload)
        if not made:
            raise NotFound("no such endpoint")
        yield from self._redelivery.resend(endpoint_no, new.id)
        found = yield from message_row(new.id)
        assert found is not None
        return (yield from noted(note, rows.message(found, self._reading)))
