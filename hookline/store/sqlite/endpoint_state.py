"""Lanes by hand: pause, resume, disable and enable an endpoint; open, close and reset its circuit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from msgspec.structs import replace

from hookline.clock import chance
from hookline.errors import InvalidInput
from hookline.model import Actor, Endpoint, Lane, LaneEvent, LaneEventKind
from hookline.model.states import Circuit, EndpointStatus
from hookline.rules import operational_events
from hookline.rules.lane.circuit import Fold, close_by_hand, open_by_hand, reset
from hookline.rules.outcomes import clean
from hookline.store.sqlite import lanes as lane_rows
from hookline.store.sqlite.base import STRETCH, Base
from hookline.store.sqlite.catalogue import endpoints_for, existing, living, renew_held, renew_queued, wake
from hookline.store.sqlite.operational import tell
from hookline.store.sqlite.transaction import Tx

_EVENTS = {
    (EndpointStatus.ACTIVE, EndpointStatus.PAUSED): LaneEventKind.ENDPOINT_PAUSED,
    (EndpointStatus.DISABLED, EndpointStatus.PAUSED): LaneEventKind.ENDPOINT_PAUSED,
    (EndpointStatus.PAUSED, EndpointStatus.ACTIVE): LaneEventKind.ENDPOINT_RESUMED,
    (EndpointStatus.ACTIVE, EndpointStatus.DISABLED): LaneEventKind.ENDPOINT_DISABLED,
    (EndpointStatus.PAUSED, EndpointStatus.DISABLED): LaneEventKind.ENDPOINT_DISABLED,
    (EndpointStatus.DISABLED, EndpointStatus.ACTIVE): LaneEventKind.ENDPOINT_ENABLED,
}


class EndpointState(Base):
    async def set_endpoint_status(
        self, endpoint_no: int, status: EndpointStatus, cause: str, *, actor: Actor | None = None
    ) -> Endpoint:
        if status in (EndpointStatus.ACTIVE, EndpointStatus.DISABLED):
            await self._renew_held(endpoint_no)
        changed = await self._write(_set_endpoint_status, endpoint_no, status, cause, actor)
        self._bell.set()
        return changed

    async def _renew_held(self, endpoint_no: int) -> None:
        """Stretch by stretch, while the lane still holds them: one transaction over a long backlog would block the rest."""
        found = await self._read(endpoints_for, [endpoint_no])
        if found and found[0].status == EndpointStatus.PAUSED:
            after: tuple[int, int] | None = (-1, -1)
            while after is not None:
                after = await self._write(renew_held, endpoint_no, after, STRETCH)
            behind: tuple[str, int, int] | None = ("", -1, -1)
            while behind is not None:
                behind = await self._write(renew_queued, endpoint_no, behind, STRETCH)

    async def open_circuit(
        self, endpoint_no: int, cause: str, *, until: datetime | None = None, actor: Actor | None = None
    ) -> LaneEvent:
        event = await self._write(_open_circuit, endpoint_no, cause, until, actor)
        assert event is not None, "to open it is always a change"
        self._bell.set()
        return event

    async def close_circuit(self, endpoint_no: int, cause: str, *, actor: Actor | None = None) -> LaneEvent | None:
        event = await self._write(_close_circuit, endpoint_no, cause, actor)
        self._bell.set()
        return event

    async def reset_circuit(self, endpoint_no: int, cause: str, *, actor: Actor | None = None) -> LaneEvent | None:
        event = await self._write(_reset_circuit, endpoint_no, cause, actor)
        self._bell.set()
        return event


def _set_endpoint_status(tx: Tx, endpoint_no: int, status: EndpointStatus, cause: str, actor: Actor | None) -> Endpoint:
    """Resume wakes the lane; what made it fail before no longer counts, and an open circuit is probed at once."""
    if status == EndpointStatus.DELETED:
        raise InvalidInput("an endpoint is deleted by deleting it")
    before = existing(tx, endpoint_no)
    if status == before.status:
        return before
    turn(tx, endpoint_no, before.status, status, clean(cause), by_hand=True, actor=actor)
    if status == EndpointStatus.ACTIVE:
        wake(tx, endpoint_no)
    return existing(tx, endpoint_no)


def turn(
    tx: Tx,
    endpoint_no: int,
    before: EndpointStatus,
    status: EndpointStatus,
    cause: str,
    *,
    by_hand: bool = False,
    actor: Actor | None = None,
) -> LaneEvent:
    """The status of the endpoint and of its lane, with the event that says so."""
    reason = None if status == EndpointStatus.ACTIVE else cause
    tx.run("endpoint_status", {"no": endpoint_no, "status": int(status), "reason": reason, "now": tx.now})
    lane = lane_rows.load(tx, [endpoint_no])[endpoint_no]
    after = replace(lane, status=status, revision=lane.revision + 1)
    if status == EndpointStatus.ACTIVE:
        probe_at = tx.at if lane.circuit == Circuit.OPEN else lane.probe_at
        after = replace(after, failures=0, failing_since=None, probe_at=probe_at)
    lane_rows.save(tx, [after])
    event = LaneEvent(endpoint_no=endpoint_no, at=tx.at, kind=_EVENTS[before, status], cause=cause, actor=actor)
    lane_rows.note(tx, [(event, lane.app_no)], by_hand=by_hand)
    tx.forget_plans()
    return event


def _open_circuit(
    tx: Tx, endpoint_no: int, cause: str, until: datetime | None, actor: Actor | None
) -> LaneEvent | None:
    def change(lane: Lane) -> Fold:
        policy = tx.options.circuit
        return open_by_hand(lane, now=tx.at, until=until, cause=clean(cause), policy=policy, chance=chance)

    return _steer(tx, endpoint_no, change, actor)


def _close_circuit(tx: Tx, endpoint_no: int, cause: str, actor: Actor | None) -> LaneEvent | None:
    def change(lane: Lane) -> Fold:
        return close_by_hand(lane, now=tx.at, cause=clean(cause), policy=tx.options.circuit, chance=chance)

    return _steer(tx, endpoint_no, change, actor)


def _reset_circuit(tx: Tx, endpoint_no: int, cause: str, actor: Actor | None) -> LaneEvent | None:
    return _steer(tx, endpoint_no, lambda lane: reset(lane, now=tx.at, cause=clean(cause)), actor)


def _steer(tx: Tx, endpoint_no: int, change: Callable[[Lane], Fold], actor: Actor | None) -> LaneEvent | None:
    """Change a circuit by hand. None: there was nothing to change."""
    living(tx, endpoint_no)
    lane = lane_rows.load(tx, [endpoint_no])[endpoint_no]
    after = change(lane)
    if not after.events:
        return None
    (event,) = (replace(each, actor=actor) for each in after.events)
    lane_rows.save(tx, [after.lane])
    lane_rows.note(tx, [(event, lane.app_no)], by_hand=True)
    if lane.circuit != Circuit.CLOSED and after.lane.circuit == Circuit.CLOSED:
        tell(tx, operational_events.circuit_reset(endpoint_no, event.cause))
    wake(tx, endpoint_no)
    return event
