"""Send messages again: replay, resolve, replay of missed messages, resend, and the test message to one endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from hookline.errors import Conflict, NotFound
from hookline.model import DeadFilter, Endpoint, Message, NewMessage
from hookline.model.audit import Note
from hookline.model.states import EndpointStatus
from hookline.rules.operational_events import Batch as OfEndpoint
from hookline.rules.operational_events import Kind
from hookline.rules.outcomes import clean
from hookline.rules.replay import CLOCKS_APART, Seen, Window, missed, missing_window, refusal, target
from hookline.store import rows
from hookline.store.plans.endpoint_state import existing, lock_lane
from hookline.store.plans.history import message_row
from hookline.store.plans.operational_events import write_events
from hookline.store.plans.plan import Plan, Shared, Step, changes, noted, value, works
from hookline.store.protocols import STEP
from hookline.store.rows import Reading, Row
from hookline.store.rows.reading import struct_of


class MessageScan(Struct, frozen=True, kw_only=True):
    """The messages that a scan read, and where the next one continues. None: no messages are left."""

    seen: list[Seen]
    end: str | None


class Replays(Shared):
    """Replays, shared by both engines. Each engine implements the four methods that raise `NotImplementedError`."""

    def _replay_rows(self, where: DeadFilter, limit: int) -> Plan[list[Row]]:
        """Turn matching dead letters back into deliveries and wake their lanes. Return `endpoint_no`, `count`, `first`
        and `at` per endpoint."""
        raise NotImplementedError

    def _resolve_rows(self, where: DeadFilter, text: str, limit: int) -> Plan[list[Row]]:
        """Resolve matching dead letters and wake the queues that they blocked. Return `endpoint_no`, `count`, `first`
        and `at` per endpoint."""
        raise NotImplementedError

    def _deliver(self, endpoint: Endpoint, window: Window, message_ids: Sequence[str]) -> Plan[int]:
        """Create a manual delivery of each message, due no earlier than its `deliver_at`. Return their number."""
        raise NotImplementedError

    def _resend(self, endpoint_no: int, message_id: str) -> Plan[int | None]:
        """Create a manual delivery of one message that is due now. Return its id. None: no such message, payload or
        endpoint."""
        raise NotImplementedError

    @changes
    def replay(self, where: DeadFilter, limit: int = 1000, *, note: Note[int] | None = None) -> Plan[int]:
        return (yield from noted(note, (yield from self._replay(where, limit))))

    def _replay(self, where: DeadFilter, limit: int) -> Plan[int]:
        found = yield from self._replay_rows(where, limit)
        return (yield from self._tell(found, Kind.DEAD_REPLAYED))

    @changes
    def resolve(self, where: DeadFilter, text: str, limit: int = 1000, *, note: Note[int] | None = None) -> Plan[int]:
        done = 0 if where.resolved else (yield from self._resolve(where, text, limit))
        return (yield from noted(note, done))

    def _resolve(self, where: DeadFilter, text: str, limit: int) -> Plan[int]:
        found = yield from self._resolve_rows(replace(where, resolved=None), clean(text), limit)
        return (yield from self._tell(found, Kind.DEAD_RESOLVED, clean(text)))

    def _tell(self, found: Sequence[Row], kind: Kind, text: str | None = None) -> Plan[int]:
        """Write operational events and return the total number of dead letters."""
        batches = [
            OfEndpoint(
                kind=kind,
                endpoint_no=each["endpoint_no"],
                count=each["count"],
                first=each["first"],
                at=self._reading.instant(each["at"]),
                note=text,
            )
            for each in found
        ]
        yield from write_events(batches, self._reading)
        return sum(batch.count for batch in batches)

    # ── missed messages, resend ──

    async def replay_missing(
        self,
        endpoint_no: int,
        since: datetime,
        until: datetime,
        limit: int = 1000,
        *,
        note: Note[int] | None = None,
    ) -> int:
        """Replay in batches, each in its own transaction. The audit entry is written with the batch that creates
        deliveries, or with the last one."""
        after: str | None = None
        while True:
            made, after = await self._replay_batch(endpoint_no, since, until, after, limit, note)
            if made or after is None:
                return made

    @works
    def _replay_batch(
        self,
        endpoint_no: int,
        since: datetime,
        until: datetime,
        after: str | None,
        limit: int,
        note: Note[int] | None,
    ) -> Plan[tuple[int, str | None]]:
        endpoint, now = yield from self._lock_endpoint(endpoint_no)
        window = missing_window(since, until, now, self._options.retention_days)
        scan = yield from self._scan_messages(endpoint, window, after, STEP)
        to = target(endpoint)
        chosen = [seen.id for seen in scan.seen if missed(to, window, seen)][:limit]
        made = (yield from self._deliver(endpoint, window, chosen)) if chosen else 0
        if made or scan.end is None:
            yield from noted(note, made)
        return made, scan.end

    def _lock_endpoint(self, endpoint_no: int) -> Plan[tuple[Endpoint, datetime]]:
        """Return the endpoint and the current instant, under its lane's lock. Raises `NotFound` or `Conflict` if
        nothing would be sent."""
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
        seen = [_seen(each, self._reading) for each in found]
        return MessageScan(seen=seen, end=seen[-1].id if len(seen) == limit else None)

    @changes
    def resend(self, endpoint_no: int, message_id: str, *, note: Note[int | None] | None = None) -> Plan[int | None]:
        delivery_id = yield from self._resend(endpoint_no, message_id)
        if delivery_id is None and (yield from value("endpoint_lives", no=endpoint_no)) is None:
            raise NotFound("no such endpoint")
        return (yield from noted(note, delivery_id))

    @changes
    def send_example(self, endpoint_no: int, new: NewMessage, *, note: Note[Message] | None = None) -> Plan[Message]:
        made = yield Step("example_insert", no=endpoint_no, id=new.id, event_type=new.event_type, payload=new.payload)
        if not made:
            raise NotFound("no such endpoint")
        yield from self._resend(endpoint_no, new.id)
        found = yield from message_row(new.id)
        assert found is not None
        return (yield from noted(note, rows.message(found, self._reading)))


def _seen(row: Row, read: Reading) -> Seen:
    return struct_of(Seen, row, read)
