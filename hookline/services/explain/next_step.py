"""The next step of a delivery, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from msgspec import Struct

from hookline.model.states import WAITING, Circuit, DeliveryState, EndpointStatus
from hookline.services.explain.model import DeliveryHistory


class NextStep(Struct, frozen=True, kw_only=True):
    """One next step, or the reason why there is none: a text, often with a time."""

    words: str
    at: datetime | None = None
    after: str = ""
    exact: bool = False  # show `at` as a date and time, not as "in 5 minutes"

    def text(self, when: Callable[[datetime], str]) -> str:
        """Return the step as a text. `when` formats an instant."""
        if self.at is None:
            return self.words
        at = self.at.isoformat(timespec="seconds") if self.exact else when(self.at)
        return f"{self.words} {at}{self.after}"


def held_by(history: DeliveryHistory, now: datetime) -> NextStep | None:
    """Return why the delivery is held although it may be due, or None."""
    if history.lane is None:
        return None
    lane, due = history.lane.lane, history.delivery.due_at
    if lane.status != EndpointStatus.ACTIVE:
        return NextStep(words=f"the endpoint is {lane.status.name.lower()}")
    if lane.circuit == Circuit.OPEN:
        probe = lane.probe_at
        words = "the circuit is open" if probe is None else "the circuit is open; next probe"
        return NextStep(words=words, at=probe, exact=True)
    if lane.circuit == Circuit.HALF_OPEN:
        return NextStep(words="the circuit is half-open: a probe is under way")
    if lane.held_until is not None and lane.held_until > now and (due is None or due < lane.held_until):
        return NextStep(words="the endpoint asked to be left alone until", at=lane.held_until, exact=True)
    return None


def current_state(history: DeliveryHistory, now: datetime) -> str:
    """Return the name of the delivery's state, or `held` if its lane is held now."""
    state = history.delivery.state
    return "held" if state in WAITING and held_by(history, now) else state.name.lower()


def next_step_texts(history: DeliveryHistory, now: datetime, when: Callable[[datetime], str]) -> Iterator[str]:
    """Return the next steps as texts. `when` formats an instant."""
    return (each.text(when) for each in next_steps(history, now))


def next_steps(history: DeliveryHistory, now: datetime) -> Iterator[NextStep]:
    delivery = history.delivery
    held = held_by(history, now)
    if delivery.state in WAITING and held:
        yield held
    elif delivery.state in WAITING and delivery.due_at is not None:
        yield _turn(history, delivery.due_at, now)
    if delivery.state == DeliveryState.QUEUED:
        yield NextStep(words="waits for its turn behind others of its ordering key")
    if delivery.state == DeliveryState.DELIVERING:
        yield NextStep(words="a request is under way")
    if delivery.reason is not None:
        yield NextStep(words=f"gave up: {delivery.reason.value}: {delivery.detail or ''}")
    if history.letter is not None and history.letter.note:
        yield NextStep(words=f"resolved: {history.letter.note}")


def _turn(history: DeliveryHistory, due_at: datetime, now: datetime) -> NextStep:
    if due_at > now:
        return NextStep(words="next attempt", at=due_at)
    if is_limited(history):
        after = ": waits for its turn, because the endpoint is sent only so much at a time"
        return NextStep(words="due", at=due_at, after=after)
    return NextStep(words="due", at=due_at, after=": no worker has taken it yet")


def is_limited(history: DeliveryHistory) -> bool:
    """Return whether a throttle, a pace, a concurrency limit or a recovery limits requests to the endpoint."""
    if history.lane is None:
        return False
    lane = history.lane.lane
    limits = (lane.throttle_rate, lane.concurrency, lane.pace, lane.app_rate, lane.window)
    return any(limit is not None for limit in limits)
