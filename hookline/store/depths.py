"""Depths: what both engines share."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from hookline.model import Depths, OutboxView
from hookline.model.states import Circuit, DeliveryState, Reason
from hookline.store.protocols import COUNTING

LANES = ("paused", "disabled", "held", "slowed")

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Depths).decode


def kept(data: bytes) -> Depths | None:
    """None: it is of another release."""
    try:
        return _decode(data)
    except msgspec.DecodeError:
        return None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """As the database has counted it."""

    pending: int
    scheduled: int
    delivering: int
    queued: int
    due: int
    oldest_due: datetime | None
    held: int
    dead: Mapping[str, int]
    circuits: Mapping[int, int]
    lanes: Mapping[str, int]
    outbox: OutboxView
    alerts: Mapping[str, dict[str, int]]


def depths_of(found: Found, at: datetime, seconds: float) -> Depths:
    """Every state and reason is in it, also those that there is nothing of: a figure that goes away is not a zero."""
    states = (DeliveryState.PENDING, DeliveryState.SCHEDULED, DeliveryState.DELIVERING, DeliveryState.QUEUED)
    return Depths(
        at=at,
        seconds=seconds,
        states={state.name.lower(): int(getattr(found, state.name.lower())) for state in states},
        due=found.due,
        oldest_due=found.oldest_due,
        held=found.held,
        dead={reason.value: found.dead.get(reason.value, 0) for reason in Reason},
        circuits={circuit.name.lower(): found.circuits.get(circuit.value, 0) for circuit in Circuit},
        lanes={name: found.lanes[name] for name in LANES},
        outbox_waiting=found.outbox.waiting,
        outbox_oldest=found.outbox.oldest,
        outbox_set_aside=found.outbox.set_aside,
        alerts=dict(found.alerts),
    )


def good_for(seconds: float, fresh: float) -> float:
    """How long an answer that took so long to count is given again."""
    return max(fresh, seconds * COUNTING)


def by_name(rows: Any) -> dict[str, dict[str, int]]:
    """Of (name, severity, number)."""
    found: dict[str, dict[str, int]] = {}
    for name, severity, number in rows:
        found.setdefault(name, {})[severity] = number
    return found
