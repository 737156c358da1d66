"""`endpoints pause|resume|open|close|reset`: what an operator does to a lane by hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from typing import Annotated, TypeVar

import msgspec
import typer

from hookline.api import wire
from hookline.api.wire.lanes import missed as shown_missed
from hookline.cli import params
from hookline.cli.output import Output
from hookline.cli.session import Session, run, session
from hookline.errors import InvalidInput
from hookline.model import Actor, ActorKind, Endpoint, LaneEvent, LaneView
from hookline.model.states import Circuit
from hookline.services import endpoint_state
from hookline.services.endpoint_state import LONGEST_OPEN, Missed

T = TypeVar("T")
Work = Callable[[Session, Endpoint], Awaitable[T]]

ACTOR = Actor(kind=ActorKind.COMMAND_LINE)

Why = Annotated[str | None, typer.Option("--why", help="Kept in the endpoint's history.")]


def who(actor: Actor) -> str:
    words = actor.kind.value.replace("_", " ")
    return words if actor.name is None else f"{words} {actor.name}"


# ── status ────────────────────────────────────────────────────────────────────────────────────────────────────────


def pause(
    ref: params.Endpoint,
    app_ref: params.App = None,
    why: Why = None,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Hold everything for this endpoint. Deliveries are still created, and wait for `resume`."""
    cause = _cause(why, "paused from the command line")

    async def work(opened: Session, endpoint: Endpoint) -> Endpoint:
        return await endpoint_state.pause(opened.store, endpoint, cause, ACTOR)

    out = Output(as_json)
    paused, view = run(_steer(org, ref, app_ref, "endpoint.pause", cause, work))
    out.result(wire.endpoint(paused), people=lambda: out.line(_status(paused, view)))


