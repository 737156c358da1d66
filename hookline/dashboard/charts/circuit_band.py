"""The timeline of an endpoint as a coloured band: the states of its circuit, and when it was paused or disabled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from hookline.dashboard.charts.figures import Stretch
from hookline.model.actors import Actor, ActorKind
from hookline.model.attempts import Attempt
from hookline.model.lanes import Lane, LaneEvent, LaneEventKind
from hookline.model.states import Circuit

K = LaneEventKind
Probe = tuple[datetime, datetime]  # start and end of a probe
OPEN = "circuit open"

# For each kind of event: the state of the circuit after it, and the usual state before it. The state before is used if no
# older event is known.
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
# Colour and text of each event.
EVENTS = {
    K.CIRCUIT_OPENED: ("held", "circuit opened"),
    K.CIRCUIT_PROBE_FAILED: ("held", "probe failed"),
    K.CIRCUIT_RECOVERING: ("scheduled", "circuit recovering"),
    K.CIRCUIT_CLOSED: ("delivered", "circuit closed"),
    K.CIRCUIT_RESET: ("delivered", "circuit reset"),
    K.ENDPOINT_PAUSED: ("held", "paused"),
    K.ENDPOINT_RESUMED: ("delivered", "resumed"),
    K.ENDPOINT_DISABLED: ("held", "disabled"),
    K.ENDPOINT_ENABLED: ("delivered", "enabled"),
    K.LANE_HELD: ("held", "paused by Retry-After"),
    K.LANE_SLOWED: ("scheduled", "slowed by 429s"),
    K.LANE_AT_SPEED: ("delivered", "at full speed again"),
}


def stretches(
    events: Sequence[LaneEvent], lane: Lane, since: datetime, until: datetime, probes: Iterable[Probe] = ()
) -> list[Stretch]:
    """Return the parts of the band, which shows the lane's states from `since` to `until`. `events` are newest first
    and go back to `since` or further, or to the oldest known event."""
    return _with_probes(_between_events(events, lane, since, until), sorted(probes))


def probes(attempts: Iterable[Attempt], lane: Lane, lease: float, now: datetime) -> Iterator[Probe]:
    """Yield the start and end of each probe in `attempts`, and of the probe in progress."""
    for each in attempts:
        if each.probe:
            yield each.started_at, each.started_at + timedelta(microseconds=each.timing.total)
    if lane.circuit == Circuit.HALF_OPEN and lane.probe_at is not None:
        yield lane.probe_at - timedelta(seconds=lease), now


def _with_probes(found: Sequence[Stretch], probes: Sequence[Probe]) -> list[Stretch]:
    """Show an open circuit as half-open while a probe is in progress."""
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


def _between_events(events: Sequence[LaneEvent], lane: Lane, since: datetime, until: datetime) -> list[Stretch]:
    """Return one part of the band for each period between two changes of state."""
    shown = [event for event in reversed(events) if since <= event.at < until]
    # The start of a probe adds no event to the timeline. So a half-open circuit counts as open here, and `_with_probes`
    # marks the probe.
    now = Circuit.OPEN if lane.circuit == Circuit.HALF_OPEN else lane.circuit
    circuit = _state_at(since, events, _CIRCUIT, now.name.lower())
    status = _state_at(since, events, _STATUS, lane.status.name.lower())
    found: list[Stretch] = []
    begun = since
    for event in shown:
        before = _visible(circuit, status)
        circuit = _CIRCUIT.get(event.kind, (circuit, ""))[0]
        status = _STATUS.get(event.kind, (status, ""))[0]
        if _visible(circuit, status) != before:
            found.append(_stretch(before, begun, event.at))
            begun = event.at
    found.append(_stretch(_visible(circuit, status), begun, until))
    return [each for each in found if each.since < each.until]


def _visible(circuit: str, status: str) -> str:
    """Return the state to show: paused and disabled take precedence over the circuit."""
    return circuit if status == "active" else status


def _state_at(since: datetime, events: Iterable[LaneEvent], changes: dict[K, tuple[str, str]], now: str) -> str:
    """Return the state at `since`. `events` are newest first, and `now` is the current state."""
    state = now
    for event in events:
        if event.kind in changes:
            after, before = changes[event.kind]
            if event.at < since:
                return after
            state = before
    return state


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
    """Return the actor of an event as text.

    `named` adds names of API keys and operators, which customers must not see.
    """
    if actor is None:
        return ""
    name = actor.name if named or actor.kind == ActorKind.APPLICATION_KEY else None
    return f"{_ACTORS[actor.kind]}: {name}" if name else _ACTORS[actor.kind]
