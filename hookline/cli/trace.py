"""`trace`: one message's whole life."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Annotated

import typer

from hookline.api import wire
from hookline.cli import delivery_bar, params
from hookline.cli.endpoint_state import who
from hookline.cli.output import Cell, Output, ago, span
from hookline.cli.session import Session, run, session
from hookline.errors import NotFound
from hookline.ids import org_option
from hookline.model import Attempt, LaneEvent, Message, SetAside
from hookline.rules.trace_context import trace_id
from hookline.services import explain
from hookline.services.explain import DeliveryHistory, MessageHistory
from hookline.store.protocols import Page

NARROW, WIDE = 24, 96  # characters of a life's band
BAR = 24  # of the longest attempt
MAX_ASIDE = 10_000  # rows that are looked through for one that never became a message

_BESIDE = 8  # what stands before a band


def trace(
    message_id: Annotated[
        str, typer.Argument(metavar="MESSAGE_ID", help="Such as msg_...; its event id where --app is given.")
    ],
    app_ref: params.App = None,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Tell one message's whole life: published, accepted, where it went, every attempt and hold, what happens next and why."""
    out = Output(as_json)
    told = run(_read(org, message_id, app_ref))
    out.result(_document(told), people=lambda: _print(out, told))


async def _read(org: str, ref: str, app_ref: str | None) -> MessageHistory:
    async with session(org) as opened:
        return await explain.read(opened.store, await _find(opened, ref, app_ref), opened.org_id)


async def _find(opened: Session, ref: str, app_ref: str | None) -> Message:
    """By id; by event id where the application is given."""
    if app_ref is not None:
        app = await opened.application(app_ref)
        found = await opened.store.message(app.no, ref)
        if found is None:
            raise NotFound(await _why_missing(opened, ref, {app_ref, app.id, app.uid}))
        return found
    message = await opened.store.message_by_id(ref)
    if message is None:
        raise NotFound(f"no message {ref!r}; an event id needs --app beside it")
    if await opened.store.application(opened.org_id, message.app_id) is None:
        raise NotFound(f"message {ref!r} is of another organization than {opened.org_id}: name it with --org")
    return message


async def _why_missing(opened: Session, ref: str, names: set[str | None]) -> str:
    """It may have come no further than the outbox."""
    row = await _set_aside(opened, ref, names)
    if row is not None:
        return f"{ref!r} never became a message: {row.reason}; `hookline outbox show {row.id}` shows it, `retry` tries again"
    waiting = (await opened.store.outbox()).waiting
    more = f"; {waiting:,} rows wait in the outbox" if waiting else ""
    return f"no message {ref!r} there; `hookline outbox list` shows what could not become one{more}"


