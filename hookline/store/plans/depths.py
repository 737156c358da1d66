"""Build `Depths` from the counts of either engine, and decide how long they stay cached."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from hookline.model.depths import Depths
from hookline.model.fill import fill
from hookline.model.states import Circuit, Reason
from hookline.store.bounds import COUNTING

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Depths).decode


def decode(data: bytes) -> Depths | None:
    """Decode cached depths. None: another release wrote them in a different format."""
    try:
        return _decode(data)
    except msgspec.DecodeError:
        return None


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of deliveries, lanes and outbox rows from which `depths_of` makes `Depths`."""

    pending: int
    scheduled: int
    delivering: int
    queued: int
    due: int
    oldest_due: datetime | None
    held: int
    paused: int
    disabled: int
    held_lanes: int
    slowed: int
    outbox_waiting: int
    outbox_oldest: datetime | None
    outbox_set_aside: int
    dead: Mapping[str, int]
    circuits: Mapping[int, int]
    alerts: list[tuple[str, str, int]]  # name, severity and number of the alerts that fire


def depths_of(found: Counted, at: datetime, seconds: float) -> Depths:
    """Build depths with every state and reason. A state or reason without rows is reported as 0 and not left out, so
    that every metric always exists."""
    alerts: dict[str, dict[str, int]] = {}
    for name, severity, number in found.alerts:
        alerts.setdefault(name, {})[severity] = number
    lanes = {"paused": found.paused, "disabled": found.disabled, "held": found.held_lanes, "slowed": found.slowed}
    return fill(
        Depths,
        found,
        at=at,
        seconds=seconds,
        states={name: int(getattr(found, name)) for name in ("pending", "scheduled", "delivering", "queued")},
        dead={reason.value: found.dead.get(reason.value, 0) for reason in Reason},
        circuits={circuit.name.lower(): found.circuits.get(circuit.value, 0) for circuit in Circuit},
        lanes=lanes,
        alerts=alerts,
    )


def cached_for(seconds: float, fresh: float) -> float:
    """Return how many seconds a result stays cached: at least `fresh`, and longer if counting took many `seconds`."""
    return max(fresh, seconds * COUNTING)
