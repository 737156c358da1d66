"""`endpoints timeline`: what happened to an endpoint's circuit, status and pace, as bands and as a table."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

import typer
from msgspec import Struct

from hookline.api import wire
from hookline.cli import params, timeline_bar
from hookline.cli.endpoint_state import who
from hookline.cli.output import Cell, Output
from hookline.cli.session import Session, run, session
from hookline.errors import InvalidInput
from hookline.model import Endpoint, LaneEvent, LaneEventFilter, LaneEventKind, TimelineEntry
from hookline.store.protocols import Page, Walk

MOST = 10_000  # events of a window that are drawn
PAGE = 1000
LONGEST = timedelta(days=3650)
NARROW, WIDE = 24, 96  # characters of a band

_BESIDE = 10  # of the bands' names


class Timeline(Struct, frozen=True, kw_only=True):
    since: datetime
    until: datetime
    events: list[LaneEvent]  # of the window, newest first
    before: list[LaneEvent]  # what the states at its start come from, oldest first
    whole: bool  # False: there are older ones in the window


def timeline(
    ref: params.Endpoint,
    app_ref: params.App = None,
    since: Annotated[str, typer.Option("--since", help="From: an instant, or 2h, 7d ago.")] = "24h",
    until: Annotated[str | None, typer.Option("--until", help="To: likewise.", show_default="now")] = None,
    kind: Annotated[
        list[LaneEventKind] | None, typer.Option("--kind", help="Only these in the table; can be given several times.")
    ] = None,
    limit: params.Limit = 50,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Show what happened to its circuit, status and pace, with cause and actor, newest first.

    hookline endpoints timeline ep_... --since 7d --kind circuit_opened
    """
    out = Output(as_json)
    found = run(_timeline(org, ref, app_ref, since, until))
    where = LaneEventFilter(kinds=tuple(kind) if kind else None)
    chosen = [event for event in found.events if where.matches(event)]
    out.result(
        {"since": found.since, "until": found.until, "data": [wire.lane_event(each) for each in chosen[:limit]]},
        people=lambda: _print(out, found, chosen, limit),
    )


async def _timeline(org: str, ref: str, app_ref: str | None, since: str, until: str | None) -> Timeline:
    async with session(org) as opened:
        start = params.read_instant(since, opened.now)
        end = opened.now if until is None else params.read_instant(until, opened.now)
        if end <= start:
            raise InvalidInput("--until must be after --since")
        if end - start > LONGEST:
            raise InvalidInput("--since is more than ten years before --until")
        return await _look(opened, await opened.endpoint(ref, app_ref), start, end)


async def _look(opened: Session, endpoint: Endpoint, start: datetime, end: datetime) -> Timeline:
    entries: list[TimelineEntry] = []
    where, iterator = LaneEventFilter(since=start, until=end), None
    while len(entries) < MOST:
        walk = await opened.store.timeline(endpoint.no, where, Page(limit=PAGE, iterator=iterator))
        entries += walk.rows
        iterator = _next(walk)
        if iterator is None:
            break
    before = [await _left_behind(opened, endpoint, aspect, start) for aspect in timeline_bar.ASPECTS]
    return Timeline(
        since=start,
        until=end,
        events=[entry.event for entry in entries],
        before=[entry.event for entry in sorted((each for each in before if each), key=lambda entry: entry.id)],
        whole=iterator is None,
    )


def _next(walk: Walk[TimelineEntry]) -> str | None:
    if walk.end is not None or len(walk.rows) < PAGE:
        return walk.end
    return str(walk.rows[-1].id)


async def _left_behind(
    opened: Session, endpoint: Endpoint, aspect: timeline_bar.Aspect, start: datetime
) -> TimelineEntry | None:
    """The last event before the window that says what the state was at its start."""
    where, iterator = LaneEventFilter(kinds=tuple(aspect.begins), until=start), None
    while True:
        walk = await opened.store.timeline(endpoint.no, where, Page(limit=1, iterator=iterator))
        if walk.rows:
            return walk.rows[0]
        if walk.end is None:
            return None
        iterator = walk.end


def _print(out: Output, found: Timeline, chosen: list[LaneEvent], limit: int) -> None:
    if out.human:
        _print_bands(out, found)
    out.table(
        ("at", "kind", "by", "cause"),
        [_row(event) for event in chosen[:limit]],
        empty="Nothing happened to it in this time.",
    )
    if len(chosen) > limit:
        out.note(f"{len(chosen) - limit:,} older ones are not shown; --limit shows more")
    if not found.whole:
        out.note(f"only the last {MOST:,} events of this time were looked at")


def _print_bands(out: Output, found: Timeline) -> None:
    width = min(WIDE, max(NARROW, out.width - _BESIDE))
    oldest_first = [*found.before, *found.events[::-1]]
    for name, line in timeline_bar.bands(oldest_first, found.since, found.until, width):
        out.line(f"{name:<{_BESIDE - 1}} {line}".rstrip())
    first, last = (f"{at.astimezone():%Y-%m-%d %H:%M}" for at in (found.since, found.until))
    out.line(" " * _BESIDE + first + last.rjust(width - len(first)))
    out.line()


def _row(event: LaneEvent) -> tuple[Cell, ...]:
    return event.at, event.kind.value, None if event.actor is None else who(event.actor), event.cause
