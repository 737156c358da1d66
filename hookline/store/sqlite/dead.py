"""Dead letters, and the ways back: replay, replay of what was missed, resend."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from hookline.errors import Conflict, NotFound
from hookline.flow.fanout import max_age, merge
from hookline.flow.order import queue_of
from hookline.flow.replay import Seen, Window, missed, missing_window, refusal, target
from hookline.model import (
    Attempt,
    DeadFilter,
    DeadLetter,
    DeadOfApplication,
    DeadStats,
    DeadSummary,
    Endpoint,
    PolicyOverride,
)
from hookline.operational import Batch, Kind
from hookline.states import DeliveryState, EndpointStatus
from hookline.store import rows
from hookline.store.base import COUNTED, MOST_ATTEMPTS, TOP_APPLICATIONS, Page, after_death
from hookline.store.rows import Row, json_text, policy_text, read_policy
from hookline.store.sqlite.base import STRETCH, Base
from hookline.store.sqlite.clock import instant, to_micros
from hookline.store.sqlite.lanes import Wakes, endpoints_for
from hookline.store.sqlite.operational import tell
from hookline.store.sqlite.tx import READ, Tx, numbers

_MANUAL = 1
_BEFORE_ALL, _AFTER_ALL = (-1, -1), ((1 << 63) - 1, (1 << 63) - 1)

# A leading `+` keeps a condition away from the indexes: the listing stays in its order, and needs no sort.
_CONDITIONS = {
    "org_id": "+l.app_no IN (SELECT no FROM application WHERE org_id = :org_id)",
    "app_no": "l.app_no = :app_no",
    "endpoint_no": "l.endpoint_no = :endpoint_no",
    "event_type": "l.event_type = :event_type",
    "reason": "l.reason = :reason",
    "since": "l.died_at >= :since",
    "until": "l.died_at < :until",
    "ids": "l.id IN (SELECT value FROM json_each(:ids))",
}


class DeadLetters(Base):
    async def dead_letters(self, where: DeadFilter, page: Page) -> list[DeadLetter]:
        return await self._read(_dead_letters, where, page)

    async def dead_letter(self, dead_id: int) -> DeadLetter | None:
        return await self._read(_dead_letter, dead_id)

    async def dead_attempts(self, letter: DeadLetter) -> list[Attempt]:
        return await self._read(_dead_attempts, letter)

    async def dead_stats(self, where: DeadFilter) -> DeadStats:
        return await self._read(_dead_stats, where)

    async def dead_summary(self, where: DeadFilter) -> DeadSummary:
        return await self._read(_dead_summary, where)

    async def dead_applications(self, where: DeadFilter, most: int) -> list[int]:
        return await self._read(_dead_applications, where, most)

    async def replay(self, where: DeadFilter, limit: int = 1000) -> int:
        replayed = await self._write(replay, where, limit)
        self._bell.set()
        return replayed

    async def resolve(self, where: DeadFilter, note: str, limit: int = 1000) -> int:
        resolved = await self._write(resolve, where, note, limit)
        self._bell.set()
        return resolved

    async def replay_missing(self, endpoint_no: int, since: datetime, until: datetime, limit: int = 1000) -> int:
        after: str | None = None
        while True:
            stretch = await self._write(_replay_missing, endpoint_no, since, until, after, STRETCH, limit)
            if stretch.made:
                self._bell.set()
            if stretch.made or stretch.end is None:
                return stretch.made
            after = stretch.end

    async def resend(self, endpoint_no: int, message_id: str) -> int | None:
        endpoint = await self._living(endpoint_no)
        delivery_id = await self._write(resend, endpoint, message_id)
        self._bell.set()
        return delivery_id

    async def _living(self, endpoint_no: int) -> Endpoint:
        found = await self._read(endpoints_for, [endpoint_no])
        if not found or found[0].status == EndpointStatus.DELETED:
            raise NotFound("no such endpoint")
        return found[0]


class _Where(Struct, frozen=True):
    text: str
    params: dict[str, Any]

    def fill(self, statement: str) -> str:
        return statement.replace("{where}", self.text)


def _where(where: DeadFilter, *, resolved: bool | None) -> _Where:
    given: dict[str, Any] = {
        "org_id": where.org_id,
        "app_no": where.app_no,
        "endpoint_no": where.endpoint_no,
        "event_type": where.event_type,
        "reason": None if where.reason is None else where.reason.value,
        "since": None if where.since is None else to_micros(where.since),
        "until": None if where.until is None else to_micros(where.until),
        "ids": None if where.ids is None else numbers(where.ids),
    }
    params = {name: value for name, value in given.items() if value is not None}
    conditions = ["1", *(_CONDITIONS[name] for name in params)]
    if resolved is not None:
        conditions.append("l.resolved_at IS NOT NULL" if resolved else "l.resolved_at IS NULL")
    return _Where(" AND ".join(conditions), params)


def _dead_letters(tx: Tx, where: DeadFilter, page: Page) -> list[DeadLetter]:
    found = _where(where, resolved=where.resolved)
    name = "dead_letters_back" if page.backwards else "dead_letters"
    after = after_death(page.iterator)
    died_at, dead_id = _BEFORE_ALL if page.backwards else _AFTER_ALL
    if after is not None:
        died_at, dead_id = to_micros(after[0]), after[1]
    params = found.params | {"died_at": died_at, "id": dead_id, "limit": page.limit}
    listed = [rows.dead_letter(row, READ) for row in tx.conn.execute(found.fill(tx.sql[name]), params)]
    return listed[::-1] if page.backwards else listed


def _dead_letter(tx: Tx, dead_id: int) -> DeadLetter | None:
    row = tx.row("dead_letter", (dead_id,))
    return None if row is None else rows.dead_letter(row, READ)


def _dead_attempts(tx: Tx, letter: DeadLetter) -> list[Attempt]:
    params = {"message_id": letter.message_id, "id": letter.id, "most": MOST_ATTEMPTS}
    return [rows.attempt(row, READ) for row in tx.rows("dead_attempts", params)[::-1]]


def _dead_stats(tx: Tx, where: DeadFilter) -> DeadStats:
    found = _where(where, resolved=None)
    counted = tx.conn.execute(found.fill(tx.sql["dead_stats"]), found.params).fetchall()
    most = found.params | {"most": TOP_APPLICATIONS}
    by_application = tx.conn.execute(found.fill(tx.sql["dead_stats_applications"]), most).fetchall()
    of = {name: getattr(where, name) for name in ("org_id", "app_no", "endpoint_no", "event_type")}
    dead = [row for row in counted if not row["resolved"]]
    oldest = min((row["oldest"] for row in dead), default=None)
    return DeadStats(
        dead=sum(row["many"] for row in dead),
        pending=tx.value("dead_stats_pending", of),
        resolved=sum(row["many"] for row in counted if row["resolved"]),
        by_reason={row["reason"]: row["many"] for row in dead},
        by_application=tuple(DeadOfApplication(**dict(row)) for row in by_application),
        oldest=None if oldest is None else instant(oldest),
    )


def _dead_summary(tx: Tx, where: DeadFilter) -> DeadSummary:
    found = _where(where, resolved=where.resolved)
    groups = tx.conn.execute(found.fill(tx.sql["dead_summary"]), found.params | {"looked": COUNTED}).fetchall()
    return rows.dead_summary(groups, COUNTED, READ)


def dead_count(tx: Tx, where: DeadFilter, most: int) -> int:
    found = _where(where, resolved=where.resolved)
    (many,) = tx.conn.execute(found.fill(tx.sql["dead_count"]), found.params | {"most": most}).fetchone()
    return int(many)


def _dead_applications(tx: Tx, where: DeadFilter, most: int) -> list[int]:
    found = _where(replace(where, org_id=None, app_no=None), resolved=where.resolved)
    params = found.params | {"org_id": where.org_id, "of": where.app_no, "most": most}
    return [no for (no,) in tx.conn.execute(found.fill(tx.sql["dead_applications"]), params)]


def replay(tx: Tx, where: DeadFilter, limit: int) -> int:
    found = _where(where, resolved=where.resolved)
    chosen = tx.conn.execute(found.fill(tx.sql["replay_find"]), found.params | {"limit": limit}).fetchall()
    if not chosen:
        return 0
    ids = numbers(id_ for id_, _, _ in chosen)
    tx.run("replay_open", {"now": tx.now, "max_age": tx.options.retry.max_age, "ids": ids})
    tx.run("replay_close", (ids,))
    wakes = Wakes(tx)
    for _, endpoint_no, key in chosen:
        _announce(wakes, endpoint_no, key, tx.now)
    wakes.write()
    tell(tx, _batches(tx, chosen, Kind.DEAD_REPLAYED))
    return len(chosen)


def _batches(tx: Tx, done: Sequence[Any], kind: Kind, note: str | None = None) -> list[Batch]:
    by_endpoint: dict[int, list[int]] = {}
    for id_, endpoint_no, _ in done:
        by_endpoint.setdefault(endpoint_no, []).append(id_)
    return [
        Batch(kind=kind, endpoint_no=no, count=len(ids), first=min(ids), at=tx.at, note=note)
        for no, ids in by_endpoint.items()
    ]


def _announce(wakes: Wakes, endpoint_no: int, key: str | None, due: int) -> None:
    if key is None:
        wakes.add(endpoint_no, due, due)
    else:
        wakes.turn(endpoint_no, key, due)


def resolve(tx: Tx, where: DeadFilter, note: str, limit: int) -> int:
    if where.resolved:
        return 0
    found = _where(where, resolved=False)
    params = found.params | {"now": tx.now, "note": note, "limit": limit}
    closed = tx.conn.execute(found.fill(tx.sql["resolve"]), params).fetchall()
    wakes = Wakes(tx)
    for _, endpoint_no, key in closed:
        if key is not None:  # it may have blocked its queue
            wakes.turn(endpoint_no, key)
    wakes.write()
    tell(tx, _batches(tx, closed, Kind.DEAD_RESOLVED, note))
    return len(closed)


# ── what an endpoint missed, or is to get once more ───────────────────────────────────────────────────────────────


class _Message(Struct, frozen=True, kw_only=True):
    """A message that is to get a delivery of its own."""

    seq: int
    id: str
    event_type: str
    created_at: int
    deliver_at: int | None
    policy: PolicyOverride | None
    ordering_key: str | None


class Look(Struct, frozen=True, kw_only=True):
    """The messages that a walk has come by, and where it goes on; None: there are no more."""

    seen: list[Seen]
    end: str | None


def look_at_messages(tx: Tx, endpoint: Endpoint, window: Window, after: str | None, limit: int) -> Look:
    params = {
        "no": endpoint.no,
        "app_no": endpoint.app_no,
        "after": after or window.first_id(),
        "before": window.last_id(),
        "limit": limit,
    }
    found = [_seen(row) for row in tx.rows("messages_look", params)]
    return Look(seen=found, end=found[-1].id if len(found) == limit else None)


def _seen(row: Row) -> Seen:
    return Seen(
        id=row["id"],
        created_at=instant(row["created_at"]),
        event_type=row["event_type"],
        channels=None if row["channels"] is None else READ.texts(row["channels"]),
        tags=None if row["tags"] is None else READ.texts(row["tags"]),
        whole=bool(row["whole"]),
        open=bool(row["open"]),
        delivered=bool(row["delivered"]),
        dead_id=row["dead_id"],
    )


def deliver_messages(tx: Tx, endpoint: Endpoint, message_ids: Sequence[str]) -> int:
    """One delivery each, not before their time."""
    wakes = Wakes(tx)
    chosen = tx.rows("messages_chosen", {"app_no": endpoint.app_no, "ids": json_text(list(message_ids))})
    for row in chosen:
        message = _message(row)
        due = max(tx.now, message.deliver_at or 0)
        _deliver(tx, endpoint, message, due, wakes)
    wakes.write()
    return len(chosen)


class Stretch(Struct, frozen=True, kw_only=True):
    made: int
    end: str | None


def _replay_missing(
    tx: Tx, endpoint_no: int, since: datetime, until: datetime, after: str | None, look: int, limit: int
) -> Stretch:
    """One stretch of a long window: how many deliveries were made, and where the next stretch begins."""
    endpoint = takes_deliveries(tx, endpoint_no)
    window = missing_window(since, until, tx.at, tx.options.retention_days)
    found = look_at_messages(tx, endpoint, window, after, look)
    to = target(endpoint)
    chosen = [seen.id for seen in found.seen if missed(to, window, seen)][:limit]
    return Stretch(made=deliver_messages(tx, endpoint, chosen) if chosen else 0, end=found.end)


def takes_deliveries(tx: Tx, endpoint_no: int) -> Endpoint:
    """The endpoint; `NotFound` or `Conflict` where nothing would be sent."""
    found = endpoints_for(tx, [endpoint_no])
    if not found or found[0].status == EndpointStatus.DELETED:
        raise NotFound("no such endpoint")
    refused = refusal(found[0].status)
    if refused is not None:
        raise Conflict(refused)
    return found[0]


def resend(tx: Tx, endpoint: Endpoint, message_id: str) -> int | None:
    row = tx.row("resend_message", (message_id, endpoint.app_no))
    if row is None:
        return None
    wakes = Wakes(tx)
    delivery_id = _deliver(tx, endpoint, _message(row), tx.now, wakes)
    wakes.write()
    return delivery_id


def _message(row: Row) -> _Message:
    return _Message(
        seq=row["seq"],
        id=row["id"],
        event_type=row["event_type"],
        created_at=row["created_at"],
        deliver_at=row["deliver_at"],
        policy=read_policy(row["policy"]),
        ordering_key=row["ordering_key"],
    )


def _deliver(tx: Tx, endpoint: Endpoint, message: _Message, due: int, wakes: Wakes) -> int:
    event_type = tx.row("event_type", {"org_id": endpoint.org_id, "name": message.event_type})
    of_type = None if event_type is None else read_policy(event_type["policy"])
    policy = merge(of_type, endpoint.policy, message.policy)
    expires = due + round(max_age(policy, tx.options.retry) * 1_000_000)
    key = queue_of(endpoint.ordering, message.ordering_key)
    _announce(wakes, endpoint.no, key, due)
    values = (
        endpoint.app_no,
        endpoint.no,
        message.seq,
        message.created_at,
        message.id,
        message.event_type,
        _MANUAL,
        due,
        expires,
        policy_text(policy),
        key,
        DeliveryState.PENDING if key is None else DeliveryState.QUEUED,
    )
    return int(tx.conn.execute(tx.sql["delivery_insert"], values).lastrowid or 0)
