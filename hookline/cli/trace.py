"""`trace`: print the history of one message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Annotated

from typer import Argument

from hookline.api import wire
from hookline.cli import bars, params
from hookline.cli.command import OrgCommand
from hookline.cli.endpoint_state import actor_name
from hookline.cli.output import Cell, Output, ago
from hookline.cli.session import Session
from hookline.errors import NoSuch, NotFound
from hookline.ids import org_option
from hookline.model.attempts import Attempt
from hookline.model.lanes import LaneEvent
from hookline.model.messages import Message
from hookline.model.outbox import SetAside
from hookline.rules.checks.text import lasting
from hookline.rules.trace_context import trace_id
from hookline.services import explain, lookup
from hookline.services.explain import DeliveryHistory, MessageHistory
from hookline.services.lookup import MessageRef
from hookline.store import Page

MIN_WIDTH, MAX_WIDTH = 24, 96  # characters of the bar of a delivery
ATTEMPT_WIDTH = 24  # characters of the bar of the longest attempt
MAX_SET_ASIDE = 10_000  # set-aside outbox rows that are searched for an event that never became a message
SET_ASIDE_PAGE = 500  # set-aside outbox rows that are read at once

_LABEL = 8  # characters before a bar


async def trace(
    cmd: OrgCommand,
    message_id: Annotated[
        str, Argument(metavar="MESSAGE_ID", help="The message's id, msg_...; or its event id, with --app.")
    ],
    app_ref: params.App = None,
) -> None:
    """Show the history of one message: publication, endpoints, every attempt and hold, what happens next and why."""
    async with cmd.session() as opened:
        message = await _find(opened, message_id, app_ref)
        history = await explain.read(opened.store, message, opened.org_id)
    cmd.out.result(_document(history), as_text=lambda: _print(cmd.out, history))


async def _find(opened: Session, ref: str, app_ref: str | None) -> Message:
    """Find a message by its id; or by its event id, if the application is given."""
    try:
        return await lookup.message(opened.deps, opened.by, MessageRef(ref, app_ref))
    except NoSuch as missing:
        if missing.kind != "message":
            raise
        raise NotFound(await _why_missing(opened, ref, app_ref, missing)) from None


async def _why_missing(opened: Session, ref: str, app_ref: str | None, missing: NoSuch) -> str:
    """Explain why there is no such message. The outbox row of its event may be set aside, or may still wait for the
    relay."""
    if app_ref is None:
        if await opened.store.history.message_by_id(ref) is not None:
            return f"message {ref!r} belongs to another organization than {opened.org_id}: give that one with --org"
        return f"{missing}; an event id needs --app beside it"
    app = await opened.application(app_ref)
    row = await _set_aside(opened, ref, {app_ref, app.id, app.uid})
    if row is not None:
        return f"{ref!r} never became a message: {row.reason}; `hookline outbox show {row.id}` shows it, `retry` tries again"
    waiting = (await opened.store.repair.outbox()).waiting
    more = f"; {waiting:,} rows wait in the outbox" if waiting else ""
    return f"{missing} there; `hookline outbox list` shows what could not become one{more}"


async def _set_aside(opened: Session, ref: str, names: set[str | None]) -> SetAside | None:
    iterator: str | None = None
    for _ in range(MAX_SET_ASIDE // SET_ASIDE_PAGE):
        rows = await opened.store.repair.set_aside(Page(limit=SET_ASIDE_PAGE, iterator=iterator))
        for row in rows:
            if row.event_id == ref and row.app in names and row.org_id in (None, opened.org_id):
                return row
        if len(rows) < SET_ASIDE_PAGE:
            break
        iterator = str(rows[-1].id)
    return None


def _document(history: MessageHistory) -> dict[str, object]:
    return {
        "message": wire.message(history.message),
        "publishedAt": history.published_at,
        "deliveries": [wire.delivery(each.delivery) for each in history.deliveries],
        "untold": history.other_states,
        "attempts": [wire.attempt(attempt) for each in history.deliveries for attempt in each.attempts],
        "lanes": [wire.lane(each.lane) for each in history.deliveries if each.lane is not None],
        "ways": [_history_document(each, history.now) for each in history.deliveries],
    }


def _history_document(history: DeliveryHistory, now: datetime) -> dict[str, object]:
    return {
        "endpointId": history.delivery.endpoint_id,
        "state": explain.current_state(history, now),
        "time": [
            {"part": each.part, "since": each.since, "until": each.until} for each in explain.stretches(history, now)
        ],
        "events": [wire.lane_event(event) for event in history.events],
        "note": None if history.letter is None else history.letter.note,
        "advice": explain.advice(history, now),
    }


# ── text output ───────────────────────────────────────────────────────────────────────────────────────────────────


def _print(out: Output, history: MessageHistory) -> None:
    out.fields(_head(history))
    if not history.deliveries:
        out.line("no endpoint matched: nothing was to be delivered")
        out.note(f"  hookline endpoints list --app {history.message.app_id}{org_option(history.org_id)}")
    for each in history.deliveries:
        out.line()
        _print_delivery(out, each, history.now)
    if history.other_states:
        out.line()
        out.line(f"and {sum(history.other_states.values()):,} more: {explain.counted(history.other_states)}")


def _head(history: MessageHistory) -> list[tuple[str, Cell]]:
    message = history.message
    size = "expunged" if message.payload is None else f"{len(message.payload):,} bytes"
    pairs: list[tuple[str, Cell]] = [
        ("message", message.id),
        ("event type", message.event_type),
        ("application", message.app_id),
    ]
    if history.published_at is not None:
        before = max(0.0, (message.created_at - history.published_at).total_seconds())
        pairs.append(("published", f"to an outbox, {lasting(before)} before it was accepted"))
    pairs += [("accepted", message.created_at), ("payload", size)]
    optional = (
        ("event id", message.event_id),
        ("ordering key", message.ordering_key),
        ("trace id", message.trace and trace_id(message.trace)),
        ("fan-out", _fan_out(history) if history.deliveries else None),
    )
    return pairs + [(name, value) for name, value in optional if value is not None]


def _fan_out(history: MessageHistory) -> str:
    states = Counter(explain.current_state(each, history.now) for each in history.deliveries)
    states.update(history.other_states)
    total = states.total()
    return f"{total:,} {'delivery' if total == 1 else 'deliveries'}: {explain.counted(states)}"


def _print_delivery(out: Output, history: DeliveryHistory, now: datetime) -> None:
    delivery = history.delivery
    state = explain.current_state(history, now)
    out.fields([("endpoint", delivery.endpoint_id), ("url", history.url), ("state", state)])
    _print_bar(out, history, now)
    drawn = _print_events(out, history)
    if drawn:
        out.note(f"  {bars.legend(bars.PHASES, drawn)}")
    for line in explain.next_step_texts(history, now, lambda at: ago(at, now)):
        out.line(f"  {line}")
    for line in explain.advice(history, now):
        out.line(f"  {line}", "bright_black")


def _print_bar(out: Output, history: DeliveryHistory, now: datetime) -> None:
    found = explain.stretches(history, now)
    width = min(MAX_WIDTH, max(MIN_WIDTH, out.width - _LABEL))
    drawn = bars.band([(each.part, each.since, each.until) for each in found], bars.PARTS, width)
    taken = (found[-1].until - found[0].since).total_seconds() if found else 0.0
    out.line(f"{'life':<{_LABEL}}{drawn}")
    out.line(f"{'':<{_LABEL}}{lasting(taken)} in all:   {bars.legend(bars.PARTS, drawn)}", "bright_black")


def _print_events(out: Output, history: DeliveryHistory) -> str:
    """Print attempts and lane events in order of time. Return the characters of all bars, for the legend."""
    longest = max((attempt.timing.total for attempt in history.attempts), default=0)
    all_drawn = ""
    for each in explain.happenings(history):
        if isinstance(each.what, LaneEvent):
            out.line(f"      {_clock(out, each.at)}  {_event(each.what)}", "bright_black")
            continue
        drawn = bars.bar(explain.phases(each.what), longest, ATTEMPT_WIDTH)
        for line in _attempt(out, each.what, drawn, each.waited):
            out.line(line)
        all_drawn += drawn
    return all_drawn


def _event(event: LaneEvent) -> str:
    actor = "" if event.actor is None else f" (by {actor_name(event.actor)})"
    return f"{event.kind.value.replace('_', ' ')}: {event.cause}{actor}"


def _attempt(out: Output, attempt: Attempt, drawn: str, waited: timedelta) -> Iterator[str]:
    result = str(attempt.status_code) if attempt.status_code is not None else str(attempt.error or "-")
    kind = "  probe" if attempt.probe else ("  by hand" if attempt.trigger else "")
    after = lasting(waited.total_seconds())
    took = lasting(attempt.timing.total / 1e6)
    yield f"  #{attempt.number}  {_clock(out, attempt.started_at)}  after {after}  {result}  {attempt.outcome}  {took}{kind}"
    detail = attempt.detail or attempt.response_body[:200].decode(errors="replace").strip()
    yield f"      {drawn:<{ATTEMPT_WIDTH}}  {detail}".rstrip()


def _clock(out: Output, at: datetime) -> str:
    if not out.human:
        return at.isoformat(timespec="milliseconds")
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S.%f}"[:-3]
