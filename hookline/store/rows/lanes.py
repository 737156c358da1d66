"""Rows of lanes and lane events."""

from __future__ import annotations

from hookline.model import (
    Actor,
    ActorKind,
    AppPace,
    Lane,
    LaneEvent,
    LaneView,
    TimelineEntry,
    UnhealthyLane,
)
from hookline.model.states import Circuit, EndpointStatus
from hookline.store.rows.reading import Reading, Row, maybe, struct_of

# The columns that claim, record and sweep may change, in the order of the parameters of `lane_write`.
LANE_WRITTEN = (
    "status",
    "revision",
    "circuit",
    "epoch",
    "failures",
    "failing_since",
    "trips",
    "opened_at",
    "probe_at",
    "window",
    "window_at",
    "in_flight",
    "waiting_floor",
    "tat",
    "held_until",
    "pace",
    "pace_at",
    "pace_top",
    "slowed_at",
    "turn_at",
)


def lane(row: Row, read: Reading) -> Lane:
    instant = read.instant
    return Lane(
        endpoint_no=row["endpoint_no"],
        app_no=row["app_no"],
        status=EndpointStatus(row["status"]),
        revision=row["revision"],
        circuit=Circuit(row["circuit"]),
        epoch=row["epoch"],
        failures=row["failures"],
        failing_since=maybe(instant, row["failing_since"]),
        trips=row["trips"],
        opened_at=maybe(instant, row["opened_at"]),
        probe_at=maybe(instant, row["probe_at"]),
        window=row["window"],
        window_at=maybe(instant, row["window_at"]),
        in_flight=row["in_flight"],
        waiting_floor=maybe(instant, row["waiting_floor"]),
        throttle_rate=row["throttle_rate"],
        concurrency=row["concurrency"],
        tat=maybe(instant, row["tat"]),
        held_until=maybe(instant, row["held_until"]),
        pace=row["pace"],
        pace_at=maybe(instant, row["pace_at"]),
        pace_top=row["pace_top"],
        slowed_at=maybe(instant, row["slowed_at"]),
        app_rate=row["app_rate"],
        turn_at=maybe(instant, row["turn_at"]),
    )


def app_pace(row: Row, read: Reading) -> AppPace:
    return AppPace(
        app_no=row["app_no"], tat=maybe(read.instant, row["tat"]), tail_at=maybe(read.instant, row["tail_at"])
    )


def lane_view(row: Row, read: Reading, counted: int) -> LaneView:
    """Read a lane for display. Open deliveries were counted up to `counted`."""
    return struct_of(LaneView, row, read, lane=lane(row, read), more=row["depth"] >= counted)


def unhealthy_lane(view: LaneView, row: Row, read: Reading) -> UnhealthyLane:
    return struct_of(UnhealthyLane, row, read, view=view)


def lane_event(row: Row, read: Reading) -> LaneEvent:
    actor = None if row["actor"] is None else Actor(kind=ActorKind(row["actor"]), name=row["actor_name"])
    return struct_of(LaneEvent, row, read, actor=actor)


def timeline_entry(row: Row, read: Reading) -> TimelineEntry:
    return TimelineEntry(id=row["id"], event=lane_event(row, read))


def actor(event: LaneEvent) -> tuple[str | None, str | None]:
    """Return the columns that name the user who caused the event."""
    return (None, None) if event.actor is None else (event.actor.kind.value, event.actor.name)
