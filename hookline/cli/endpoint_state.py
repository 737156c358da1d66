"""`endpoints pause|resume|open|close|reset`: an operator changes the state of a lane."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, TypeVar

import msgspec
from typer import Option

from hookline import clock
from hookline.api import wire
from hookline.api.wire.endpoints import missed as missed_document
from hookline.cli import params
from hookline.cli.command import OrgCommand
from hookline.errors import InvalidInput
from hookline.model.actors import Actor
from hookline.model.callers import Caller
from hookline.model.endpoints import Endpoint
from hookline.model.lanes import LaneView
from hookline.model.states import Circuit
from hookline.services import endpoint_state
from hookline.services.deps import Deps
from hookline.services.endpoint_state import LONGEST_OPEN, CircuitChange, Missed
from hookline.services.lookup import EndpointRef

T = TypeVar("T")

Why = Annotated[str | None, Option("--why", help="The cause. The endpoint's timeline shows it.")]


def actor_name(actor: Actor) -> str:
    kind = actor.kind.value.replace("_", " ")
    return kind if actor.name is None else f"{kind} {actor.name}"


def circuit_name(view: LaneView) -> str:
    return view.lane.circuit.name.lower().replace("_", "-")


# ── status ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def pause(cmd: OrgCommand, ref: params.EndpointRef, why: Why = None) -> None:
    """Stop sending to an endpoint. Deliveries are still created, and wait for `endpoints resume`."""
    paused, view = await _change(cmd, ref, partial(endpoint_state.pause, cause=why))
    cmd.out.answer(wire.endpoint(paused), _status(paused, view))


async def resume(
    cmd: OrgCommand,
    ref: params.EndpointRef,
    why: Why = None,
    replay_missing: Annotated[
        bool, Option("--replay-missing", help="Also send what it missed since it was last disabled.")
    ] = False,
) -> None:
    """Send to a paused or disabled endpoint again. Deliveries that waited for the end of a pause get a new time budget.

    While an endpoint is disabled, Hookline creates no deliveries for it. --replay-missing starts a task that creates them
    now. Workers run the task.

    hookline endpoints resume ep_... --replay-missing
    """
    change = partial(endpoint_state.resume, cause=why, replay_missing=replay_missing)
    done, view = await _change(cmd, ref, change)
    document = msgspec.to_builtins(wire.endpoint(done.endpoint)) | {"missed": missed_document(done.missed)}
    advice = [] if done.missed is None else [_advice(done.endpoint, done.missed)]
    cmd.out.answer(document, _status(done.endpoint, view), *advice)


def _status(endpoint: Endpoint, view: LaneView | None) -> str:
    return f"{endpoint.id} is {endpoint.status.name.lower()}{_waiting(view)}"


def _advice(endpoint: Endpoint, missed: Missed) -> str:
    """Say how many messages the endpoint missed, and how to send them."""
    since = missed.since.isoformat()
    if missed.messages == 0:
        return f"it missed nothing since {since}"
    count = "very many messages" if missed.messages is None else f"{missed.messages:,} messages"
    if missed.task is not None:
        return f"it missed {count} since {since}: task {missed.task.id} sends them"
    return f"it missed {count} since {since}; hookline endpoints replay-missing {endpoint.id} --since {since}"


# ── circuit ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def open_circuit(
    cmd: OrgCommand,
    ref: params.EndpointRef,
    length: Annotated[
        str | None, Option("--for", help="For how long: 90s, 30m, 2h.", show_default="as after a failure")
    ] = None,
    until: Annotated[str | None, Option(help="Or until when: 2026-01-31T12:00:00Z.")] = None,
    why: Why = None,
) -> None:
    """Open an endpoint's circuit. Hookline sends nothing until the given time, and then one probe.

    Time budgets keep running while the circuit is open.

    hookline endpoints open ep_... --for 2h --why "they deploy a new database"
    """
    if length is not None and until is not None:
        raise InvalidInput("give either --for or --until")
    await _change_circuit(cmd, ref, partial(endpoint_state.open_circuit, cause=why, until=_end(length, until)), "")


def _end(length: str | None, until: str | None) -> datetime | timedelta | None:
    if length is not None:
        return params.read_span("--for", length, LONGEST_OPEN.total_seconds())
    return None if until is None else params.read_instant(until, clock.wall())


async def close_circuit(cmd: OrgCommand, ref: params.EndpointRef, why: Why = None) -> None:
    """Close an endpoint's circuit step by step: few requests at first, and twice as many after each step that succeeds.

    hookline endpoints close ep_... --why "they say that they are back"
    """
    await _change_circuit(cmd, ref, partial(endpoint_state.close_circuit, cause=why), "; it was not open")


async def reset_circuit(cmd: OrgCommand, ref: params.EndpointRef, why: Why = None) -> None:
    """Close an endpoint's circuit at once, and clear its failures and holds. Hookline sends waiting deliveries now.

    hookline endpoints reset ep_... --why "their disk is no longer full"
    """
    await _change_circuit(cmd, ref, partial(endpoint_state.reset_circuit, cause=why), " already, without failures")


async def _change_circuit(
    cmd: OrgCommand,
    ref: EndpointRef,
    change: Callable[[Deps, Caller, EndpointRef], Awaitable[CircuitChange]],
    if_unchanged: str,
) -> None:
    done, view = await _change(cmd, ref, change)
    changed = done.event is not None
    state = "gone" if view is None else _circuit(view)
    cmd.out.answer(
        {"changed": changed, "lane": None if view is None else wire.lane(view)},
        f"the circuit is {state}{'' if changed else if_unchanged}{_waiting(view)}",
    )


def _circuit(view: LaneView) -> str:
    if view.lane.circuit == Circuit.OPEN and view.lane.probe_at is not None:
        return f"{circuit_name(view)} until {view.lane.probe_at.isoformat(timespec='seconds')}"
    return circuit_name(view)


# ── used by the commands for status and circuit ───────────────────────────────────────────────────────────────────


def _waiting(view: LaneView | None) -> str:
    return f", {view.depth:,} waiting" if view is not None and view.depth else ""


async def _change(
    cmd: OrgCommand, ref: EndpointRef, change: Callable[[Deps, Caller, EndpointRef], Awaitable[T]]
) -> tuple[T, LaneView | None]:
    """Apply a change to an endpoint. Return the result, and the endpoint's lane after the change."""
    async with cmd.session() as opened:
        done = await change(opened.deps, opened.by, ref)
        endpoint = await opened.endpoint(ref)
        return done, await opened.store.history.lane_view(endpoint.no)
