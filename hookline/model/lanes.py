"""Lanes: the open deliveries of one endpoint, with limits, circuit and timeline."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from hookline.model.actors import Actor
from hookline.model.states import Circuit, EndpointStatus


class Lane(Struct, frozen=True, kw_only=True):
    """The row that governs the open deliveries of one endpoint. A writer must hold the lock of this row."""

    endpoint_no: int
    app_no: int
    status: EndpointStatus = EndpointStatus.ACTIVE
    revision: int = 1
    circuit: Circuit = Circuit.CLOSED
    epoch: int = 0  # increases with each change of the circuit
    failures: int = 0  # consecutive failures
    failing_since: datetime | None = None  # the first failure since the last success
    trips: int = 0  # how often the circuit opened since it was last closed
    opened_at: datetime | None = None
    probe_at: datetime | None = None  # open: time of the next probe; half-open: end of the current probe
    window: int | None = None  # maximum number of requests in flight while the circuit recovers
    window_at: datetime | None = None  # when the window last grew
    in_flight: int = 0  # leased deliveries that were claimed while the lane had a limit
    waiting_floor: datetime | None = None  # earliest due time of deliveries that wait until a request of the lane ends
    throttle_rate: float | None = None
    concurrency: int | None = None
    tat: datetime | None = None  # theoretical arrival time of the next request, of the rate limit algorithm GCRA
    held_until: datetime | None = None  # no request is sent before this time, because of a Retry-After
    pace: float | None = None  # maximum requests per second, lowered after each 429; None means no limit
    pace_at: datetime | None = None  # when `pace` last changed
    pace_top: float | None = None  # requests per second that caused the last 429
    slowed_at: datetime | None = None  # when a response last lowered `pace`
    app_rate: float | None = None  # maximum requests per second of all lanes of the application together
    turn_at: datetime | None = None  # when this lane may send its next request under `app_rate`


class AppPace(Struct, frozen=True, kw_only=True):
    """The rate limiter state of one application. All of its lanes and all workers share it."""

    app_no: int
    tat: datetime | None = None  # theoretical arrival time of the next request, of the rate limit algorithm GCRA
    tail_at: datetime | None = None  # the latest `turn_at` of a waiting lane


class LaneEventKind(StrEnum):
    CIRCUIT_OPENED = "circuit_opened"
    CIRCUIT_PROBE_FAILED = "circuit_probe_failed"
    CIRCUIT_RECOVERING = "circuit_recovering"
    CIRCUIT_CLOSED = "circuit_closed"
    CIRCUIT_RESET = "circuit_reset"
    ENDPOINT_PAUSED = "endpoint_paused"
    ENDPOINT_RESUMED = "endpoint_resumed"
    ENDPOINT_DISABLED = "endpoint_disabled"
    ENDPOINT_ENABLED = "endpoint_enabled"
    LANE_HELD = "lane_held"
    LANE_SLOWED = "lane_slowed"  # a 429 lowered the lane's pace
    LANE_AT_SPEED = "lane_at_speed"  # the lane sends without a pace limit again


class LaneEvent(Struct, frozen=True, kw_only=True):
    """An entry of an endpoint's timeline, such as an opened circuit, with its cause."""

    endpoint_no: int
    at: datetime
    kind: LaneEventKind
    cause: str
    actor: Actor | None = None  # the person, key or token that caused the event; None if Hookline did


class LaneEventFilter(Struct, frozen=True, kw_only=True):
    kinds: tuple[LaneEventKind, ...] | None = None  # the event has one of these kinds
    since: datetime | None = None  # the event is at this time or later
    until: datetime | None = None  # the event is before this time

    def matches(self, event: LaneEvent) -> bool:
        return (
            (self.kinds is None or event.kind in self.kinds)
            and (self.since is None or event.at >= self.since)
            and (self.until is None or event.at < self.until)
        )


class TimelineEntry(Struct, frozen=True, kw_only=True):
    id: int  # increases in the order in which the lane changed
    event: LaneEvent


class LaneView(Struct, frozen=True, kw_only=True):
    """A lane as `hookline endpoints`, `doctor`, the health route and the dashboard show it."""

    lane: Lane
    endpoint_id: str
    url: str
    description: str
    app_id: str
    depth: int  # number of open deliveries, counted up to a limit
    more: bool  # the count reached its limit, so that the true depth may be larger
    oldest_due: datetime | None
    last_error: str | None = None


class AppHealth(Struct, frozen=True, kw_only=True):
    """The health of one application's endpoints."""

    lanes: int  # lanes that were checked
    sick: int  # checked lanes that are held back or whose last attempts failed
    stopped: int  # checked lanes that are held back
    held: int  # deliveries in lanes that are held back, counted up to a limit
    dead: int  # unresolved dead letters, counted up to a limit


class UnhealthyLane(Struct, frozen=True, kw_only=True):
    """A lane that is held back, or whose last attempts failed, or that has dead letters."""

    view: LaneView
    org_id: str
    app_name: str
    dead: int  # unresolved dead letters, counted up to a limit
    dead_since: datetime | None = None  # when the oldest unresolved dead letter died
    stopped_at: datetime | None = None  # when the endpoint was last paused or disabled
