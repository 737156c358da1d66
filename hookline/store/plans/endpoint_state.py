"""Pause, resume, disable, enable or delete an endpoint and its lane, and open, close or reset its circuit by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from hookline.clock import chance
from hookline.errors import InvalidInput, NotFound
from hookline.model.actors import Actor
from hookline.model.audit import Note
from hookline.model.endpoints import Endpoint
from hookline.model.lanes import Lane, LaneEvent, LaneEventKind
from hookline.model.states import Circuit, EndpointStatus
from hookline.rules import operational_events
from hookline.rules.lane.circuit import Fold, close_by_hand, open_by_hand, reset
from hookline.rules.operational_events import Kind, of_lanes
from hookline.rules.outcomes import clean
from hookline.security.vault import Vault
from hookline.store import rows
from hookline.store.options import StoreOptions
from hookline.store.plans.operational_events import write_events
from hookline.store.plans.plan import Plan, Plans, Step, changes, noted, row
from hookline.store.rows import LANE_WRITTEN, Reading, Row


class EndpointState(Plans):
    """Pause, resume, disable or enable endpoints, and open, close or reset their circuits by hand."""

    async def set_endpoint_status(
        self,
        endpoint_no: int,
        status: EndpointStatus,
        cause: str,
        *,
        actor: Actor | None = None,
        note: Note[Endpoint] | None = None,
    ) -> Endpoint:
        """Pause, resume, disable or enable an endpoint. On resume, deliveries that the pause held get a new time
        budget and the lane is woken.

        The change is recorded as a `LaneEvent`. To delete an endpoint, use `delete_endpoint`.
        """
        if status == EndpointStatus.DELETED:
            raise InvalidInput("an endpoint is deleted with `delete_endpoint`")
        await self._renew_held(endpoint_no, status)
        return await self._set_endpoint_status(endpoint_no, status, cause, actor, note)

    async def _renew_held(self, endpoint_no: int, status: EndpointStatus) -> None:
        """Restart the time budgets of deliveries that a pause held, before the status changes.

        An engine overrides this method if it needs several transactions for this work. By default the method does
        nothing, and the statement `held_renew_all` restarts the time budgets in the transaction of the change.
        """

    @changes
    def _set_endpoint_status(
        self,
        endpoint_no: int,
        status: EndpointStatus,
        cause: str,
        actor: Actor | None,
        note: Note[Endpoint] | None,
    ) -> Plan[Endpoint]:
        read, max_age = self._reading, self._options.retry.max_age
        yield from set_status(endpoint_no, status, clean(cause), read=read, max_age=max_age, by_hand=True, actor=actor)
        return (yield from noted(note, (yield from existing(endpoint_no, self._reading, self._vault))))

    @changes
    def open_circuit(
        self,
        endpoint_no: int,
        cause: str,
        *,
        until: datetime | None = None,
        actor: Actor | None = None,
        note: Note[LaneEvent] | None = None,
    ) -> Plan[LaneEvent]:
        """Open the circuit: nothing is sent until the given instant, or for the default cooldown. Then a probe is
        sent. See `circuit.open_by_hand`."""

        def change(lane: Lane, now: datetime) -> Fold:
            policy = self._options.circuit
            return open_by_hand(lane, now=now, until=until, cause=clean(cause), policy=policy, chance=chance)

        event = yield from self._change_circuit(endpoint_no, change, actor)
        assert event is not None, "to open it is always a change"
        return (yield from noted(note, event))

    @changes
    def close_circuit(
        self,
        endpoint_no: int,
        cause: str,
        *,
        actor: Actor | None = None,
        note: Note[LaneEvent | None] | None = None,
    ) -> Plan[LaneEvent | None]:
        """Close the circuit and increase the sending rate slowly, as after a successful probe. Return None if
        the circuit was neither open nor half-open. See `circuit.close_by_hand`."""

        def change(lane: Lane, now: datetime) -> Fold:
            return close_by_hand(lane, now=now, cause=clean(cause), policy=self._options.circuit, chance=chance)

        return (yield from noted(note, (yield from self._change_circuit(endpoint_no, change, actor))))

    @changes
    def reset_circuit(
        self,
        endpoint_no: int,
        cause: str,
        *,
        actor: Actor | None = None,
        note: Note[LaneEvent | None] | None = None,
    ) -> Plan[LaneEvent | None]:
        """Close the circuit, remove the pace, earlier failures and a Retry-After, increase the epoch and wake the lane,
        all under the lock of the lane. See `circuit.reset`.

        The change is recorded as a `LaneEvent`. Return None if there was nothing to reset.
        """

        def change(lane: Lane, now: datetime) -> Fold:
            return reset(lane, now=now, cause=clean(cause))

        return (yield from noted(note, (yield from self._change_circuit(endpoint_no, change, actor))))

    def _change_circuit(
        self, endpoint_no: int, change: Callable[[Lane, datetime], Fold], actor: Actor | None
    ) -> Plan[LaneEvent | None]:
        """Change a circuit by hand under its lane's lock. Return None if nothing changed."""
        found = yield from lock_lane(endpoint_no)
        before = rows.lane(found, self._reading)
        after = change(before, self._reading.instant(found["now"]))
        if not after.events:
            return None
        (event,) = (replace(each, actor=actor) for each in after.events)
        yield Step("lane_save", no=endpoint_no, **{name: getattr(after.lane, name) for name in LANE_WRITTEN})
        yield from _write_event(event, before.app_no, self._reading, by_hand=True)
        if before.circuit != Circuit.CLOSED and after.lane.circuit == Circuit.CLOSED:
            yield from write_events(operational_events.circuit_reset(endpoint_no, event.cause), self._reading)
        yield Step("lanes_wake", nos=[endpoint_no])
        yield Step("announce")
        return event