async def _set_aside(opened: Session, ref: str, names: set[str | None]) -> SetAside | None:
    iterator: str | None = None
    for _ in range(MAX_ASIDE // 500):
        rows = await opened.store.set_aside(Page(limit=500, iterator=iterator))
        for row in rows:
            if row.event_id == ref and row.app in names and row.org_id in (None, opened.org_id):
                return row
        if len(rows) < 500:
            break
        iterator = str(rows[-1].id)
    return None


def _document(told: MessageHistory) -> dict[str, object]:
    return {
        "message": wire.message(told.message),
        "publishedAt": told.published_at,
        "deliveries": [wire.delivery(way.delivery) for way in told.ways],
        "untold": told.untold,
        "attempts": [wire.attempt(each) for way in told.ways for each in way.attempts],
        "lanes": [wire.lane(way.lane) for way in told.ways if way.lane is not None],
        "ways": [_way(way, told.now) for way in told.ways],
    }


def _way(way: DeliveryHistory, now: datetime) -> dict[str, object]:
    return {
        "endpointId": way.delivery.endpoint_id,
        "state": explain.current_state(way, now),
        "time": [{"part": each.part, "since": each.since, "until": each.until} for each in explain.stretches(way, now)],
        "events": [wire.lane_event(event) for event in way.events],
        "note": None if way.letter is None else way.letter.note,
        "advice": explain.advice(way, now),
    }


# ── for people ────────────────────────────────────────────────────────────────────────────────────────────────────


def _print(out: Output, told: MessageHistory) -> None:
    out.fields(_head(told))
    if not told.ways:
        out.line("no endpoint matched: nothing was to be delivered")
        out.note(f"  hookline endpoints list --app {told.message.app_id}{org_option(told.org_id)}")
    for way in told.ways:
        out.line()
        _print_way(out, way, told.now)
    if told.untold:
        out.line()
        out.line(f"and {sum(told.untold.values()):,} more: {explain.counted(told.untold)}")


def _head(told: MessageHistory) -> list[tuple[str, Cell]]:
    message = told.message
    size = "expunged" if message.payload is None else f"{len(message.payload):,} bytes"
    pairs: list[tuple[str, Cell]] = [
        ("message", message.id),
        ("event type", message.event_type),
        ("application", message.app_id),
    ]
    if told.published_at is not None:
        before = max(0.0, (message.created_at - told.published_at).total_seconds())
        pairs.append(("published", f"to an outbox, {span(before)} before it was accepted"))
    pairs += [("accepted", message.created_at), ("payload", size)]
    if message.event_id is not None:
        pairs.append(("event id", message.event_id))
    if message.ordering_key is not None:
        pairs.append(("ordering key", message.ordering_key))
    if message.trace is not None:
        pairs.append(("trace id", trace_id(message.trace)))
    if told.ways:
        pairs.append(("fan-out", _fan_out(told)))
    return pairs


def _fan_out(told: MessageHistory) -> str:
    states = Counter(explain.current_state(way, told.now) for way in told.ways)
    states.update(told.untold)
    total = states.total()
    return f"{total:,} {'delivery' if total == 1 else 'deliveries'}: {explain.counted(states)}"


def _print_way(out: Output, way: DeliveryHistory, now: datetime) -> None:
    delivery = way.delivery
    out.fields([("endpoint", delivery.endpoint_id), ("url", way.url), ("state", explain.current_state(way, now))])
    _print_life(out, way, now)
    bars = _print_happenings(out, way)
    if bars:
        out.note(f"  {delivery_bar.legend_of_phases(bars)}")
    for line in explain.next_step_texts(way, now, lambda at: ago(at, now)):
        out.line(f"  {line}")
    for line in explain.advice(way, now):
        out.line(f"  {line}", "bright_black")


def _print_life(out: Output, way: DeliveryHistory, now: datetime) -> None:
    found = explain.stretches(way, now)
    width = min(WIDE, max(NARROW, out.width - _BESIDE))
    drawn = delivery_bar.band(found, width)
    taken = (found[-1].until - found[0].since).total_seconds() if found else 0.0
    out.line(f"{'life':<{_BESIDE}}{drawn}")
    out.line(f"{'':<{_BESIDE}}{span(taken)} in all:   {delivery_bar.legend_of_parts(drawn)}", "bright_black")


def _print_happenings(out: Output, way: DeliveryHistory) -> str:
    """Attempts and what happened to the lane, as they came; the bars that were drawn."""
    longest = max((attempt.timing.total for attempt in way.attempts), default=0)
    bars = ""
    for each in explain.happenings(way):
        if isinstance(each.what, LaneEvent):
            out.line(f"      {_clock(out, each.at)}  {_event(each.what)}", "bright_black")
            continue
        drawn = delivery_bar.bar(explain.phases(each.what), longest, BAR)
        for line in _attempt(out, each.what, drawn, each.waited):
            out.line(line)
        bars += drawn
    return bars


def _event(event: LaneEvent) -> str:
    actor = "" if event.actor is None else f" (by {who(event.actor)})"
    return f"{event.kind.value.replace('_', ' ')}: {event.cause}{actor}"


def _attempt(out: Output, attempt: Attempt, drawn: str, waited: timedelta) -> Iterator[str]:
    result = str(attempt.status_code) if attempt.status_code is not None else str(attempt.error or "-")
    kind = "  probe" if attempt.probe else ("  by hand" if attempt.trigger else "")
    after = span(waited.total_seconds())
    took = span(attempt.timing.total / 1e6)
    yield f"  #{attempt.number}  {_clock(out, attempt.started_at)}  after {after}  {result}  {attempt.outcome}  {took}{kind}"
    said = attempt.detail or attempt.response_body[:200].decode(errors="replace").strip()
    yield f"      {drawn:<{BAR}}  {said}".rstrip()


def _clock(out: Output, at: datetime) -> str:
    if not out.human:
        return at.isoformat(timespec="milliseconds")
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S.%f}"[:-3]
