"""`endpoints pause|resume|open|close|reset`: what an operator does to a lane by hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, TypeVar

import msgspec
import typer

from hookline import clock
from hookline.api import wire
from hookline.api.wire.lanes import missed as shown_missed
from hookline.cli import params
from hookline.cli.output import Output
from hookline.cli.session import run, session
from hookline.errors import InvalidInput
from hookline.model import Actor, Endpoint, LaneView
from hookline.model.callers import Caller
from hookline.model.states import Circuit
from hookline.services import endpoint_state, lookup
from hookline.services.deps import Deps
from hookline.services.endpoint_state import LONGEST_OPEN, CircuitChange, Missed
from hookline.services.lookup import EndpointRef

T = TypeVar("T")

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
    out = Output(as_json)
    paused, view = run(_change(org, EndpointRef(ref, app_ref), partial(endpoint_state.pause, cause=why)))
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
    out = Output(as_json)
    act = partial(endpoint_state.resume, cause=why, replay_missing=replay_missing)
    done, view = run(_change(org, EndpointRef(ref, app_ref), act))

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
    act = partial(endpoint_state.open_circuit, cause=why, until=_end(length, until))
    _show_circuit(Output(as_json), run(_change(org, EndpointRef(ref, app_ref), act)), "")


def _end(length: str | None, until: str | None) -> datetime | timedelta | None:
    if length is not None:
        return params.read_span("--for", length, LONGEST_OPEN.total_seconds())
    return None if until is None else params.read_instant(until, clock.wall())


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
    act = partial(endpoint_state.close_circuit, cause=why)
    _show_circuit(Output(as_json), run(_change(org, EndpointRef(ref, app_ref), act)), "; it was not open")


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
    act = partial(endpoint_state.reset_circuit, cause=why)
    _show_circuit(Output(as_json), run(_change(org, EndpointRef(ref, app_ref), act)), " already, without failures")


def _show_circuit(out: Output, changed: tuple[CircuitChange, LaneView | None], unchanged: str) -> None:
    """`unchanged`: what is said where there was nothing to do."""
    done, view = changed
    state = "gone" if view is None else _circuit(view)
    words = f"the circuit is {state}" if done.event is not None else f"the circuit is {state}{unchanged}"
    out.result(
        {"changed": done.event is not None, "lane": None if view is None else wire.lane(view)},
        people=lambda: out.line(words + _waiting(view)),
    )


def _circuit(view: LaneView) -> str:
    lane = view.lane
    word = lane.circuit.name.lower().replace("_", "-")
    if lane.circuit == Circuit.OPEN and lane.probe_at is not None:
        return f"{word} until {lane.probe_at.isoformat(timespec='seconds')}"
    return word


# ── both ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _waiting(view: LaneView | None) -> str:
    return f", {view.depth:,} waiting" if view is not None and view.depth else ""


async def _change(
    org: str, ref: EndpointRef, act: Callable[[Deps, Caller, EndpointRef], Awaitable[T]]
) -> tuple[T, LaneView | None]:
    """What it did, and the lane that follows."""
    async with session(org) as opened:
        done = await act(opened.deps, opened.by, ref)
        endpoint = await lookup.endpoint(opened.deps, opened.by, ref)
        return done, await opened.store.lane_view(endpoint.no)
