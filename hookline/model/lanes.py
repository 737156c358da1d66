"""Queues of endpoints: what governs them, their timeline, and how people see them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from hookline.model.actors import Actor
from hookline.model.states import Circuit, EndpointStatus


class Lane(Struct, frozen=True, kw_only=True):
    """The queue of one endpoint and what governs it. Written only under its row lock."""

    endpoint_no: int
    app_no: int
    status: EndpointStatus = EndpointStatus.ACTIVE
    revision: int = 1
    circuit: Circuit = Circuit.CLOSED
    epoch: int = 0  # grows with each change of the circuit
    failures: int = 0  # in a row
    failing_since: datetime | None = None  # the first failure since the last success
    trips: int = 0  # openings since the circuit was last closed
    opened_at: datetime | None = None
    probe_at: datetime | None = None  # open: the next probe; half-open: until when the probe holds the lane
    window: int | None = None  # recovering: most requests in flight
    window_at: datetime | None = None  # when the window last grew
    in_flight: int = 0  # claims that were made while the lane was limited
    waiting_floor: datetime | None = None  # somebody found no room: whoever frees some inserts a token with this floor
    throttle_rate: float | None = None
    concurrency: int | None = None
    tat: datetime | None = None  # GCRA: the theoretical arrival time of the next start
    held_until: datetime | None = None  # by a Retry-After
    pace: float | None = None  # starts a second that 429s have taught us; None: the endpoint has not complained
    pace_at: datetime | None = None  # when it last changed
    pace_top: float | None = None  # that was too much, the last time
    slowed_at: datetime | None = None  # the last complaint that slowed it
    app_rate: float | None = None  # starts a second of the application as a whole, all of its lanes together
    turn_at: datetime | None = None  # its turn among those of its lanes that wait for that rate


class AppPace(Struct, frozen=True, kw_only=True):
    """How far an application that has a rate is: shared by its lanes, and by all workers."""

    app_no: int
    tat: datetime | None = None  # GCRA: the theoretical arrival time of the next start
    tail_at: datetime | None = None  # the last turn that was given to a lane that waits


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
    LANE_SLOWED = "lane_slowed"  # by a 429
    LANE_AT_SPEED = "lane_at_speed"  # the pace is forgotten


class LaneEvent(Struct, frozen=True, kw_only=True):
    """An operational event of one endpoint, with its cause: the endpoint's timeline is made of these."""

    endpoint_no: int
    at: datetime
    kind: LaneEventKind
    cause: str
    actor: Actor | None = None  # None: nobody, it came about by itself


class LaneEventFilter(Struct, frozen=True, kw_only=True):
    kinds: tuple[LaneEventKind, ...] | None = None  # one of them
    since: datetime | None = None  # at or after
    until: datetime | None = None  # before

    def matches(self, event: LaneEvent) -> bool:
        return (
            (self.kinds is None or event.kind in self.kinds)
            and (self.since is None or event.at >= self.since)
            and (self.until is None or event.at < self.until)
        )


class TimelineEntry(Struct, frozen=True, kw_only=True):
    id: int  # in the order in which the lane changed
    event: LaneEvent


class LaneView(Struct, frozen=True, kw_only=True):
    """A lane for people: `hookline endpoints`, `doctor`, the health route and the dashboard."""

    lane: Lane
    endpoint_id: str
    url: str
    description: str
    app_id: str
    depth: int  # open deliveries, counted up to a bound
    more: bool  # there may be more of these
    oldest_due: datetime | None
    last_error: str | None = None


class AppHealth(Struct, frozen=True, kw_only=True):
    """How the endpoints of one application are."""

    lanes: int  # that were looked at
    sick: int  # of these, not well
    stopped: int  # of these, held back
    held: int  # deliveries behind those, counted up to a bound
    dead: int  # dead letters that nobody has resolved, likewise


class UnhealthyLane(Struct, frozen=True, kw_only=True):
    """A lane that is held back, whose last attempts have failed, or that has dead letters."""

    view: LaneView
    org_id: str
    app_name: str
    dead: int  # dead letters that nobody has resolved, counted up to a bound
    dead_since: datetime | None = None  # when the first of these died
    stopped_at: datetime | None = None  # when it was last paused or disabled
