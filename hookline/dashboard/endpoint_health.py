"""The health of an endpoint, in the same words on every page."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from hookline.dashboard import components
from hookline.model.lanes import Lane, LaneView
from hookline.model.states import Circuit, EndpointStatus
from hookline.rules.checks.text import lasting

# Text of each condition, from the worst to the best. Lists of endpoints are sorted in this order.
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
        """Return the delivery state that has the colour and symbol of this condition."""
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
    if lane.circuit in (Circuit.OPEN, Circuit.HALF_OPEN):
        return _named(lane.circuit.name.lower(), since=lane.failing_since or lane.opened_at)
    if lane.held_until is not None and lane.held_until > now:
        return _named("held")
    if lane.circuit == Circuit.RECOVERING:
        return _named("recovering")
    if lane.failures:
        words = f"{components.count(lane.failures, 'failure')} in a row"
        return Condition(name="failing", words=words, since=lane.failing_since)
    if lane.pace is not None:
        return _named("slowed", since=lane.slowed_at)
    return _named("well")


def _named(name: str, since: datetime | None = None) -> Condition:
    return Condition(name=name, words=WORDS[name], since=since)


def sickest(view: LaneView, now: datetime) -> tuple[int, int, datetime, str]:
    """Return a sort key: worst condition first, then the largest backlog, then the oldest delivery."""
    return condition(view.lane, now).rank, -view.depth, view.oldest_due or now, view.endpoint_id


def depth(view: LaneView) -> str:
    return components.at_least(view.depth, view.more)


def limits(lane: Lane) -> list[str]:
    """Return the limits of the endpoint's delivery rate, as texts."""
    limits = (
        ("{:g}/s", lane.throttle_rate),
        ("{:g}/s for the whole application", lane.app_rate),
        ("{:,} in flight", lane.concurrency),
        ("slowed to {:.3g}/s by 429s", lane.pace),
        ("{} in flight while recovering", lane.window),
    )
    return [words.format(limit) for words, limit in limits if limit is not None]


def ages(at: datetime, now: datetime) -> str:
    """Return the age as text, such as `12 min 4 s`. The page's scripts do not update this text."""
    return lasting(max(1.0, (now - at).total_seconds()))
