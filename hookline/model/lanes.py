"""Lanes: the open deliveries of one endpoint, with limits, circuit and timeline.

The timeline lists the changes of the lane's circuit, status and pace, and the times when a Retry-After held the lane.
It does not list attempts.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from hookline.model.actors import Actor
from hookline.model.states import Circuit, EndpointStatus


class Lane(Struct, frozen=True, kw_only=True):
    """The row that governs the open deliveries of one endpoint. A transaction locks the row before it changes it."""

    endpoint_no: int
    app_no: int
    status: EndpointStatus = EndpointStatus.ACTIVE
    revision: int = 1
    circuit: Circuit = Circuit.CLOSED
    epoch: int = 0  # increases with each change of the circuit
    failures: int = 0  # consecutive failures
    failing_since: datetime | None = None  # time of the first failure since the last success
    trips: int = 0  # how often the circuit opened since it was last closed
    opened_at: datetime | None = None
    probe_at: datetime | None = None  # open: time of the next probe; half-open: end of the current probe's lease
    window: int | None = None  # maximum number of requests in flight while the circuit recovers
    window_at: datetime | None = None  # when `window` last changed
    in_flight: int = 0  # leased deliveries that were claimed while a limit or the circuit restricted the lane
    waiting_floor: datetime | None = None  # earliest due time of deliveries that wait until a request of the lane ends
    throttle_rate: float | None = None
    concurrency: int | None = None
    tat: datetime | None = None  # theoretical arrival time of the next request (rate limit algorithm GCRA)
    held_until: datetime | None = None  # no request is sent before this time, because of a Retry-After
    # Maximum requests per second; None: no limit. Hookline sets the pace after a complaint (a 429, or a 503 with
    # Retry-After) and after a failure under load: the circuit opened while the lane recovered or had a pace, and the
    # lane's rate was high.
    pace: float | None = None
    # When `pace` last changed. A successful probe sets it to three minutes after the probe, so that the pace is not
    # raised until then.
    pace_at: datetime | None = None
    # The rate that was too high, in requests per second: the rate at a complaint, or at the first failure during a
    # recovery. After a failure under load it is half of that rate. None: unknown.
    pace_top: float | None = None
    # The later of two times: when `pace` was last lowered, and the last successful probe. A success ten minutes
    # or more after this time removes the pace.
    slowed_at: datetime | None = None
    app_rate: float | None = None  # maximum requests per second of all lanes of the application together
    turn_at: datetime | None = None  # when this lane may send its next request under `app_rate`


class AppPace(Struct, frozen=True, kw_only=True):
    """The rate limiter state of one application. All of its lanes and all workers share it."""

    app_no: int
    tat: datetime | None = None  # theoretical arrival time of the next request (rate limit algorithm GCRA)
    tail_at: datetime | None = None  # the latest `turn_at` among the application's waiting lanes


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
    LANE_SLOWED = "lane_slowed"  # the lane got a pace, after a complaint or a failure under load (see `Lane.pace`)
    LANE_AT_SPEED = "lane_at_speed"  # the lane sends without a pace limit again


class LaneEvent(Struct, frozen=True, kw_only=True):
    """An entry of a lane's timeline, such as an opened circuit, with its cause."""

    endpoint_no: int
    at: datetime
    kind: LaneEventKind
    cause: str
    actor: Actor | None = None  # the person, key or token that caused the event; None if Hookline did


class LaneEventFilter(Struct, frozen=True, kw_only=True):
    kinds: tuple[LaneEventKind, ...] | None = None  # only events of these kinds match
    since: datetime | None = None  # only events at this time or later match
    until: datetime | None = None  # only events before this time match

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
    more: bool  # the count reached its limit, so the true depth may be larger
    oldest_due: datetime | None
    last_error: str | None = None


class AppHealth(Struct, frozen=True, kw_only=True):
    """The health of one application's endpoints."""

    lanes: int  # lanes that were checked
    sick: int  # checked lanes that are held, recovering or slowed (they have a pace), or whose last attempts failed
    stopped: int  # checked lanes that are held
    held: int  # open deliveries in held lanes, counted up to a limit
    dead: int  # unresolved dead letters, counted up to a limit


class UnhealthyLane(Struct, frozen=True, kw_only=True):
    """A lane that is held, recovering or slowed (it has a pace), or whose last attempts failed, or that has dead
    letters."""

    view: LaneView
    org_id: str
    app_name: str
    dead: int  # unresolved dead letters, counted up to a limit
    dead_since: datetime | None = None  # when the oldest unresolved dead letter died
    stopped_at: datetime | None = None  # when the endpoint was last paused or disabled
