"""Advice for deliveries that do not arrive. The command line and the dashboard show the same words."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from hookline import ids
from hookline.ids import org_option
from hookline.model.lanes import Lane
from hookline.model.states import OPEN, WAITING, Circuit, DeliveryState, EndpointStatus, Reason
from hookline.services.explain.model import DeliveryHistory
from hookline.services.explain.next_step import held_by, is_limited

# A delivery that is late by more than this, although nothing holds or limits it, is a sign of a problem.
OVERDUE = timedelta(seconds=30)

_ONE = {"it": "it", "its": "its", "it_is": "it is"}
_MANY = {"it": "them", "its": "their", "it_is": "they are"}

# The cause of each kind of dead letter, and what to do.
_DEATHS = {
    Reason.PERMANENT_FAILURE: ("the endpoint refused {it} permanently", "replay {it} once the endpoint accepts {it}"),
    Reason.ATTEMPTS_EXHAUSTED: ("every attempt failed", "replay {it} once the endpoint is healthy again"),
    Reason.BUDGET_EXHAUSTED: ("{its} time budget ended", "replay {it} if {it_is} still useful"),
    Reason.ENDPOINT_GONE: (
        "the endpoint answered 410 and was disabled",
        "enable the endpoint first, if it is back, then replay {it}",
    ),
    Reason.ENDPOINT_DELETED: ("{its} endpoint was deleted, so nothing can be sent", "resolve {it}"),
    Reason.BLOCKED_ADDRESS: ("the address or port is not allowed", "replay {it} once the URL is right"),
    Reason.UNSENDABLE: ("the request could not be made", "replay {it} once the cause is fixed"),
}

# For each cause of death that only the operators of the deployment can fix: the settings that it depends on.
_HINTS = {
    Reason.BLOCKED_ADDRESS: "HOOKLINE_ALLOW_NETS and HOOKLINE_ALLOW_PORTS allow others",
    Reason.UNSENDABLE: "a change of HOOKLINE_SECRET_KEY is the usual cause",
}


class Remedy(Struct, frozen=True, kw_only=True):
    """The cause and what to do, with the commands to run."""

    words: Sequence[str]  # phrases without a capital letter at the start and without a full stop
    commands: Sequence[str]
    operators_only: bool = False  # only the operators of the deployment can fix it

    @property
    def sentences(self) -> str:
        return sentences(self.words)

    @property
    def lines(self) -> list[str]:
        words = "; ".join(self.words)
        return [words if words.endswith("?") else f"{words}:", *self.commands]


def sentences(words: Sequence[str]) -> str:
    """Make a sentence of each phrase, and join the sentences with spaces.

    A sentence begins with a capital letter, and ends with a full stop or a question mark.
    """
    return " ".join(f"{each[:1].upper()}{each[1:]}{'' if each.endswith('?') else '.'}" for each in words)


def of_dead(reason: Reason, *, many: bool = False) -> tuple[str, str]:
    """Return the cause of a dead letter and what to do. With `many`, both are in the plural."""
    why, what = _DEATHS[reason]
    names = _MANY if many else _ONE
    return why.format(**names), what.format(**names)


def advice(history: DeliveryHistory, now: datetime) -> list[str]:
    """Return what to do next and the commands for it, as lines. The list is empty if there is nothing to do."""
    found = remedy(history, now)
    return [] if found is None else found.lines


def remedy(history: DeliveryHistory, now: datetime) -> Remedy | None:
    delivery = history.delivery
    if delivery.state == DeliveryState.DEAD and delivery.reason is not None:
        return _after_death(history, delivery.reason)
    if delivery.state not in OPEN or history.lane is None:
        return None
    return _release(history, history.lane.lane, now)


def _after_death(history: DeliveryHistory, reason: Reason) -> Remedy:
    why, what = of_dead(reason)
    hint = f" ({_HINTS[reason]})" if reason in _HINTS else ""
    letter = f"{ids.DEAD_LETTER}{history.delivery.id}{org_option(history.org_id)}"
    commands = [f"hookline dead replay {letter}"]
    if reason == Reason.ENDPOINT_DELETED:
        commands = [f"hookline dead resolve {letter} --note '...'"]
    if reason == Reason.ENDPOINT_GONE:
        commands.insert(0, f"hookline endpoints resume {_endpoint(history)}")
    return Remedy(words=(f"{why}{hint}", what), commands=commands, operators_only=reason in _HINTS)


def _release(history: DeliveryHistory, lane: Lane, now: datetime) -> Remedy | None:
    """Return what a user can do so that an open delivery is sent sooner, or None."""
    delivery, endpoint = history.delivery, _endpoint(history)
    if lane.status != EndpointStatus.ACTIVE:
        again = "enabled" if lane.status == EndpointStatus.DISABLED else "resumed"
        return Remedy(
            words=[f"it is sent when the endpoint is {again}"], commands=[f"hookline endpoints resume {endpoint}"]
        )
    if lane.circuit == Circuit.OPEN:
        return Remedy(
            words=["it is sent when a probe succeeds", "if the endpoint is already healthy, close its circuit"],
            commands=[f"hookline endpoints close {endpoint}"],
        )
    if delivery.state not in WAITING or lane.circuit == Circuit.HALF_OPEN:
        return None
    if held_by(history, now):
        return Remedy(
            words=["it is sent at that time", "if the endpoint is already healthy, reset its circuit"],
            commands=[f"hookline endpoints reset {endpoint}"],
        )
    overdue = delivery.due_at is not None and now - delivery.due_at > OVERDUE
    if not overdue or is_limited(history):
        return None
    return Remedy(words=["is a worker running?"], commands=["hookline top"], operators_only=True)


def _endpoint(history: DeliveryHistory) -> str:
    """Return the endpoint as an argument of a command."""
    return f"{history.delivery.endpoint_id}{org_option(history.org_id)}"
