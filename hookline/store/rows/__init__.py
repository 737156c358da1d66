"""Convert database rows to models and back, for both engines.

`Reading.struct` fills the fields of a model from the columns with the same names. The functions here are for models
that also have fields without such a column. `documents.py` has the columns that contain JSON or encrypted values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from hookline.errors import VaultError
from hookline.model.actors import Actor, ActorKind
from hookline.model.attempts import Attempt, Attempted, Timing
from hookline.model.audit import AuditEntry, NewAuditEntry
from hookline.model.dead import DeadGroup, DeadLetter, DeadSummary
from hookline.model.deliveries import Delivery
from hookline.model.endpoints import Endpoint
from hookline.model.lanes import AppPace, Lane, LaneEvent, LaneView, TimelineEntry, UnhealthyLane
from hookline.model.messages import Message
from hookline.model.outbox import SetAside
from hookline.model.states import Circuit, EndpointStatus, Reason
from hookline.model.sweep import Death
from hookline.model.tasks import Task, TaskWork
from hookline.security.vault import Vault
from hookline.store.rows.documents import open_headers, open_secrets, open_url, read_headers, without_surrogates
from hookline.store.rows.reading import Reading, Row, maybe

MAX_NAME, MAX_TEXT = 300, 2_000  # maximum characters of a name and of a text in the audit log

_decode_work = msgspec.json.Decoder(TaskWork).decode


# ── endpoints ───────────────────────────────────────────────────────────────────────────────────────────────────────


def endpoint(row: Row, read: Reading, vault: Vault) -> Endpoint:
    """Read an endpoint and decrypt its secrets. Raises `VaultError` if no key decrypts them; see
    `endpoint_or_fault`."""
    return read.struct(
        Endpoint,
        row,
        url=open_url(vault, row["id"], row["url"], row["sealed_url"]),
        secrets=open_secrets(vault, row["id"], row["secrets"]),
        headers=open_headers(vault, row["id"], row["headers"]),
    )


def endpoint_or_fault(row: Row, read: Reading, vault: Vault) -> Endpoint:
    """Read an endpoint for a worker. If no key decrypts its secrets, the endpoint has no secrets and `status_reason`
    has the error."""
    try:
        return endpoint(row, read, vault)
    except VaultError as fault:
        return read.struct(Endpoint, row, secrets=(), headers={}, status_reason=str(fault))


# ── messages, deliveries, attempts, dead letters ──────────────────────────────────────────────────────────────────────


def message(row: Row, read: Reading) -> Message:
    """Read a message with its payload. The row has no column `size`, so the size is computed from the payload."""
    return read.struct(Message, row, size=maybe(len, row["payload"]))


def attempted(row: Row, read: Reading) -> Attempted:
    return read.struct(Attempted, row, message=read.struct(Message, row))


def delivery(row: Row, read: Reading) -> Delivery:
    return read.struct(Delivery, row, accepted_at=read.instant(row["message_at"]))


def attempt(row: Row, read: Reading) -> Attempt:
    return read.struct(
        Attempt,
        row,
        response_headers=read_headers(row["response_headers"]),
        response_body=row["response_body"] or b"",
        timing=Timing(**{name: row[f"{name}_us"] for name in Timing.__struct_fields__}),
    )


def dead_letter(row: Row, read: Reading) -> DeadLetter:
    return read.struct(DeadLetter, row, accepted_at=read.instant(row["message_at"]))


def dead_summary(found: Sequence[Row], limit: int, read: Reading) -> DeadSummary:
    """Build a summary of dead letters. At most `limit` of them were read."""
    groups = tuple(read.struct(DeadGroup, row) for row in found)
    return DeadSummary(groups=groups, more=sum(group.dead for group in groups) >= limit)


def death(row: Row, reason: Reason, read: Reading) -> Death:
    return read.struct(
        Death,
        row,
        delivery_id=row["id"],
        reason=reason,
        accepted_at=read.instant(row["message_at"]),
        manual=row["trigger"] == 1,
    )


def set_aside(row: Row, read: Reading) -> SetAside:
    return read.struct(SetAside, row, reason=row["error"])


def task(row: Row, read: Reading) -> Task:
    return read.struct(Task, row, work=_decode_work(row["params"]))


# ── lanes and their events ──────────────────────────────────────────────────────────────────────────────────────────

_CONFIGURED = ("endpoint_no", "app_no", "throttle_rate", "concurrency", "app_rate")
# The columns that claim, record and sweep may change, in the order of the parameters of `lane_write`.
LANE_WRITTEN = tuple(name for name in Lane.__struct_fields__ if name not in _CONFIGURED)


def lane(row: Row, read: Reading) -> Lane:
    instant = read.instant
    return Lane(
        endpoint_no=row["endpoint_no"],
        app_no=row["app_no"],
        status=EndpointStatus(row["status"]),
        revision=row["revision"],
        circuit=Circuit(row["circuit"]),
        epoch=row["epoch"],
        failures=row["failures"],
        failing_since=maybe(instant, row["failing_since"]),
        trips=row["trips"],
        opened_at=maybe(instant, row["opened_at"]),
        probe_at=maybe(instant, row["probe_at"]),
        window=row["window"],
        window_at=maybe(instant, row["window_at"]),
        in_flight=row["in_flight"],
        waiting_floor=maybe(instant, row["waiting_floor"]),
        throttle_rate=row["throttle_rate"],
        concurrency=row["concurrency"],
        tat=maybe(instant, row["tat"]),
        held_until=maybe(instant, row["held_until"]),
        pace=row["pace"],
        pace_at=maybe(instant, row["pace_at"]),
        pace_top=row["pace_top"],
        slowed_at=maybe(instant, row["slowed_at"]),
        app_rate=row["app_rate"],
        turn_at=maybe(instant, row["turn_at"]),
    )


def app_pace(row: Row, read: Reading) -> AppPace:
    return AppPace(
        app_no=row["app_no"], tat=maybe(read.instant, row["tat"]), tail_at=maybe(read.instant, row["tail_at"])
    )


def lane_view(row: Row, read: Reading, counted: int) -> LaneView:
    """Read a lane for display. The query counted at most `counted` open deliveries of the lane."""
    return read.struct(LaneView, row, lane=lane(row, read), more=row["depth"] >= counted)


def unhealthy_lane(view: LaneView, row: Row, read: Reading) -> UnhealthyLane:
    return read.struct(UnhealthyLane, row, view=view)


def lane_event(row: Row, read: Reading) -> LaneEvent:
    return read.struct(LaneEvent, row, actor=None if row["actor"] is None else _actor(row))


def timeline_entry(row: Row, read: Reading) -> TimelineEntry:
    return TimelineEntry(id=row["id"], event=lane_event(row, read))


def actor(event: LaneEvent) -> tuple[str | None, str | None]:
    """Return the columns that name the user who caused the event."""
    return (None, None) if event.actor is None else (event.actor.kind.value, event.actor.name)


# ── the audit log ───────────────────────────────────────────────────────────────────────────────────────────────────


def audit(row: Row, read: Reading) -> AuditEntry:
    return read.struct(AuditEntry, row, actor=_actor(row))


def _actor(row: Row) -> Actor:
    return Actor(kind=ActorKind(row["actor"]), name=row["actor_name"])


def audit_columns(entry: NewAuditEntry) -> dict[str, str | None]:
    """Return the columns of an audit entry. Unsuitable text is cleaned, never refused: a change must not fail because
    of its audit entry."""
    name = entry.actor.name
    return {
        "org_id": entry.org_id,
        "app_id": entry.app_id,
        "actor": entry.actor.kind.value,
        "actor_name": None if name is None else _clean(name, MAX_NAME),
        "action": _clean(entry.action, MAX_NAME),
        "subject": _clean(entry.subject, MAX_NAME),
        "detail": _clean(entry.detail, MAX_TEXT),
        "address": _clean(entry.address, MAX_NAME),
    }


def _clean(text: str, limit: int) -> str:
    """Remove characters that the database cannot store, and truncate the text."""
    whole = without_surrogates(text.replace("\x00", "\ufffd"))
    return whole if len(whole) <= limit else whole[: limit - 1] + "…"
