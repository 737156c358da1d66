"""The rules: what is seen of the fleet in, readings out. Pure.

`deploy/prometheus/rules.yml` says the same in Prometheus's words, under the same names and with the same defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from msgspec import Struct

from hookline.model import Depths
from hookline.model.alerts import AlertName, EarlierCheck, Reading, Severity, UnhealthyEndpoint
from hookline.model.measures import SECONDS, at_least, count
from hookline.model.pulses import Pulse, together
from hookline.model.states import Circuit, EndpointStatus
from hookline.rules.checks.text import lasting

EASE = 0.8  # of its threshold: an alert that fires is over below this part of it
LATENCY_WINDOW = 300.0  # seconds
RATE_WINDOW = 900.0  # of retries, last attempts and leases
DEATHS_WINDOW = 3600.0
LAG_WINDOW = 30.0  # in which each process has told how far it is behind
GROWTH_PARTS = 5  # of the time in which a backlog must grow: the least of each must be above that of the one before

# Below these, chance alone could fire an alert.
LEAST_GROWTH = 100  # deliveries
LEAST_FIRST_ATTEMPTS = 20
LEAST_DEATHS = 10
LEAST_RETRIES = 20
LEAST_ATTEMPTS = 5  # of one endpoint, if its circuit was not open all the time

_SHUT = frozenset({Circuit.OPEN, Circuit.HALF_OPEN})


class Thresholds(Struct, frozen=True, kw_only=True):
    """An alert fires above these; 0: never."""

    backlog: int = 1_000  # deliveries that are due
    backlog_growing: float = 300.0  # seconds
    latency: float = 60.0  # seconds, of 95 % of first attempts
    dead_letters: int = 10
    dead_letters_critical: int = 100
    dead_letters_growing: float = 3.0  # times the usual
    retries: float = 0.5  # part of them that fails
    endpoint: float = 0.5  # likewise, of one endpoint's attempts
    endpoint_for: float = 900.0  # seconds
    circuits: bool = True
    last_attempts: int = 20
    outbox_lag: float = 60.0  # seconds
    leases: int = 10


class Rule(Struct, frozen=True, kw_only=True):
    """What does not depend on what is seen."""

    title: str
    look: str  # the command to begin with
    lasts: float = 0.0  # seconds before it fires
    settles: float = 120.0  # seconds that it must be over before it is resolved


RULES: Mapping[AlertName, Rule] = {
    AlertName.BACKLOG: Rule(title="Backlog", look="hookline top", lasts=60.0),
    AlertName.BACKLOG_GROWING: Rule(title="Backlog grows", look="hookline top"),
    AlertName.FIRST_ATTEMPT_LATENCY: Rule(title="First attempts are late", look="hookline top"),
    AlertName.DEAD_LETTERS: Rule(title="Dead letters", look="hookline dead stats --all-orgs"),
    AlertName.DEAD_LETTERS_GROWING: Rule(title="More deaths than usual", look="hookline dead stats --all-orgs"),
    AlertName.RETRIES_FAILING: Rule(title="Retries fail", look="hookline top"),
    AlertName.ENDPOINT_FAILING: Rule(title="Endpoint fails", look="hookline endpoints show {subject}"),
    AlertName.CIRCUIT_OPEN: Rule(title="Circuit open", look="hookline endpoints show {subject}", settles=0.0),
    AlertName.LAST_ATTEMPTS: Rule(title="Deliveries at their last attempt", look="hookline top"),
    AlertName.OUTBOX_LAG: Rule(title="Outbox lags", look="hookline outbox status"),
    AlertName.LEASES_EXPIRED: Rule(title="Leases expire", look="hookline doctor"),
}
_UNKNOWN = Rule(title="Alert", look="hookline doctor", settles=0.0)


def rule_of(name: str) -> Rule:
    """A row may be of another release, which has other rules."""
    return RULES.get(AlertName(name), _UNKNOWN) if name in set(AlertName) else _UNKNOWN


class Sight(Struct, frozen=True, kw_only=True):
    """What there is to judge by."""

    now: datetime
    depths: Depths
    pulses: Sequence[Pulse]  # of the last hour, oldest first: by the minute, and the latest as they came
    looks: Sequence[EarlierCheck] = ()  # earlier ones, oldest first
    unwell: Sequence[UnhealthyEndpoint] = ()  # whose circuit is not closed; and those whose attempts have failed
    usual_deaths: float = 0.0  # in an hour; only where there were some lately


def readings(sight: Sight, thresholds: Thresholds) -> list[Reading]:
    return [reading for rule in _ASKED for reading in rule(sight, thresholds)]


def window(pulses: Sequence[Pulse], now: datetime, seconds: float, *, ago: float = 0.0) -> list[Pulse]:
    """Those of a stretch of time that ended so long ago."""
    end = now - timedelta(seconds=ago)
    since = end - timedelta(seconds=seconds)
    return [pulse for pulse in pulses if since < pulse.at and (not ago or pulse.at <= end)]


def deaths(sight_pulses: Sequence[Pulse], now: datetime) -> float:
    return sum(pulse.died for pulse in window(sight_pulses, now, DEATHS_WINDOW))


def usual_deaths(day: Sequence[Pulse], now: datetime) -> float:
    """In an hour, of the day before the last hour; of as much of it as there is."""
    before = [pulse for pulse in day if pulse.at <= now - timedelta(seconds=DEATHS_WINDOW)]
    if not before:
        return 0.0
    covered = (now - before[0].at).total_seconds() - DEATHS_WINDOW
    return sum(pulse.died for pulse in before) * DEATHS_WINDOW / max(covered, DEATHS_WINDOW)


def failed_lately(sight_pulses: Sequence[Pulse], now: datetime, thresholds: Thresholds) -> list[int]:
    """Endpoints of which more must be known to judge them."""
    total = _attempts_by_endpoint(window(sight_pulses, now, thresholds.endpoint_for)) if thresholds.endpoint else {}
    return sorted(no for no, (good, failed) in total.items() if failed > (good + failed) * thresholds.endpoint * EASE)


# ── the rules ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _backlog(sight: Sight, at: Thresholds) -> Iterator[Reading]:
    due = sight.depths.due
    text = f"{due:,} deliveries are due and not sent (more than {at.backlog:,}), the oldest for {_age(sight)}"
    yield from _above(AlertName.BACKLOG, due, at.backlog, text)


def _age(sight: Sight) -> str:
    return lasting(sight.depths.backlog_age)


def _backlog_growing(sight: Sight, at: Thresholds) -> Iterator[Reading]:
    if not at.backlog_growing:
        return
    least = _least_by_part(sight, at.backlog_growing)
    if least is None:
        return
    due = sight.depths.due
    grown, grows = due - least[0], least[-1] > least[-2]
    steadily = all(after > before for before, after in pairwise(least))
    yield Reading(
        name=AlertName.BACKLOG_GROWING,
        value=grown,
        threshold=LEAST_GROWTH,
        severity=Severity.WARNING if steadily and grown > LEAST_GROWTH else None,
        lingering=Severity.WARNING if grows else None,
        text=f"the backlog has grown for {lasting(at.backlog_growing)}, by {grown:,} to {due:,} deliveries",
    )


def looked_back(growing: float) -> float:
    """Seconds of earlier looks that the rule needs."""
    return growing * (GROWTH_PARTS + 1) / GROWTH_PARTS


def _least_by_part(sight: Sight, seconds: float) -> list[int] | None:
    """The least backlog of each part of that time, and of one before; None: of a part nothing is known."""
    parts: list[list[int]] = [[] for _ in range(GROWTH_PARTS + 1)]
    for look in (*sight.looks, EarlierCheck(sight.now, sight.depths.due)):
        ago = (sight.now - look.at).total_seconds()
        if 0 <= ago < looked_back(seconds):
            parts[GROWTH_PARTS - int(ago * GROWTH_PARTS / seconds)].append(look.backlog)
    return [min(part) for part in parts] if all(parts) else None


def _latency(sight: Sight, at: Thresholds) -> Iterator[Reading]:
    total = together(window(sight.pulses, sight.now, LATENCY_WINDOW), sight.now)
    slow = total.first_latency_at(0.95)
    if slow is None or count(total.first_latency) < LEAST_FIRST_ATTEMPTS:
        return
    known = lasting(at_least(0.95, total.first_latency, SECONDS))
    text = f"5 % of first attempts begin more than {known} after they were due (limit {lasting(at.latency)})"
    yield from _above(AlertName.FIRST_ATTEMPT_LATENCY, slow, at.latency, text)


def _dead_letters(sight: Sight, at: Thresholds) -> Iterator[Reading]:
    dead = sum(sight.depths.dead.values())
    limits = {Severity.WARNING: at.dead_letters, Severity.CRITICAL: at.dead_letters_critical}
    held = {severity: limit for severity, limit in limits.items() if limit}
    if not held:
        return
    severity = _worst(severity for severity, limit in held.items() if dead > limit)
    passed = held[severity] if severity else min(held.values())
    yield Reading(
        name=AlertName.DEAD_LETTERS,
        value=dead,
        threshold=passed,
        severity=severity,
        lingering=_worst(severity for severity, limit in held.items() if dead > limit * EASE),
        text=f"{dead:,} dead letters wait for somebody (more than {passed:,}); most: {_most(sight.depths.dead)}",
    )


def _worst(severities: Iterator[Severity]) -> Severity | None:
    return max(severities, key=lambda severity: severity.rank, default=None)


def _most(dead: Mapping[str, int]) -> str:
    return max(dead, key=lambda reason: dead[reason], default="none")


def _dead_letters_growing(sight: Sight, at: Thresholds) -> Iterator[Reading]:
    if not at.dead_letters_growing:
        return
    died = deaths(sight.pulses, sight.now)
    limit = max(float(LEAST_DEATHS), at.dead_letters_growing * sight.usual_deaths)
    text = f"{died:,.0f} deliveries died within an hour; usual are {sight.usual_deaths:,.0f} (limit {limit:,.0f})"
    yield from _above(AlertName.DEAD_LETTERS_GROWING, died, limit, text)


def _retries(sight: Sight, at: Thresholds) -> Iterator[Reading]:
    made = together(window(sight.pulses, sight.now, RATE_WINDOW), sight.now).retries
    number = sum(made.values())
    if number < LEAST_RETRIES:
        return
    failing = 1 - made.get("delivered", 0.0) / number
    text = f"{failing:.0%} of {number:,.0f} retries failed within {lasting(RATE_WINDOW)} (limit {at.retries:.0%})"
    yield from _above(AlertName.RETRIES_FAILING, failing, at.retries, text)


def _last_attempts(sight: Sight, at: Thresholds) -> Iterator[Reading]:
    number = sum(pulse.last_attempts for pulse in window(sight.pulses, sight.now, RATE_WINDOW))
    text = f"{number:,.0f} deliveries came to their last attempt within {lasting(RATE_WINDOW)} (limit {at.last_attempts:,})"
    yield from _above(AlertName.LAST_ATTEMPTS, number, at.last_attempts, text)


def _outbox(sight: Sight, at: Thresholds) -> Iterator[Reading]:
    own, waiting = sight.depths.outbox_lag, sight.depths.outbox_waiting
    others = max((pulse.outbox_lag for pulse in window(sight.pulses, sight.now, LAG_WINDOW)), default=0.0)
    text = (
        f"the oldest of {waiting:,} outbox rows waits for {lasting(own)}"
        if own >= others
        else f"a worker has not come to the end of an application's outbox for {lasting(others)}"
    )
    yield from _above(AlertName.OUTBOX_LAG, max(own, others), at.outbox_lag, f"{text} (limit {lasting(at.outbox_lag)})")


def _leases(sight: Sight, at: Thresholds) -> Iterator[Reading]:
    number = sum(pulse.leases for pulse in window(sight.pulses, sight.now, RATE_WINDOW))
    text = f"{number:,.0f} leases ran out within {lasting(RATE_WINDOW)} (limit {at.leases:,}): a worker has died or stalled"
    yield from _above(AlertName.LEASES_EXPIRED, number, at.leases, text)


def _above(name: AlertName, value: float, limit: float, text: str) -> Iterator[Reading]:
    if limit:
        yield Reading(
            name=name,
            value=value,
            threshold=limit,
            severity=Severity.WARNING if value > limit else None,
            lingering=Severity.WARNING if value > limit * EASE else None,
            text=text,
        )


# ── of single endpoints ───────────────────────────────────────────────────────────────────────────────────────────


def _circuits(sight: Sight, at: Thresholds) -> Iterator[Reading]:
    if not at.circuits:
        return
    for lane in sight.unwell:
        if lane.circuit != Circuit.CLOSED and lane.status == EndpointStatus.ACTIVE:
            lasts = "" if lane.opened_at is None else f" for {lasting((sight.now - lane.opened_at).total_seconds())}"
            yield Reading(
                name=AlertName.CIRCUIT_OPEN,
                subject=lane.endpoint_id,
                org_id=lane.org_id,
                since=lane.opened_at,
                value=1.0,
                threshold=0.0,
                severity=Severity.WARNING if lane.circuit in _SHUT else None,
                lingering=Severity.WARNING,
                text=f"the circuit of {_named(lane)} is open{lasts}: nothing but probes is sent to it",
            )


_Attempts = tuple[int, int]  # that went well, and that failed
PARTS = 3  # of the time in which an endpoint must fail: none of them may look well, nor the one before


def _endpoints(sight: Sight, at: Thresholds) -> Iterator[Reading]:
    if not at.endpoint:
        return
    seconds = at.endpoint_for / PARTS
    parts = [
        _attempts_by_endpoint(window(sight.pulses, sight.now, seconds, ago=seconds * part))
        for part in reversed(range(PARTS + 1))
    ]
    for lane in sight.unwell:
        if lane.status == EndpointStatus.ACTIVE:
            yield _endpoint(lane, [part.get(lane.endpoint_no, (0, 0)) for part in parts], at, sight.now)


def _endpoint(lane: UnhealthyEndpoint, parts: Sequence[_Attempts], at: Thresholds, now: datetime) -> Reading:
    made = sum(good + failed for good, failed in parts[1:])
    part = sum(failed for _, failed in parts[1:]) / made if made else 0.0
    steadily = all(_fails(each, at.endpoint) for each in parts if sum(each))
    bad = part > at.endpoint and steadily and (_fails_throughout(lane, parts, made) or _shut_for(lane, at, now))
    return Reading(
        name=AlertName.ENDPOINT_FAILING,
        subject=lane.endpoint_id,
        org_id=lane.org_id,
        value=part,
        threshold=at.endpoint,
        severity=Severity.WARNING if bad else None,
        lingering=Severity.WARNING if part > at.endpoint * EASE or lane.circuit in _SHUT else None,
        text=_tried(lane, made, part, at),
    )


def _tried(lane: UnhealthyEndpoint, made: int, part: float, at: Thresholds) -> str:
    within = lasting(at.endpoint_for)
    if not made:  # it fires already, and the next probe is far
        return f"nothing was tried at {_named(lane)} within {within}: its circuit is open"
    return f"{part:.0%} of {made:,} attempts at {_named(lane)} failed within {within} (limit {at.endpoint:.0%})"


def _fails_throughout(lane: UnhealthyEndpoint, parts: Sequence[_Attempts], made: int) -> bool:
    until_now = bool(parts[-1][1]) or lane.circuit in _SHUT
    return made >= LEAST_ATTEMPTS and bool(parts[0][1]) and until_now


def _shut_for(lane: UnhealthyEndpoint, at: Thresholds, now: datetime) -> bool:
    """One that dies at once trips its circuit, and has a probe or two in all that time: too few to be counted."""
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


_ASKED: tuple[Callable[[Sight, Thresholds], Iterator[Reading]], ...] = (
    _backlog,
    _backlog_growing,
    _latency,
    _dead_letters,
    _dead_letters_growing,
    _retries,
    _endpoints,
    _circuits,
    _last_attempts,
    _outbox,
    _leases,
)
