"""Lanes by hand: pause, resume, disable and enable an endpoint; open, close and reset its circuit."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from msgspec.structs import replace

from hookline import operational
from hookline.errors import InvalidInput
from hookline.flow.circuit import Fold, close_by_hand, open_by_hand, reset
from hookline.flow.record import clean
from hookline.model import Actor, Endpoint, Lane, LaneEvent, LaneEventKind
from hookline.states import Circuit, EndpointStatus
from hookline.store import rows
from hookline.store.postgres.catalogue import Catalogue
from hookline.store.postgres.database import READ, Connection
from hookline.store.postgres.operational import tell


class Steering(Catalogue):
    async def set_endpoint_status(
        self, endpoint_no: int, status: EndpointStatus, cause: str, *, actor: Actor | None = None
    ) -> Endpoint:
        async def work(connection: Connection) -> Endpoint:
            await self._set_status(connection, endpoint_no, status, clean(cause), by_hand=True, actor=actor)
            return await self._endpoint_by_no(connection, endpoint_no)

        if status == EndpointStatus.DELETED:
            raise InvalidInput("an endpoint is deleted with `delete_endpoint`")
        return await self._db.transact(work, calm=True)

    async def _set_status(
        self,
        connection: Connection,
        endpoint_no: int,
        status: EndpointStatus,
        cause: str,
        *,
        by_hand: bool = False,
        actor: Actor | None = None,
    ) -> LaneEvent | None:
        """Under the lane's lock. None: it has that status already."""
        row = await self._lock_lane(connection, endpoint_no)
        before = EndpointStatus(row["status"])
        if before == status:
            return None
        reason = None if status == EndpointStatus.ACTIVE else cause
        await connection.execute(self._sql["lane_status"], endpoint_no, int(status))
        await connection.execute(self._sql["endpoint_status"], endpoint_no, int(status), reason)
        if before == EndpointStatus.PAUSED:
            for name in ("held_renew", "queued_renew"):
                await connection.execute(self._sql[name], endpoint_no, self._options.retry.max_age)
        if status == EndpointStatus.ACTIVE:
            await self._wake_lane(connection, endpoint_no)
        kind = _event_kind(before, status)
        event = LaneEvent(endpoint_no=endpoint_no, at=row["now"], kind=kind, cause=cause, actor=actor)
        await self._write_lane_events(connection, [event], by_hand=by_hand)
        return event

    async def open_circuit(
        self, endpoint_no: int, cause: str, *, until: datetime | None = None, actor: Actor | None = None
    ) -> LaneEvent:
        def change(lane: Lane, now: datetime) -> Fold:
            policy, chance = self._options.circuit, self._chance
            return open_by_hand(lane, now=now, until=until, cause=clean(cause), policy=policy, chance=chance)

        event = await self._steer(endpoint_no, change, actor)
        assert event is not None, "to open it is always a change"
        return event

    async def close_circuit(self, endpoint_no: int, cause: str, *, actor: Actor | None = None) -> LaneEvent | None:
        def change(lane: Lane, now: datetime) -> Fold:
            policy, chance = self._options.circuit, self._chance
            return close_by_hand(lane, now=now, cause=clean(cause), policy=policy, chance=chance)

        return await self._steer(endpoint_no, change, actor)

    async def reset_circuit(self, endpoint_no: int, cause: str, *, actor: Actor | None = None) -> LaneEvent | None:
        return await self._steer(endpoint_no, lambda lane, now: reset(lane, now=now, cause=clean(cause)), actor)

    async def _steer(
        self, endpoint_no: int, change: Callable[[Lane, datetime], Fold], actor: Actor | None
    ) -> LaneEvent | None:
        """Change a circuit by hand, under its lane's lock. None: there was nothing to change."""

        async def work(connection: Connection) -> LaneEvent | None:
            row = await self._lock_lane(connection, endpoint_no)
            before = rows.lane(row, READ)
            after = change(before, row["now"])
            if not after.events:
                return None
            (event,) = (replace(each, actor=actor) for each in after.events)
            await self._write_lanes(connection, [after.lane])
            await self._write_lane_events(connection, [event], by_hand=True)
            if before.circuit != Circuit.CLOSED and after.lane.circuit == Circuit.CLOSED:
                await tell(connection, self._sql, operational.circuit_reset(endpoint_no, event.cause))
            await self._wake_lane(connection, endpoint_no)
            return event

        return await self._db.transact(work, calm=True)


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
