"""Dead letters, and the ways back: replay, replay of what was missed, resend."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from hookline.flow.fanout import Target, matches, max_age, merge
from hookline.model import DeadFilter, DeadLetter, DeadStats, Endpoint, PolicyOverride
from hookline.store import rows
from hookline.store.base import Page, after_id
from hookline.store.rows import Row, policy_text, read_policy
from hookline.store.sqlite.clock import instant, to_micros
from hookline.store.sqlite.lanes import Wakes
from hookline.store.sqlite.tx import READ, Tx, numbers

_MANUAL = 1
_LAST = (1 << 63) - 1

# A leading `+` keeps a condition away from the indexes: the listing stays in the order of its ids, and needs no sort.
_CONDITIONS = {
    "org_id": "+l.app_no IN (SELECT no FROM application WHERE org_id = :org_id)",
    "app_no": "l.app_no = :app_no",
    "endpoint_no": "l.endpoint_no = :endpoint_no",
    "event_type": "l.event_type = :event_type",
    "reason": "l.reason = :reason",
    "since": "+l.died_at >= :since",
    "until": "+l.died_at < :until",
    "ids": "l.id IN (SELECT value FROM json_each(:ids))",
}


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


def dead_letters(tx: Tx, where: DeadFilter, page: Page) -> list[DeadLetter]:
    found = _where(where, resolved=where.resolved)
    name = "dead_letters_back" if page.backwards else "dead_letters"
    start = 0 if page.backwards else _LAST
    after = after_id(page)
    params = found.params | {"iterator": start if after is None else after, "limit": page.limit}
    listed = [rows.dead_letter(row, READ) for row in tx.conn.execute(found.fill(tx.sql[name]), params)]
    return listed[::-1] if page.backwards else listed


def dead_letter(tx: Tx, dead_id: int) -> DeadLetter | None:
    row = tx.row("dead_letter", (dead_id,))
    return None if row is None else rows.dead_letter(row, READ)


def dead_stats(tx: Tx, where: DeadFilter) -> DeadStats:
    found = _where(where, resolved=None)
    counted = tx.conn.execute(found.fill(tx.sql["dead_stats"]), found.params).fetchall()
    dead = [row for row in counted if not row["resolved"]]
    oldest = min((row["oldest"] for row in dead), default=None)
    return DeadStats(
        dead=sum(row["many"] for row in dead),
        resolved=sum(row["many"] for row in counted if row["resolved"]),
        by_reason={row["reason"]: row["many"] for row in dead},
        oldest=None if oldest is None else instant(oldest),
    )


def replay(tx: Tx, where: DeadFilter, limit: int) -> int:
    found = _where(where, resolved=where.resolved)
    chosen = tx.conn.execute(found.fill(tx.sql["replay_find"]), found.params | {"limit": limit}).fetchall()
    if not chosen:
        return 0
    ids = numbers(id_ for id_, _ in chosen)
    tx.run("replay_open", {"now": tx.now, "max_age": tx.options.retry.max_age, "ids": ids})
    tx.run("replay_close", (ids,))
    wakes = Wakes(tx)
    for _, endpoint_no in chosen:
        wakes.add(endpoint_no, tx.now, tx.now)
    wakes.write()
    return len(chosen)


def resolve(tx: Tx, where: DeadFilter, note: str, limit: int) -> int:
    if where.resolved:
        return 0
    found = _where(where, resolved=False)
    params = found.params | {"now": tx.now, "note": note, "limit": limit}
    return tx.conn.execute(found.fill(tx.sql["resolve"]), params).rowcount


# ── what an endpoint missed ───────────────────────────────────────────────────────────────────────────────────────


class Missed(Struct, frozen=True, kw_only=True):
    """A message that is to get a delivery of its own."""

    seq: int
    id: str
    event_type: str
    created_at: int
    deliver_at: int | None
    policy: PolicyOverride | None


class Window(Struct, frozen=True, kw_only=True):
    """When the messages were accepted, and from where in it to look."""

    since: datetime
    until: datetime
    after: tuple[int, int] = (0, 0)


class Stretch(Struct, frozen=True, kw_only=True):
    """A part of a window: what was missed in it, and where the next one begins."""

    missed: list[Missed]
    end: tuple[int, int] | None


def find_missed(tx: Tx, endpoint: Endpoint, window: Window, limit: int) -> Stretch:
    """Read beside the writer: the window may be long."""
    params = {
        "no": endpoint.no,
        "app_no": endpoint.app_no,
        "since": max(to_micros(window.since), window.after[0]),
        "until": to_micros(window.until),
        "after_at": window.after[0],
        "after_seq": window.after[1],
        "limit": limit,
    }
    found = tx.rows("missing_find", params)
    end = (found[-1]["created_at"], found[-1]["seq"]) if len(found) == limit else None
    target = _target(endpoint)
    missed = [_missed(row) for row in found if matches(target, row["event_type"], _channels(row))]
    return Stretch(missed=missed, end=end)


def _target(endpoint: Endpoint) -> Target:
    return Target(
        endpoint_no=endpoint.no,
        event_types=None if endpoint.event_types is None else frozenset(endpoint.event_types),
        channels=None if endpoint.channels is None else frozenset(endpoint.channels),
    )


def _channels(row: Row) -> tuple[str, ...] | None:
    return None if row["channels"] is None else READ.texts(row["channels"])


def _missed(row: Row) -> Missed:
    return Missed(
        seq=row["seq"],
        id=row["id"],
        event_type=row["event_type"],
        created_at=row["created_at"],
        deliver_at=row["deliver_at"],
        policy=read_policy(row["policy"]),
    )


def deliver_missed(tx: Tx, endpoint: Endpoint, missed: Sequence[Missed]) -> int:
    """Those that still have none."""
    still = [
        message
        for message in missed
        if tx.value("missing_still", {"id": message.id, "no": endpoint.no, "seq": message.seq})
    ]
    wakes = Wakes(tx)
    for message in still:
        due = max(tx.now, message.deliver_at or 0)
        _deliver(tx, endpoint, message, due)
        wakes.add(endpoint.no, due, due)
    wakes.write()
    return len(still)


def resend(tx: Tx, endpoint: Endpoint, message_id: str) -> int | None:
    row = tx.row("resend_message", (message_id, endpoint.app_no))
    if row is None:
        return None
    delivery_id = _deliver(tx, endpoint, _missed(row), tx.now)
    tx.run("wake_lanes", (endpoint.no, tx.now, tx.now))
    return delivery_id


def _deliver(tx: Tx, endpoint: Endpoint, message: Missed, due: int) -> int:
    event_type = tx.row("event_type", (endpoint.org_id, message.event_type))
    of_type = None if event_type is None else read_policy(event_type["policy"])
    policy = merge(of_type, endpoint.policy, message.policy)
    expires = due + round(max_age(policy, tx.options.retry) * 1_000_000)
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
    )
    return int(tx.conn.execute(tx.sql["delivery_insert"], values).lastrowid or 0)
