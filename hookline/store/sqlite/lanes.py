"""Functions for lanes, wake tokens and events inside a transaction. Claim, record, sweep and the catalogue use
them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from hookline import clock
from hookline.model.lanes import Lane, LaneEvent, LaneEventKind
from hookline.rules import ordering
from hookline.rules.lane.circuit import LaneOutcome, fold
from hookline.rules.operational_events import of_lanes
from hookline.store import rows
from hookline.store.plans.operational_events import write_events
from hookline.store.sqlite.clock import to_micros
from hookline.store.sqlite.database import run_steps
from hookline.store.sqlite.transaction import READ, Tx, numbers


def load(tx: Tx, endpoint_nos: Iterable[int]) -> dict[int, Lane]:
    return {row["endpoint_no"]: rows.lane(row, READ) for row in tx.rows("lanes_of", (numbers(endpoint_nos),))}


def load_moved(tx: Tx, endpoint_nos: Iterable[int], always: Iterable[int]) -> dict[int, Lane]:
    """Load the lanes in `always`, and those in `endpoint_nos` that are unhealthy."""
    found = tx.rows("record_lanes", {"all": numbers(endpoint_nos), "always": numbers(always)})
    return {row["endpoint_no"]: rows.lane(row, READ) for row in found}


def save(tx: Tx, lanes: Sequence[Lane]) -> None:
    tx.many("lane_write", [(*_written(lane), lane.endpoint_no) for lane in lanes])


def _written(lane: Lane) -> list[Any]:
    return [_plain(getattr(lane, name)) for name in rows.LANE_WRITTEN]


def _plain(value: Any) -> Any:
    return to_micros(value) if isinstance(value, datetime) else value


class Wakes:
    """The wake tokens of one transaction: one per lane, at its earliest requested instant."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self._tokens: dict[int, tuple[int, int]] = {}
        self._keys: dict[int, list[str]] = {}

    def add(self, endpoint_no: int, at: int, floor: int) -> None:
        """Wake the lane at the instant `at`, or now if `at` is in the past. `floor` is the earliest due time of the
        deliveries that the wake token announces.

        Claims read wake tokens in the order of their times. So a token in the past would put the lane before lanes
        that have waited longer.
        """
        at = max(at, self._tx.now)
        token = self._tokens.get(endpoint_no)
        self._tokens[endpoint_no] = (at, floor) if token is None else (min(at, token[0]), min(floor, token[1]))

    def turn(self, endpoint_no: int, key: str, at: int | None = None) -> None:
        """Wake the lane at the instant `at`, or now if `at` is None. The wake token names the queue `key`, so that a
        claim checks whether the next delivery of this queue may be sent."""
        at = self._tx.now if at is None else at
        self.add(endpoint_no, at, at)
        self._keys.setdefault(endpoint_no, []).append(key)

    def write(self) -> int:
        tokens = [(no, at, floor, self._keys_of(no)) for no, (at, floor) in self._tokens.items()]
        self._tx.many("wake_lanes", tokens)
        return len(tokens)

    def _keys_of(self, endpoint_no: int) -> str | None:
        keys = self._keys.get(endpoint_no)
        return None if keys is None else ordering.written(keys)


def note(tx: Tx, events: Sequence[tuple[LaneEvent, int]]) -> None:
    """Write lane events. Each is given with its application's number."""
    tx.many(
        "lane_events_write",
        [
            (event.endpoint_no, app_no, to_micros(event.at), event.kind.value, event.cause, *rows.actor(event))
            for event, app_no in events
        ],
    )
    run_steps(tx, write_events(of_lanes([event for event, _ in events]), READ))


def apply(
    tx: Tx, lanes: Mapping[int, Lane], outcomes: Mapping[int, Sequence[LaneOutcome]], wakes: Wakes
) -> list[LaneEvent]:
    """Apply outcomes to their lanes. Only changed lanes are written. A 410 response also disables the endpoint."""
    changed: list[Lane] = []
    noted: list[tuple[LaneEvent, int]] = []
    for endpoint_no, lane in lanes.items():
        folded = fold(lane, outcomes[endpoint_no], now=tx.at, policy=tx.options.circuit, chance=clock.chance)
        after = folded.lane
        if after.status != lane.status:
            after = replace(after, revision=lane.revision + 1)
        if after != lane:
            changed.append(after)
        noted += [(event, lane.app_no) for event in folded.events]
        if folded.wake_at is not None:
            at = to_micros(folded.wake_at)
            wakes.add(endpoint_no, at, to_micros(folded.wake_floor) if folded.wake_floor is not None else at)
    save(tx, changed)
    note(tx, noted)
    events = [event for event, _ in noted]
    _disable(tx, [event for event in events if event.kind == LaneEventKind.ENDPOINT_DISABLED])
    return events


def _disable(tx: Tx, events: Sequence[LaneEvent]) -> None:
    if events:
        tx.many("endpoints_disable", [(event.cause, tx.now, event.endpoint_no) for event in events])
        tx.forget_plans()