def resume(
    ref: params.Endpoint,
    app_ref: params.App = None,
    why: Why = None,
    replay_missing: Annotated[
        bool, typer.Option("--replay-missing", help="Send what it missed since it was last disabled, too.")
    ] = False,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Send again to a paused or disabled endpoint. What a pause has held gets a new time budget.

    For one that is disabled no deliveries are made; --replay-missing makes them now, in a task that the workers do.

    hookline endpoints resume ep_... --replay-missing
    """
    cause = _cause(why, "resumed from the command line")

    async def work(opened: Session, endpoint: Endpoint) -> endpoint_state.Resumed:
        return await endpoint_state.resume(opened.store, endpoint, cause, ACTOR, replay_missing=replay_missing)

    out = Output(as_json)
    done, view = run(_steer(org, ref, app_ref, "endpoint.resume", cause, work))

    def people() -> None:
        out.line(_status(done.endpoint, view))
        if done.missed is not None:
            out.line(_advice(done.endpoint, done.missed))

    document = msgspec.to_builtins(wire.endpoint(done.endpoint)) | {"missed": shown_missed(done.missed)}
    out.result(document, people=people)


def _status(endpoint: Endpoint, view: LaneView | None) -> str:
    return f"{endpoint.id} is {endpoint.status.name.lower()}{_waiting(view)}"


def _advice(endpoint: Endpoint, missed: Missed) -> str:
    """What was missed, and how to get it."""
    since = missed.since.isoformat()
    if missed.messages == 0:
        return f"it missed nothing since {since}"
    count = "very many messages" if missed.messages is None else f"{missed.messages:,} messages"
    if missed.task is not None:
        return f"it missed {count} since {since}: task {missed.task.id} sends them"
    return f"it missed {count} since {since}; hookline endpoints replay-missing {endpoint.id} --since {since}"


# ── circuit ───────────────────────────────────────────────────────────────────────────────────────────────────────


def open_circuit(
    ref: params.Endpoint,
    app_ref: params.App = None,
    length: Annotated[
        str | None, typer.Option("--for", help="How long: 90s, 30m, 2h.", show_default="as after a failure")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", help="Or until when: 2026-01-31T12:00:00Z.")] = None,
    why: Why = None,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Open its circuit: nothing is sent until then, and no attempt is used up; time budgets run. Then one probe decides.

    hookline endpoints open ep_... --for 2h --why "they deploy a new database"
    """
    if length is not None and until is not None:
        raise InvalidInput("give either --for or --until")
    cause = _cause(why, "opened from the command line")

    async def work(opened: Session, endpoint: Endpoint) -> LaneEvent | None:
        end = _end(length, until, opened.now)
        return await endpoint_state.open_circuit(opened.store, endpoint, cause, ACTOR, until=end)

    _change_circuit(Output(as_json), _steer(org, ref, app_ref, "endpoint.open_circuit", cause, work), "")


def _end(length: str | None, until: str | None, now: datetime) -> datetime | None:
    if length is not None:
        return now + params.read_span("--for", length, LONGEST_OPEN.total_seconds())
    return None if until is None else params.read_instant(until, now)


def close_circuit(
    ref: params.Endpoint,
    app_ref: params.App = None,
    why: Why = None,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Close its open circuit gently: few requests at first, and step by step twice as many with successes.

    hookline endpoints close ep_... --why "they say that they are back"
    """
    cause = _cause(why, "closed from the command line")

    async def work(opened: Session, endpoint: Endpoint) -> LaneEvent | None:
        return await endpoint_state.close_circuit(opened.store, endpoint, cause, ACTOR)

    steered = _steer(org, ref, app_ref, "endpoint.close_circuit", cause, work)
    _change_circuit(Output(as_json), steered, "; it was not open")


def reset_circuit(
    ref: params.Endpoint,
    app_ref: params.App = None,
    why: Why = None,
    org: params.Org = params.DEFAULT_ORG_ID,
    as_json: params.Json = False,
) -> None:
    """Close its circuit and forget its failures and holds: the endpoint is well again, and what waits is sent now.

    hookline endpoints reset ep_... --why "their disk is no longer full"
    """
    cause = _cause(why, "reset from the command line")

    async def work(opened: Session, endpoint: Endpoint) -> LaneEvent | None:
        return await endpoint_state.reset_circuit(opened.store, endpoint, cause, ACTOR)

    steered = _steer(org, ref, app_ref, "endpoint.reset_circuit", cause, work)
    _change_circuit(Output(as_json), steered, " already, without failures")


def _change_circuit(
    out: Output, steered: Coroutine[None, None, tuple[LaneEvent | None, LaneView | None]], unchanged: str
) -> None:
    """`unchanged`: what is said where there was nothing to do."""
    event, view = run(steered)
    state = "gone" if view is None else _circuit(view)
    words = f"the circuit is {state}" if event is not None else f"the circuit is {state}{unchanged}"
    out.result(
        {"changed": event is not None, "lane": None if view is None else wire.lane(view)},
        people=lambda: out.line(words + _waiting(view)),
    )


def _circuit(view: LaneView) -> str:
    lane = view.lane
    word = lane.circuit.name.lower().replace("_", "-")
    if lane.circuit == Circuit.OPEN and lane.probe_at is not None:
        return f"{word} until {lane.probe_at.isoformat(timespec='seconds')}"
    return word


# ── both ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _cause(why: str | None, usual: str) -> str:
    return usual if why is None else why


def _waiting(view: LaneView | None) -> str:
    return f", {view.depth:,} waiting" if view is not None and view.depth else ""


async def _steer(
    org: str, ref: str, app_ref: str | None, action: str, cause: str, work: Work[T]
) -> tuple[T, LaneView | None]:
    """What it did, and the lane that follows."""
    async with session(org) as opened:
        endpoint = await opened.endpoint(ref, app_ref)
        done = await work(opened, endpoint)
        if done is not None:
            await opened.remember(action, endpoint.id, app_id=endpoint.app_id, detail=cause)
        return done, await opened.store.lane_view(endpoint.no)
