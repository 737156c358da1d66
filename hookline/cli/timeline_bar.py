"""Draw the timeline of an endpoint as bars of characters: its circuit, status and pace over time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from hookline.cli import bars
from hookline.model import LaneEvent, LaneEventKind

K = LaneEventKind

# If several states share a cell, the later one in this order is drawn, so that a short outage is visible in a long window.
MARKS = {
    "closed": "─",
    "active": "─",
    "full speed": "─",
    "recovering": "▒",
    "slowed": "▒",
    "paused": "░",
    "open": "█",
    "disabled": "█",
}
PROBE = "╵"  # marks a probe; the circuit is half-open only while the probe runs, which is too short for the bar


class Aspect(Struct, frozen=True):
    """One bar. `begins` maps a kind of event to the state that starts with it."""

    name: str
    usual: str
    begins: Mapping[LaneEventKind, str]


CIRCUIT = Aspect(
    "circuit",
    "closed",
    {
        K.CIRCUIT_OPENED: "open",
        K.CIRCUIT_PROBE_FAILED: "open",
        K.CIRCUIT_RECOVERING: "recovering",
        K.CIRCUIT_CLOSED: "closed",
        K.CIRCUIT_RESET: "closed",
    },
)
STATUS = Aspect(
    "status",
    "active",
    {
        K.ENDPOINT_PAUSED: "paused",
        K.ENDPOINT_RESUMED: "active",
        K.ENDPOINT_DISABLED: "disabled",
        K.ENDPOINT_ENABLED: "active",
    },
)
PACE = Aspect(
    "pace", "full speed", {K.LANE_SLOWED: "slowed", K.LANE_AT_SPEED: "full speed", K.CIRCUIT_RESET: "full speed"}
)
ASPECTS = (CIRCUIT, STATUS, PACE)


def stretches(aspect: Aspect, events: Iterable[LaneEvent], start: datetime, end: datetime) -> list[bars.Stretch]:
    """Turn events, oldest first, into states. An event before the window sets the state at its start."""
    begun = [(aspect.usual, start)]
    for event in events:
        state = aspect.begins.get(event.kind)
        if state is not None and event.at <= start:
            begun = [(state, start)]
        elif state is not None and state != begun[-1][0]:
            begun.append((state, event.at))
    ends = [*(at for _, at in begun[1:]), end]
    return [(state, since, until) for (state, since), until in zip(begun, ends, strict=True)]


def probes(events: Iterable[LaneEvent], start: datetime, end: datetime, width: int) -> str:
    """Draw a mark at each time when a probe was sent, which is when the circuit was half-open."""
    cells = [" "] * width
    for event in events:
        if event.kind in (K.CIRCUIT_PROBE_FAILED, K.CIRCUIT_RECOVERING) and event.actor is None and event.at >= start:
            cells[bars.cell(event.at - start, end - start, width)] = PROBE
    return "".join(cells).rstrip()


def bands(events: Sequence[LaneEvent], start: datetime, end: datetime, width: int) -> list[tuple[str, str]]:
    """Return each bar with its name, and a legend. Status and pace are left out if they never changed."""
    shown: list[tuple[str, str]] = []
    seen: set[str] = set()
    for aspect in ASPECTS:
        found = stretches(aspect, events, start, end)
        states = {state for state, _, _ in found}
        if aspect is CIRCUIT or states != {aspect.usual}:
            shown.append((aspect.name, bars.band(found, MARKS, width)))
            seen |= states
        if aspect is CIRCUIT and (ticks := probes(events, start, end, width)):
            shown.append(("probes", ticks))
    legend = [f"{mark} {state}" for state, mark in MARKS.items() if state in seen]
    if any(name == "probes" for name, _ in shown):
        legend.append(f"{PROBE} probe (half-open)")
    return [*shown, ("", "   ".join(legend))]
