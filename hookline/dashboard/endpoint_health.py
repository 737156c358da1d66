"""The health of an endpoint, in the same words on every page."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from hookline.model import Lane, LaneView
from hookline.model.states import Circuit, EndpointStatus
from hookline.rules.checks.text import lasting

# From worst to best. Listings are sorted in this order.
WORDS = {
    "open": "circuit open",
    "half_open": "circuit half-open, probing",
    "disabled": "disabled",
    "held": "paused by Retry-After",
    "paused": "paused",
    "failing": "failing",
    "recovering": "recovering",
    "slowed": "slowed by 429s",
    "well": "healthy",
}
HELD = ("open", "half_open", "disabled", "held", "paused")  # conditions in which nothing is sent
_SHADES = dict.fromkeys(HELD, "held") | dict.fromkeys(("failing", "recovering", "slowed"), "scheduled")


class Condition(Struct, frozen=True, kw_only=True):
    name: str  # a key of `WORDS`
    words: str
    since: datetime | None = None

    @property
    def shade(self) -> str:
        """Return the delivery state whose colour and symbol are used."""
        return _SHADES.get(self.name, "delivered")

    @property
    def rank(self) -> int:
        return list(WORDS).index(self.name)

    @property
    def held(self) -> bool:
        return self.name in HELD

    @property
    def well(self) -> bool:
        return self.name == "well"


def condition(lane: Lane, now: datetime) -> Condition:
    if lane.status != EndpointStatus.ACTIVE:
        return _named(lane.status.name.lower())
    if lane.circuit == Circuit.OPEN:
        return _named("open", since=lane.failing_since or lane.opened_at)
    if lane.circuit == Circuit.HALF_OPEN:
        return _named("half_open", since=lane.failing_since or lane.opened_at)
    if lane.held_until is not None and lane.held_until > now:
        return _named("held")
    if lane.circuit == Circuit.RECOVERING:
        return _named("recovering")
    if lane.failures:
        more = "failure" if lane.failures == 1 else "failures"
        return Condition(name="failing", words=f"{lane.failures} {more} in a row", since=lane.failing_since)
    if lane.pace is not None:
        return _named("slowed", since=lane.slowed_at)
    return _named("well")


def _named(name: str, since: datetime | None = None) -> Condition:
    return Condition(name=name, words=WORDS[name], since=since)


def sickest(view: LaneView, now: datetime) -> tuple[int, int, datetime, str]:
    """Return a sort key: worst condition first, then the largest backlog, then the oldest delivery."""
    return condition(view.lane, now).rank, -view.depth, view.oldest_due or now, view.endpoint_id


def depth(view: LaneView) -> str:
    return f"{view.depth:,}{'+' if view.more else ''}"


def limits(lane: Lane) -> list[str]:
    """Return the limits of the endpoint's delivery rate, as texts."""
    found = []
    if lane.throttle_rate is not None:
        found.append(f"{lane.throttle_rate:g}/s")
    if lane.app_rate is not None:
        found.append(f"{lane.app_rate:g}/s for the whole application")
    if lane.concurrency is not None:
        found.append(f"{lane.concurrency:,} in flight")
    if lane.pace is not None:
        found.append(f"slowed to {lane.pace:.3g}/s by 429s")
    if lane.window is not None:
        found.append(f"{lane.window} in flight while recovering")
    return found


def ages(at: datetime | None, now: datetime) -> str:
    """Return the age as text, such as `12 min 4 s`. Scripts do not update this text."""
    return "" if at is None else lasting(max(1.0, (now - at).total_seconds()))