def set_status(
    endpoint_no: int,
    status: EndpointStatus,
    cause: str,
    *,
    read: Reading,
    max_age: float,
    by_hand: bool = False,
    actor: Actor | None = None,
) -> Plan[LaneEvent | None]:
    """Set the status of an endpoint and its lane, and record an event. Return None if the endpoint already has
    this status.

    A lane that becomes active again starts without earlier failures, and an open circuit is probed at once.
    """
    lane = yield from lock_lane(endpoint_no)
    before = EndpointStatus(lane["status"])
    if before == status:
        return None
    yield Step("lane_status", no=endpoint_no, status=status, active=status == EndpointStatus.ACTIVE)
    reason = None if status == EndpointStatus.ACTIVE else cause
    yield Step("endpoint_status", no=endpoint_no, status=status, reason=reason)
    if before == EndpointStatus.PAUSED:
        yield Step("held_renew_all", no=endpoint_no, max_age=max_age)
    if status == EndpointStatus.ACTIVE:
        yield Step("lanes_wake", nos=[endpoint_no])
        yield Step("announce")
    kind = _event_kind(before, status)
    event = LaneEvent(endpoint_no=endpoint_no, at=read.instant(lane["now"]), kind=kind, cause=cause, actor=actor)
    yield from _write_event(event, lane["app_no"], read, by_hand=by_hand)
    return event


def stop(
    status: EndpointStatus, causes: Mapping[int, str], options: StoreOptions, read: Reading
) -> Plan[tuple[LaneEvent, ...]]:
    """Pause or disable endpoints without a user's request. `causes` has the cause by endpoint. Return an event for each
    endpoint whose status changed."""
    events = []
    for no, cause in causes.items():
        events.append((yield from set_status(no, status, cause, read=read, max_age=options.retry.max_age)))
    return tuple(event for event in events if event is not None)


def delete_endpoints(nos: Sequence[int], read: Reading) -> Plan[None]:
    """Mark endpoints as deleted. The caller must have locked their lanes. The sweep turns their waiting deliveries
    into dead letters."""
    yield Step("lanes_delete_mark", nos=nos)
    yield Step("endpoints_delete", nos=nos)
    yield from write_events(operational_events.of_endpoints(Kind.ENDPOINT_DELETED, nos), read)


def lock_lane(endpoint_no: int) -> Plan[Row]:
    found = yield from row("lane_lock", no=endpoint_no)
    if found is None:
        raise NotFound("no such endpoint")
    return found


def existing(endpoint_no: int, read: Reading, vault: Vault) -> Plan[Endpoint]:
    """Return the endpoint, even if no key decrypts its secrets, so that a user can repair it with a new secret."""
    found = yield from row("endpoint_by_no", no=endpoint_no)
    if found is None:
        raise NotFound("no such endpoint")
    return rows.endpoint_or_fault(found, read, vault)


def endpoint_of(endpoint_no: int | None, read: Reading, vault: Vault) -> Plan[Endpoint | None]:
    """Return the endpoint with this number, even if it was deleted."""
    found = [] if endpoint_no is None else (yield Step("endpoints_for", nos=[endpoint_no]))
    return rows.endpoint_or_fault(found[0], read, vault) if found else None


def _write_event(event: LaneEvent, app_no: int, read: Reading, *, by_hand: bool) -> Plan[None]:
    actor, actor_name = rows.actor(event)
    about = {"at": event.at, "kind": event.kind, "cause": event.cause, "actor": actor, "actor_name": actor_name}
    yield Step("lane_event_add", no=event.endpoint_no, app_no=app_no, **about)
    yield from write_events(of_lanes([event], by_hand=by_hand), read)


def _event_kind(before: EndpointStatus, after: EndpointStatus) -> LaneEventKind:
    match after:
        case EndpointStatus.PAUSED:
            return LaneEventKind.ENDPOINT_PAUSED
        case EndpointStatus.DISABLED:
            return LaneEventKind.ENDPOINT_DISABLED
        case _ if before == EndpointStatus.DISABLED:
            return LaneEventKind.ENDPOINT_ENABLED
        case _:
            return LaneEventKind.ENDPOINT_RESUMED
