"""The conditions of the alert rules. Each evaluates the state of the deployment (`FleetState`) and yields readings.

`deploy/prometheus/rules.yml` has the same rules for Prometheus, with the same names and defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from msgspec import Struct

from hookline.model.alerts import AlertName, EarlierCheck, Reading, Severity, UnhealthyEndpoint
from hookline.model.depths import Depths
from hookline.model.measures import SECONDS, at_least, count
from hookline.model.pulses import Pulse, together
from hookline.model.states import Circuit, EndpointStatus
from hookline.rules.checks.text import lasting

EASE = 0.8  # a firing alert ends when the value falls below this part of its threshold
LATENCY_WINDOW = 300.0  # seconds in which the latency of first attempts is measured
# Seconds in which these are counted: retries, expired leases, and deliveries that have only one attempt left.
RATE_WINDOW = 900.0
DEATHS_WINDOW = 3600.0  # seconds in which deaths are counted
LAG_WINDOW = 30.0  # seconds within which every process writes at least one pulse with its outbox lag
GROWTH_PARTS = 5  # a backlog grows if its minimum rises in each of this many equal parts of the period

# Minimum counts for an alert. With lower counts, the alert could fire by chance.
LEAST_GROWTH = 100  # the backlog must have grown by more deliveries than this
LEAST_FIRST_ATTEMPTS = 20
LEAST_DEATHS = 10
LEAST_RETRIES = 20
# Attempts at one endpoint in the last `endpoint_for` seconds. If its circuit was open all that time, one attempt is
# enough.
LEAST_ATTEMPTS = 5

_DEAD_STATS, _SHOW_ENDPOINT = "hookline dead stats --all-orgs", "hookline endpoints show {subject}"
_SHUT = frozenset({Circuit.OPEN, Circuit.HALF_OPEN})


class Thresholds(Struct, frozen=True, kw_only=True):
    """An alert fires when its value is above the threshold. 0 turns the alert off."""

    backlog: int = 1_000  # deliveries that are due
    backlog_growing: float = 300.0  # seconds for which the backlog grows
    latency: float = 60.0  # seconds from the due time of a delivery to the start of its first attempt (p95)
    dead_letters: int = 10
    dead_letters_critical: int = 100
    dead_letters_growing: float = 3.0  # multiple of the usual number of deaths per hour
    retries: float = 0.5  # fraction of all retries that failed
    endpoint: float = 0.5  # fraction of one endpoint's attempts that failed
    endpoint_for: float = 900.0  # seconds for which an endpoint must fail
    circuits: bool = True
    last_attempts: int = 20
    outbox_lag: float = 60.0  # seconds for which the oldest outbox row has waited
    leases: int = 10


class FleetState(Struct, frozen=True, kw_only=True):
    """The state of the whole deployment, which the alert rules evaluate."""

    now: datetime
    depths: Depths
    # The pulses of the last hour, oldest first: one sum of all processes for each minute whose sum is stored, then the
    # pulses of single processes.
    pulses: Sequence[Pulse]
    checks: Sequence[EarlierCheck] = ()  # earlier evaluations, oldest first
    unhealthy: Sequence[UnhealthyEndpoint] = ()  # endpoints whose circuit is not closed, or whose attempts failed
    # Average deaths per hour in the last day, without the last hour. It is computed only if more than `LEAST_DEATHS`
    # deliveries died in the last hour. Otherwise it is 0.
    usual_deaths: float = 0.0


def window(pulses: Sequence[Pulse], now: datetime, seconds: float, *, ago: float = 0.0) -> list[Pulse]:
    """Return the pulses of a time range that is `seconds` long and ended `ago` seconds before `now`."""
    end = now - timedelta(seconds=ago)
    since = end - timedelta(seconds=seconds)
    return [pulse for pulse in pulses if since < pulse.at and (not ago or pulse.at <= end)]


def deaths(pulses: Sequence[Pulse], now: datetime) -> float:
    return sum(pulse.died for pulse in window(pulses, now, DEATHS_WINDOW))


def usual_deaths(day: Sequence[Pulse], now: datetime) -> float:
    """Return the average number of deaths per hour in the pulses of the last day, without the last hour. If the pulses
    cover a shorter time, average over that time."""
    before = [pulse for pulse in day if pulse.at <= now - timedelta(seconds=DEATHS_WINDOW)]
    if not before:
        return 0.0
    covered = (now - before[0].at).total_seconds() - DEATHS_WINDOW
    return sum(pulse.died for pulse in before) * DEATHS_WINDOW / max(covered, DEATHS_WINDOW)


def failed_lately(pulses: Sequence[Pulse], now: datetime, thresholds: Thresholds) -> list[int]:
    """Return the numbers of the endpoints whose state the rules need: their fraction of failed attempts is above `EASE`
    times the threshold `endpoint`."""
    total = _attempts_by_endpoint(window(pulses, now, thresholds.endpoint_for)) if thresholds.endpoint else {}
    return sorted(no for no, (good, failed) in total.items() if failed > (good + failed) * thresholds.endpoint * EASE)


# ── rules about the whole deployment ──────────────────────────────────────────────────────────────────────────────


def _backlog(fleet: FleetState, at: Thresholds) -> Iterator[Reading]:
    due = fleet.depths.due
    age = lasting(fleet.depths.backlog_age)
    text = f"{due:,} deliveries are due and not sent (limit {at.backlog:,}), the oldest for {age}"
    yield from _above(AlertName.BACKLOG, due, at.backlog, text)


def _backlog_growing(fleet: FleetState, at: Thresholds) -> Iterator[Reading]:
    if not at.backlog_growing:
        return
    least = _least_by_part(fleet, at.backlog_growing)
    if least is None:
        return
    due = fleet.depths.due
    grown, grows = due - least[0], least[-1] > least[-2]
    steadily = all(after > before for before, after in pairwise(least))
    fires = steadily and grown > LEAST_GROWTH
    text = f"the backlog has grown for {lasting(at.backlog_growing)}, by {grown:,} to {due:,} deliveries"
    yield _warning(AlertName.BACKLOG_GROWING, grown, LEAST_GROWTH, text, fires=fires, lingers=grows)


def history_needed(growing: float) -> float:
    """Return how many seconds of earlier checks the rule for a growing backlog needs."""
    return growing * (GROWTH_PARTS + 1) / GROWTH_PARTS


def _least_by_part(fleet: FleetState, seconds: float) -> list[int] | None:
    """Return the lowest backlog of each part of the time, oldest first. The last `seconds` are `GROWTH_PARTS` equal
    parts, and one more part of the same length comes before them. Return None if in one of these parts the alerts
    were never checked, so that its backlog is not known."""
    parts: list[list[int]] = [[] for _ in range(GROWTH_PARTS + 1)]
    for check in (*fleet.checks, EarlierCheck(fleet.now, fleet.depths.due)):
        ago = (fleet.now - check.at).total_seconds()
        if 0 <= ago < history_needed(seconds):
            parts[GROWTH_PARTS - int(ago * GROWTH_PARTS / seconds)].append(check.backlog)
    return [min(part) for part in parts] if all(parts) else None


def _latency(fleet: FleetState, at: Thresholds) -> Iterator[Reading]:
    total = together(window(fleet.pulses, fleet.now, LATENCY_WINDOW), fleet.now)
    slow = total.first_latency_at(0.95)
    if slow is None or count(total.first_latency) < LEAST_FIRST_ATTEMPTS:
        return
    known = lasting(at_least(0.95, total.first_latency, SECONDS))
    text = f"5 % of first attempts started more than {known} after they were due (limit {lasting(at.latency)})"
    yield from _above(AlertName.FIRST_ATTEMPT_LATENCY, slow, at.latency, text)


def _dead_letters(fleet: FleetState, at: Thresholds) -> Iterator[Reading]:
    dead = sum(fleet.depths.dead.values())
    limits = {Severity.WARNING: at.dead_letters, Severity.CRITICAL: at.dead_letters_critical}
    held = {severity: limit for severity, limit in limits.items() if limit}
    if not held:
        return
    severity = _worst(severity for severity, limit in held.items() if dead > limit)
    passed = held[severity] if severity else min(held.values())
    reason = max(fleet.depths.dead, key=fleet.depths.dead.__getitem__, default="none")
    text = f"there are {dead:,} unresolved dead letters (limit {passed:,}); most frequent reason: {reason}"
    lingering = _worst(severity for severity, limit in held.items() if dead > limit * EASE)
    name = AlertName.DEAD_LETTERS
    yield Reading(name=name, value=dead, threshold=passed, severity=severity, lingering=lingering, text=text)


def _worst(severities: Iterator[Severity]) -> Severity | None:
    return max(severities, key=lambda severity: severity.rank, default=None)


def _dead_letters_growing(fleet: FleetState, at: Thresholds) -> Iterator[Reading]:
    if not at.dead_letters_growing:
        return
    died = deaths(fleet.pulses, fleet.now)
    limit = max(float(LEAST_DEATHS), at.dead_letters_growing * fleet.usual_deaths)
    text = f"{died:,.0f} deliveries died within an hour; the usual number is {fleet.usual_deaths:,.0f} (limit {limit:,.0f})"
    yield from _above(AlertName.DEAD_LETTERS_GROWING, died, limit, text)


def _retries(fleet: FleetState, at: Thresholds) -> Iterator[Reading]:
    made = together(window(fleet.pulses, fleet.now, RATE_WINDOW), fleet.now).retries
    number = sum(made.values())
    if number < LEAST_RETRIES:
        return
    failing = 1 - made.get("delivered", 0.0) / number
    text = f"{failing:.0%} of {number:,.0f} retries failed within {lasting(RATE_WINDOW)} (limit {at.retries:.0%})"
    yield from _above(AlertName.RETRIES_FAILING, failing, at.retries, text)


def _last_attempts(fleet: FleetState, at: Thresholds) -> Iterator[Reading]:
    number = sum(pulse.last_attempts for pulse in window(fleet.pulses, fleet.now, RATE_WINDOW))
    text = f"{number:,.0f} deliveries reached their last attempt within {lasting(RATE_WINDOW)} (limit {at.last_attempts:,})"
    yield from _above(AlertName.LAST_ATTEMPTS, number, at.last_attempts, text)


def _outbox(fleet: FleetState, at: Thresholds) -> Iterator[Reading]:
    own, waiting = fleet.depths.outbox_lag, fleet.depths.outbox_waiting
    others = max((pulse.outbox_lag for pulse in window(fleet.pulses, fleet.now, LAG_WINDOW)), default=0.0)
    here = f"the oldest of {waiting:,} outbox rows has waited for {lasting(own)}"
    elsewhere = f"a worker has not emptied an application's outbox for {lasting(others)}"
    text = here if own >= others else elsewhere
    yield from _above(AlertName.OUTBOX_LAG, max(own, others), at.outbox_lag, f"{text} (limit {lasting(at.outbox_lag)})")


def _leases(fleet: FleetState, at: Thresholds) -> Iterator[Reading]:
    number = sum(pulse.leases for pulse in window(fleet.pulses, fleet.now, RATE_WINDOW))
    text = f"{number:,.0f} leases expired within {lasting(RATE_WINDOW)} (limit {at.leases:,}): a worker has died or stalled"
    yield from _above(AlertName.LEASES_EXPIRED, number, at.leases, text)


def _above(name: AlertName, value: float, limit: float, text: str) -> Iterator[Reading]:
    if limit:
        yield _warning(name, value, limit, text, fires=value > limit, lingers=value > limit * EASE)


def _warning(
    name: AlertName,
    value: float,
    limit: float,
    text: str,
    *,
    fires: bool,
    lingers: bool,
    lane: UnhealthyEndpoint | None = None,
    since: datetime | None = None,
) -> Reading:
    """Return the reading of a rule whose only severity is a warning. `lane` is the endpoint that the alert is about."""
    return Reading(
        name=name,
        subject="" if lane is None else lane.endpoint_id,
        org_id=None if lane is None else lane.org_id,
        since=since,
        value=value,
        threshold=limit,
        severity=Severity.WARNING if fires else None,
        lingering=Severity.WARNING if lingers else None,
        text=text,
    )


# ── rules about single endpoints ──────────────────────────────────────────────────────────────────────────────────


def _circuits(fleet: FleetState, at: Thresholds) -> Iterator[Reading]:
    if not at.circuits:
        return
    for lane in fleet.unhealthy:
        if lane.circuit != Circuit.CLOSED and lane.status == EndpointStatus.ACTIVE:
            lasts = "" if lane.opened_at is None else f" for {lasting((fleet.now - lane.opened_at).total_seconds())}"
            text = f"the circuit of {_named(lane)} is open{lasts}: only probes are sent to it"
            fires, since = lane.circuit in _SHUT, lane.opened_at
            yield _warning(AlertName.CIRCUIT_OPEN, 1.0, 0.0, text, fires=fires, lingers=True, lane=lane, since=since)


_Attempts = tuple[int, int]  # number of successful and of failed attempts
# The last `endpoint_for` seconds have this many equal parts, and one more part comes before them. The alert fires only
# if the endpoint fails in each part that has attempts.
PARTS = 3


def _endpoints(fleet: FleetState, at: Thresholds) -> Iterator[Reading]:
    if not at.endpoint:
        return
    seconds = at.endpoint_for / PARTS
    begins = [seconds * part for part in reversed(range(PARTS + 1))]
    parts = [_attempts_by_endpoint(window(fleet.pulses, fleet.now, seconds, ago=ago)) for ago in begins]
    for lane in fleet.unhealthy:
        if lane.status == EndpointStatus.ACTIVE:
            yield _endpoint(lane, [part.get(lane.endpoint_no, (0, 0)) for part in parts], at, fleet.now)


def _endpoint(lane: UnhealthyEndpoint, parts: Sequence[_Attempts], at: Thresholds, now: datetime) -> Reading:
    made = sum(good + failed for good, failed in parts[1:])
    part = sum(failed for _, failed in parts[1:]) / made if made else 0.0
    steadily = all(_fails(each, at.endpoint) for each in parts if sum(each))
    bad = part > at.endpoint and steadily and (_fails_throughout(lane, parts, made) or _open_throughout(lane, at, now))
    lingers, text = part > at.endpoint * EASE or lane.circuit in _SHUT, _endpoint_text(lane, made, part, at)
    return _warning(AlertName.ENDPOINT_FAILING, part, at.endpoint, text, fires=bad, lingers=lingers, lane=lane)


def _endpoint_text(lane: UnhealthyEndpoint, made: int, part: float, at: Thresholds) -> str:
    within = lasting(at.endpoint_for)
    # Without attempts, this alert does not start to fire. If it fires already, it continues while the circuit is open.
    if not made:
        return f"no attempt was made at {_named(lane)} within {within}: its circuit is open"
    return f"{part:.0%} of {made:,} attempts at {_named(lane)} failed within {within} (limit {at.endpoint:.0%})"


def _fails_throughout(lane: UnhealthyEndpoint, parts: Sequence[_Attempts], made: int) -> bool:
    until_now = bool(parts[-1][1]) or lane.circuit in _SHUT
    return made >= LEAST_ATTEMPTS and bool(parts[0][1]) and until_now


def _open_throughout(lane: UnhealthyEndpoint, at: Thresholds, now: datetime) -> bool:
    """Return whether the circuit has been open for `endpoint_for` seconds. Such an endpoint gets only probes, usually
    fewer than the `LEAST_ATTEMPTS` attempts that `_fails_throughout` requires."""
    if lane.circuit not in _SHUT or lane.opened_at is None:
        return False
    return (now - lane.opened_at).total_seconds() >= at.endpoint_for


def _fails(attempts: _Attempts, limit: float) -> bool:
    good, failed = attempts
    return failed > (good + failed) * limit


def _attempts_by_endpoint(pulses: Sequence[Pulse]) -> dict[int, _Attempts]:
    found: dict[int, _Attempts] = {}
    for pulse in pulses:
        for no, (good, failed) in pulse.endpoints.items():
            before = found.get(no, (0, 0))
            found[no] = (before[0] + good, before[1] + failed)
    return found


def _named(lane: UnhealthyEndpoint) -> str:
    return f"endpoint {lane.endpoint_id} of application {lane.app_uid or lane.app_id}"


# ── all rules ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Rule(Struct, frozen=True):
    title: str
    command: str  # the command that shows more about the alert
    condition: Callable[[FleetState, Thresholds], Iterator[Reading]]
    lasts: float = 0.0  # seconds for which the condition must hold before the alert fires
    settles: float = 120.0  # seconds after the end of the condition before the alert is resolved


RULES: Mapping[AlertName, Rule] = {
    AlertName.BACKLOG: Rule("Backlog", "hookline top", _backlog, lasts=60.0),
    AlertName.BACKLOG_GROWING: Rule("Backlog growing", "hookline top", _backlog_growing),
    AlertName.FIRST_ATTEMPT_LATENCY: Rule("First attempts late", "hookline top", _latency),
    AlertName.DEAD_LETTERS: Rule("Dead letters", _DEAD_STATS, _dead_letters),
    AlertName.DEAD_LETTERS_GROWING: Rule("More dead letters than usual", _DEAD_STATS, _dead_letters_growing),
    AlertName.RETRIES_FAILING: Rule("Retries failing", "hookline top", _retries),
    AlertName.ENDPOINT_FAILING: Rule("Endpoint failing", _SHOW_ENDPOINT, _endpoints),
    AlertName.CIRCUIT_OPEN: Rule("Circuit open", _SHOW_ENDPOINT, _circuits, settles=0.0),
    AlertName.LAST_ATTEMPTS: Rule("Deliveries at their last attempt", "hookline top", _last_attempts),
    AlertName.OUTBOX_LAG: Rule("Outbox lagging", "hookline outbox status", _outbox),
    AlertName.LEASES_EXPIRED: Rule("Leases expired", "hookline doctor", _leases),
}
_UNKNOWN = Rule("Alert", "hookline doctor", lambda _fleet, _at: iter(()), settles=0.0)


def rule_of(name: str) -> Rule:
    """Return the rule of an alert. The name may come from another release: for an unknown name, return `_UNKNOWN`."""
    return RULES.get(AlertName(name), _UNKNOWN) if name in set(AlertName) else _UNKNOWN


def readings(fleet: FleetState, thresholds: Thresholds) -> list[Reading]:
    return [reading for rule in RULES.values() for reading in rule.condition(fleet, thresholds)]
