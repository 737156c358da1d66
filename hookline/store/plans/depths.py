"""Build `Depths` from the counts of either engine, and decide how long they stay cached."""

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


def decode(data: bytes) -> Depths | None:
    """Decode cached depths. None: another release wrote them in a different format."""
    try:
        return _decode(data)
    except msgspec.DecodeError:
        return None


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """The counts as the database returned them."""

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


def depths_of(found: Counted, at: datetime, seconds: float) -> Depths:
    """Build depths with every state and reason. One without rows is reported as 0, because a missing figure is not a
    zero."""
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


def cached_for(seconds: float, fresh: float) -> float:
    """Return how many seconds a result stays cached if counting took `seconds` seconds."""
    return max(fresh, seconds * COUNTING)


def by_name(rows: Any) -> dict[str, dict[str, int]]:
    """Group rows of (name, severity, number) by name."""
    found: dict[str, dict[str, int]] = {}
    for name, severity, number in rows:
        found.setdefault(name, {})[severity] = number
    return found
