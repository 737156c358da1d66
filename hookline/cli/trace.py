"""`trace`: one message's whole story."""

from __future__ import annotations

from typing import Annotated

import typer

from hookline.api import wire
from hookline.cli import params
from hookline.cli.dead import attempt_line
from hookline.cli.output import Cell, Output, ago
from hookline.cli.session import Session, run, session
from hookline.errors import NotFound
from hookline.model import Attempt, Delivery, LaneView, Message
from hookline.states import WAITING, Circuit, DeliveryState, EndpointStatus
from hookline.tracecontext import trace_id


class Story:
    """A message, its deliveries, their attempts, and the lanes that they wait in."""

    def __init__(
        self, message: Message, deliveries: list[Delivery], attempts: list[Attempt], lanes: dict[str, LaneView]
    ) -> None:
        self.message = message
        self.deliveries = deliveries
        self.attempts = attempts
        self.lanes = lanes


def trace(
    message_id: Annotated[
        str, typer.Argument(metavar="MESSAGE_ID", help="Such as msg_...; its event id where --app is given.")
    ],
    app_ref: params.App = None,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Tell one message's whole story: where it went, every attempt, what happens next and why."""
    out = Output(as_json)
    story, opened = run(_read(org, message_id, app_ref))
    document = {
        "message": wire.message(story.message),
        "deliveries": [wire.delivery(each) for each in story.deliveries],
        "attempts": [wire.attempt(each) for each in story.attempts],
        "lanes": [wire.lane(view) for view in story.lanes.values()],
    }
    out.result(document, people=lambda: _print(out, story, opened))


async def _read(org: str, ref: str, app_ref: str | None) -> tuple[Story, Session]:
    async with session(org) as opened:
        message = await _find(opened, ref, app_ref)
        deliveries = await opened.store.deliveries(message.id)
        lanes = [await opened.store.lane_view(each.endpoint_no) for each in deliveries if each.state in WAITING]
        attempts = await opened.store.attempts(message.id)
        return Story(message, deliveries, attempts, {view.endpoint_id: view for view in lanes if view}), opened


async def _find(opened: Session, ref: str, app_ref: str | None) -> Message:
    """By id; by event id where the application is given."""
    if app_ref is not None:
        found = await opened.store.message((await opened.application(app_ref)).no, ref)
        if found is None:
            raise NotFound(f"no message {ref!r} in {app_ref!r}; `hookline outbox list` shows what could not become one")
        return found
    message = await opened.store.message_by_id(ref)
    if message is None or await opened.store.application(opened.org_id, message.app_id) is None:
        raise NotFound(f"no message {ref!r}; an event id needs --app beside it")
    return message


def _print(out: Output, story: Story, opened: Session) -> None:
    message = story.message
    size = "expunged" if message.payload is None else f"{len(message.payload):,} bytes"
    pairs: list[tuple[str, Cell]] = [
        ("message", message.id),
        ("event type", message.event_type),
        ("application", message.app_id),
        ("accepted", message.created_at),
        ("payload", size),
    ]
    if message.event_id is not None:
        pairs.append(("event id", message.event_id))
    if message.ordering_key is not None:
        pairs.append(("ordering key", message.ordering_key))
    if message.trace is not None:
        pairs.append(("trace id", trace_id(message.trace)))
    out.fields(pairs)
    if not story.deliveries:
        out.line("no endpoint matched: nothing was to be delivered")
    for delivery in story.deliveries:
        _print_delivery(out, delivery, story, opened)


def _print_delivery(out: Output, delivery: Delivery, story: Story, opened: Session) -> None:
    view = story.lanes.get(delivery.endpoint_id)
    held = _held(view)
    state = "held" if held else delivery.state.name.lower()
    out.line()
    out.fields([("endpoint", delivery.endpoint_id), ("state", state)])
    for attempt in story.attempts:
        if attempt.delivery_id == delivery.id:
            out.line(f"  {attempt_line(attempt)}")
    if held:
        out.line(f"  {held}")
    elif delivery.state in WAITING and delivery.due_at is not None:
        out.line(f"  next attempt {ago(delivery.due_at, opened.now)}")
    if delivery.state == DeliveryState.QUEUED:
        out.line("  waits for its turn behind others of its ordering key")
    if delivery.reason is not None:
        out.line(f"  gave up: {delivery.reason.value}: {delivery.detail or ''}")
        out.note(f"  hookline dead show dl_{delivery.id}")


def _held(view: LaneView | None) -> str | None:
    """Why what waits in this lane is not sent."""
    if view is None:
        return None
    if view.lane.status != EndpointStatus.ACTIVE:
        return f"the endpoint is {view.lane.status.name.lower()}"
    if view.lane.circuit == Circuit.OPEN:
        probe = view.lane.probe_at
        until = "" if probe is None else f"; next probe {probe.isoformat(timespec='seconds')}"
        return f"the circuit is open{until}"
    return None
