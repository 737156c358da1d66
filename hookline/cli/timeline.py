"""`endpoints timeline`: the changes of an endpoint's circuit, status and pace, as bars and as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Annotated

from msgspec import Struct
from typer import Option

from hookline.api import wire
from hookline.cli import bars, params
from hookline.cli.command import OrgCommand
from hookline.cli.endpoint_state import actor_name
from hookline.cli.output import Cell, Output
from hookline.cli.session import Session
from hookline.errors import InvalidInput
from hookline.model.endpoints import Endpoint
from hookline.model.lanes import LaneEvent, LaneEventFilter, LaneEventKind, TimelineEntry
from hookline.services import lane_events

MAX_EVENTS = 10_000  # maximum events that are read for one timeline: the newest ones
MAX_WINDOW = timedelta(days=3650)
MIN_WIDTH, MAX_WIDTH = 24, 96  # characters of a bar

_LABEL = 10  # characters before a bar, for its name


K = LaneEventKind

# If several states fall on one character of a bar, the bar shows the state that comes last in this dict. So a short
# outage is visible in a long window.
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
    """One bar: circuit, status or pace. `usual` is the state before the first event. `begins` has the state that each
    kind of event begins."""

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


class Timeline(Struct, frozen=True, kw_only=True):
    since: datetime
    until: datetime
    events: list[LaneEvent]  # events of the window, newest first
    before: list[LaneEvent]  # the events that set the states at the start of the window, oldest first
    complete: bool  # False if the window has more than MAX_EVENTS


async def timeline(
    cmd: OrgCommand,
    ref: params.EndpointRef,
    since: Annotated[str, Option(help="From this time: an instant, or 2h, 7d ago.")] = "24h",
    until: Annotated[str | None, Option(help="To this time: an instant, or 2h, 7d ago.", show_default="now")] = None,
    kind: Annotated[
        list[LaneEventKind] | None,
        Option(help="Only this kind of event in the table. Can be given several times."),
    ] = None,
    limit: params.Limit = 50,
) -> None:
    """Show the changes of an endpoint's circuit, status and pace, with cause and actor, newest first.

    hookline endpoints timeline ep_... --since 7d --kind circuit_opened
    """
    async with cmd.session() as opened:
        start = params.read_instant(since, opened.now)
        end = opened.now if until is None else params.read_instant(until, opened.now)
        if end <= start:
            raise InvalidInput("--until must be after --since")
        if end - start > MAX_WINDOW:
            raise InvalidInput("--since is more than ten years before --until")
        found = await _read(opened, await opened.endpoint(ref), start, end)
    where = LaneEventFilter(kinds=tuple(kind) if kind else None)
    chosen = [event for event in found.events if where.matches(event)]
    cmd.out.result(
        {"since": found.since, "until": found.until, "data": [wire.lane_event(each) for each in chosen[:limit]]},
        as_text=lambda: _print(cmd.out, found, chosen, limit),
    )


async def _read(opened: Session, endpoint: Endpoint, start: datetime, end: datetime) -> Timeline:
    where = LaneEventFilter(since=start, until=end)
    entries = await lane_events.latest(opened.store, endpoint.no, where, MAX_EVENTS + 1)
    before = [await _last_before(opened, endpoint, aspect, start) for aspect in ASPECTS]
    return Timeline(
        since=start,
        until=end,
        events=[entry.event for entry in entries[:MAX_EVENTS]],
        before=[entry.event for entry in sorted(chain(*before), key=lambda entry: entry.id)],
        complete=len(entries) <= MAX_EVENTS,
    )


async def _last_before(opened: Session, endpoint: Endpoint, aspect: Aspect, start: datetime) -> list[TimelineEntry]:
    """Return the event that set the state of this aspect at the start of the window, if there is one."""
    where = LaneEventFilter(kinds=tuple(aspect.begins), until=start)
    return await lane_events.latest(opened.store, endpoint.no, where, 1)


def _print(out: Output, found: Timeline, chosen: list[LaneEvent], limit: int) -> None:
    if out.human:
        _print_bars(out, found)
    out.table(
        ("at", "kind", "by", "cause"),
        [_row(event) for event in chosen[:limit]],
        empty="Nothing happened to it in this time.",
    )
    if len(chosen) > limit:
        out.note(f"{len(chosen) - limit:,} older ones are not shown; --limit shows more")
    if not found.complete:
        out.note(f"only the newest {MAX_EVENTS:,} events of this time were read")


def _print_bars(out: Output, found: Timeline) -> None:
    width = min(MAX_WIDTH, max(MIN_WIDTH, out.width - _LABEL))
    oldest_first = [*found.before, *found.events[::-1]]
    for name, line in bands(oldest_first, found.since, found.until, width):
        out.line(f"{name:<{_LABEL - 1}} {line}".rstrip())
    first, last = (f"{at.astimezone():%Y-%m-%d %H:%M}" for at in (found.since, found.until))
    out.line(" " * _LABEL + first + last.rjust(width - len(first)))
    out.line()


def _row(event: LaneEvent) -> tuple[Cell, ...]:
    return event.at, event.kind.value, None if event.actor is None else actor_name(event.actor), event.cause


# ── bars ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def stretches(aspect: Aspect, events: Iterable[LaneEvent], start: datetime, end: datetime) -> list[bars.Stretch]:
    """Turn events, oldest first, into states with start and end. An event before the window sets the first state."""
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
    """Draw a mark at the time of each probe. The circuit is half-open only while a probe runs."""
    cells = [" "] * width
    for event in events:
        if event.kind in (K.CIRCUIT_PROBE_FAILED, K.CIRCUIT_RECOVERING) and event.actor is None and event.at >= start:
            cells[bars.cell(event.at - start, end - start, width)] = PROBE
    return "".join(cells).rstrip()


def bands(events: Sequence[LaneEvent], start: datetime, end: datetime, width: int) -> list[tuple[str, str]]:
    """Return each bar with its name, and a legend. Status and pace are left out if they had
    their usual state during the whole window."""
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
