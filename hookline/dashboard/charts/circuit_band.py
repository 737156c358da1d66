"""An endpoint's timeline as a band: when its circuit was closed, open, half-open or recovering, and when somebody had stopped
it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from hookline.dashboard.charts.figures import Stretch
from hookline.model import Actor, ActorKind, Attempt, Lane, LaneEvent, LaneEventKind
from hookline.model.states import Circuit, EndpointStatus

K = LaneEventKind
Probe = tuple[datetime, datetime]  # since and until when it was under way
OPEN = "circuit open"

# What each event made of the circuit, and what it had been before: nothing older need be looked up.
_CIRCUIT = {
    K.CIRCUIT_OPENED: ("open", "closed"),
    K.CIRCUIT_PROBE_FAILED: ("open", "open"),
    K.CIRCUIT_RECOVERING: ("recovering", "open"),
    K.CIRCUIT_CLOSED: ("closed", "recovering"),
    K.CIRCUIT_RESET: ("closed", "open"),
}
_STATUS = {
    K.ENDPOINT_PAUSED: ("paused", "active"),
    K.ENDPOINT_RESUMED: ("active", "paused"),
    K.ENDPOINT_DISABLED: ("disabled", "active"),
    K.ENDPOINT_ENABLED: ("active", "disabled"),
}
_SHADES = {
    "closed": "delivered",
    "open": "held",
    "half-open": "delivering",
    "recovering": "scheduled",
    "paused": "held",
    "disabled": "resolved",
}
_NOW = {
    Circuit.CLOSED: "closed",
    Circuit.OPEN: "open",
    Circuit.HALF_OPEN: "open",  # until its probe, of which no event tells
    Circuit.RECOVERING: "recovering",
}

EVENTS = {
    K.CIRCUIT_OPENED: "circuit opened",
    K.CIRCUIT_PROBE_FAILED: "probe failed",
    K.CIRCUIT_RECOVERING: "circuit recovering",
    K.CIRCUIT_CLOSED: "circuit closed",
    K.CIRCUIT_RESET: "circuit reset",
    K.ENDPOINT_PAUSED: "paused",
    K.ENDPOINT_RESUMED: "resumed",
    K.ENDPOINT_DISABLED: "disabled",
    K.ENDPOINT_ENABLED: "enabled",
    K.LANE_HELD: "left alone, as it asked",
    K.LANE_SLOWED: "slowed down, as it asked",
    K.LANE_AT_SPEED: "at full speed again",
}
EVENT_SHADES = {
    K.CIRCUIT_OPENED: "held",
    K.CIRCUIT_PROBE_FAILED: "held",
    K.CIRCUIT_RECOVERING: "scheduled",
    K.CIRCUIT_CLOSED: "delivered",
    K.CIRCUIT_RESET: "delivered",
    K.ENDPOINT_PAUSED: "held",
    K.ENDPOINT_RESUMED: "delivered",
    K.ENDPOINT_DISABLED: "held",
    K.ENDPOINT_ENABLED: "delivered",
    K.LANE_HELD: "held",
    K.LANE_SLOWED: "scheduled",
    K.LANE_AT_SPEED: "delivered",
}


def stretches(
    events: Sequence[LaneEvent], lane: Lane, since: datetime, until: datetime, probes: Iterable[Probe] = ()
) -> list[Stretch]:
    """`events` are the newest first, and reach back to `since` or to the first that is known."""
    return _parted(_turns(events, lane, since, until), sorted(probes))


def probes(attempts: Iterable[Attempt], lane: Lane, lease: float, now: datetime) -> Iterator[Probe]:
    """When they were under way: those among these attempts, and the one that is now."""
    for each in attempts:
        if each.probe:
            yield each.started_at, each.started_at + timedelta(microseconds=each.timing.total)
    if lane.circuit == Circuit.HALF_OPEN and lane.probe_at is not None:
        yield lane.probe_at - timedelta(seconds=lease), now


def _parted(found: Sequence[Stretch], probes: Sequence[Probe]) -> list[Stretch]:
    """A circuit that is open is half-open while a probe is under way."""
    made: list[Stretch] = []
    for each in found:
        at = each.since
        for began, ended in probes if each.words == OPEN else ():
            first, last = max(began, at), min(ended, each.until)
            if first < last:
                made += [replace(each, since=at, until=first), _stretch("half-open", first, last)]
                at = last
        made.append(replace(each, since=at))
    return [each for each in made if each.since < each.until]


def _turns(events: Sequence[LaneEvent], lane: Lane, since: datetime, until: datetime) -> list[Stretch]:
    """From one event to the next."""
    told = [event for event in reversed(events) if since <= event.at < until]
    circuit = _before(told, _CIRCUIT, _NOW[lane.circuit])
    status = _before(told, _STATUS, "active" if lane.status == EndpointStatus.ACTIVE else lane.status.name.lower())
    found: list[Stretch] = []
    begun = since
    for event in told:
        before = _seen(circuit, status)
        circuit = _CIRCUIT.get(event.kind, (circuit, ""))[0]
        status = _STATUS.get(event.kind, (status, ""))[0]
        if _seen(circuit, status) != before:
            found.append(_stretch(before, begun, event.at))
            begun = event.at
    found.append(_stretch(_seen(circuit, status), begun, until))
    return [each for each in found if each.since < each.until]


def _seen(circuit: str, status: str) -> str:
    """What stops an endpoint is seen before its circuit."""
    return circuit if status == "active" else status


def _before(told: Sequence[LaneEvent], moves: dict[K, tuple[str, str]], now: str) -> str:
    """How it was before the first of these; as it is now, where none of them changed it."""
    return next((moves[event.kind][1] for event in told if event.kind in moves), now)


def _stretch(name: str, since: datetime, until: datetime) -> Stretch:
    words = name if name in ("paused", "disabled") else f"circuit {name}"
    return Stretch(shade=_SHADES[name], words=words, since=since, until=until)


_ACTORS = {
    ActorKind.COMMAND_LINE: "on the command line",
    ActorKind.KEY: "with an API key",
    ActorKind.TOKEN: "with a token",
    ActorKind.APPLICATION_KEY: "with the application's API key",
    ActorKind.APPLICATION_TOKEN: "with the application's token",
    ActorKind.OPERATOR: "by an operator",
    ActorKind.PORTAL: "in the portal",
}


def by(actor: Actor | None, *, named: bool) -> str:
    """Who did it. `named`: with the names of the organization's keys and people, which are not for its customers."""
    if actor is None:
        return ""
    told = actor.name if named or actor.kind == ActorKind.APPLICATION_KEY else None
    return f"{_ACTORS[actor.kind]}: {told}" if told else _ACTORS[actor.kind]
