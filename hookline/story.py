"""One message's whole life, from what the database keeps of it: published, accepted, fanned out, each attempt, every hold, and
what follows. `hookline trace` and the message's page draw it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from hookline import ids
from hookline.ids import DEFAULT_ORG, org_option
from hookline.model import (
    Attempt,
    AttemptFilter,
    DeadLetter,
    Delivery,
    Lane,
    LaneEvent,
    LaneEventFilter,
    LaneEventKind,
    LaneView,
    Message,
)
from hookline.states import OPEN, WAITING, Circuit, DeliveryState, EndpointStatus, ErrorKind, Reason
from hookline.store.base import Page, Store

MOST_TOLD = 50  # deliveries of a message of which everything is looked up
MOST_EVENTS = 200  # of one endpoint
MOST_WALKS = 5  # through an endpoint's timeline, however long that is
MOST_ATTEMPTS = 500  # of a message that are told without what was answered: the newest ones
OVERDUE = timedelta(seconds=30)  # from then on something is wrong, where nothing holds it

K = LaneEventKind

# What holds a lane, and what ends that: its circuit, and its status.
_HOLDS = (
    {
        K.CIRCUIT_OPENED: True,
        K.CIRCUIT_PROBE_FAILED: True,
        K.CIRCUIT_RECOVERING: False,
        K.CIRCUIT_CLOSED: False,
        K.CIRCUIT_RESET: False,
    },
    {K.ENDPOINT_PAUSED: True, K.ENDPOINT_DISABLED: True, K.ENDPOINT_RESUMED: False, K.ENDPOINT_ENABLED: False},
)


class Part(StrEnum):
    """What a delivery's time went to."""

    WAITING = "waiting"
    HELD = "held"  # by an open circuit, or because its endpoint is paused or disabled
    FAILED = "failed"  # an attempt
    DELIVERED = "delivered"


class Stretch(Struct, frozen=True, kw_only=True):
    part: Part
    since: datetime
    until: datetime


class Way(Struct, frozen=True, kw_only=True):
    """The way to one endpoint: a delivery and all that happened to it."""

    delivery: Delivery
    attempts: list[Attempt]
    url: str | None
    lane: LaneView | None  # as it is now, where it still matters
    events: list[LaneEvent]  # of its lane, while it was under way; oldest first
    holding: list[LaneEvent]  # those before it that still held the lane when it was accepted
    letter: DeadLetter | None
    org_id: str = DEFAULT_ORG

    def end(self, now: datetime) -> datetime:
        return self.delivery.finished_at or now


class Story(Struct, frozen=True, kw_only=True):
    message: Message
    now: datetime
    ways: list[Way]
    beyond: list[Delivery]  # of which nothing more is looked up
    org_id: str = DEFAULT_ORG

    @property
    def untold(self) -> dict[str, int]:
        """Deliveries of which only the state is known here: how many, by state."""
        return dict(Counter(word(each) for each in self.beyond))

    @property
    def published_at(self) -> datetime | None:
        """When it was written to an outbox: an event's own id says so, to a few milliseconds of its publisher's clock."""
        event_id = self.message.event_id
        if event_id is None or not event_id.startswith(ids.EVENT):
            return None
        at = ids.minted_at(event_id)
        return None if at is None or at > self.message.created_at + timedelta(seconds=1) else at


def counted(states: Mapping[str, int]) -> str:
    """`3 dead, 1,204 delivered`."""
    return ", ".join(f"{number:,} {state}" for state, number in states.items() if number)


# ── reading it ────────────────────────────────────────────────────────────────────────────────────────────────────


async def read(store: Store, message: Message, org_id: str, *, most: int | None = None, content: bool = True) -> Story:
    """Of a message of that organization. `most` deliveries are told whole; without content, not what was answered."""
    deliveries = await store.deliveries(message.id)
    attempts = await store.attempts(message.id) if content else await _outlines(store, message)
    by_rank = sorted(deliveries, key=lambda each: (_rank(each), each.id))
    most = MOST_TOLD if most is None else most
    return Story(
        message=message,
        now=await store.now(),
        ways=[await _way(store, each, attempts, org_id) for each in sorted(by_rank[:most], key=lambda each: each.id)],
        beyond=by_rank[most:],
        org_id=org_id,
    )


async def _outlines(store: Store, message: Message) -> list[Attempt]:
    newest = await store.message_attempts(message, AttemptFilter(), Page(limit=MOST_ATTEMPTS), content=False)
    return newest[::-1]


def _rank(delivery: Delivery) -> int:
    """Of very many, those that went well are told last."""
    return int(delivery.state == DeliveryState.DELIVERED)


async def _way(store: Store, delivery: Delivery, attempts: Sequence[Attempt], org_id: str) -> Way:
    own = [attempt for attempt in attempts if attempt.delivery_id == delivery.id]
    lane = await store.lane_view(delivery.endpoint_no) if delivery.state in OPEN else None
    eventful = delivery.state != DeliveryState.DELIVERED or delivery.sent != 1
    closed = delivery.state in (DeliveryState.DEAD, DeliveryState.RESOLVED)
    letter = await store.dead_letter(delivery.id) if closed else None
    urls = [own[-1].endpoint_url if own else None, lane and lane.url, letter and letter.endpoint_url]
    return Way(
        delivery=delivery,
        attempts=own,
        url=next((url for url in urls if url), None),
        lane=lane,
        events=await _events(store, delivery) if eventful else [],
        holding=await _holding(store, delivery) if eventful else [],
        letter=letter,
        org_id=org_id,
    )


async def _events(store: Store, delivery: Delivery) -> list[LaneEvent]:
    end = None if delivery.finished_at is None else delivery.finished_at + timedelta(seconds=1)
    where = LaneEventFilter(since=delivery.accepted_at, until=end)
    return (await _newest(store, delivery.endpoint_no, where, MOST_EVENTS))[::-1]


async def _holding(store: Store, delivery: Delivery) -> list[LaneEvent]:
    found: list[LaneEvent] = []
    for begins in _HOLDS:
        where = LaneEventFilter(kinds=tuple(begins), until=delivery.accepted_at)
        found += [event for event in await _newest(store, delivery.endpoint_no, where, 1) if begins[event.kind]]
    return found


async def _newest(store: Store, endpoint_no: int, where: LaneEventFilter, most: int) -> list[LaneEvent]:
    """The last ones first. A listing may end before a page is full, and say where to go on."""
    found: list[LaneEvent] = []
    page = Page(limit=most)
    for _ in range(MOST_WALKS):
        walk = await store.timeline(endpoint_no, where, page)
        found += [entry.event for entry in walk.rows]
        if walk.end is None or len(found) >= most:
            break
        page = Page(limit=most, iterator=walk.end)
    return found[:most]


# ── its time ──────────────────────────────────────────────────────────────────────────────────────────────────────


def stretches(way: Way, now: datetime) -> list[Stretch]:
    """From acceptance to its end, or to now, without gaps: attempts, and between them holds and waiting."""
    start, end = way.delivery.accepted_at, max(way.end(now), way.delivery.accepted_at)
    found: list[Stretch] = []
    at = start
    for attempt in sorted(way.attempts, key=lambda each: each.started_at):
        began = min(max(attempt.started_at, at), end)
        over = min(max(began, attempt.started_at + timedelta(microseconds=attempt.timing.total)), end)
        found += _between(holds(way, now), at, began)
        part = Part.DELIVERED if attempt.outcome == "delivered" else Part.FAILED
        found.append(Stretch(part=part, since=began, until=over))
        at = over
    return found + _between(holds(way, now), at, end)


def holds(way: Way, now: datetime) -> list[tuple[datetime, datetime]]:
    """When its lane was held, in order, without overlaps."""
    end = way.end(now)
    found: list[tuple[datetime, datetime]] = []
    held = [any(event.kind in begins for event in way.holding) for begins in _HOLDS]
    since = way.delivery.accepted_at
    for event in way.events:
        before = any(held)
        held = [begins.get(event.kind, was) for begins, was in zip(_HOLDS, held, strict=True)]
        if before and not any(held):
            found.append((since, event.at))
        elif not before and any(held):
            since = event.at
    if not any(held) and _left_alone(way, now):
        asked = [event.at for event in way.events if event.kind == K.LANE_HELD]
        return [*found, (max([way.delivery.accepted_at, *asked[-1:], *(over for _, over in found)]), end)]
    return [*found, (since, end)] if any(held) and since < end else found


def _left_alone(way: Way, now: datetime) -> bool:
    """By a Retry-After. No event tells when one is over: what was before the present one looks like waiting."""
    if way.lane is None or standing(way, now) != "held":
        return False
    shut = way.lane.lane.circuit in (Circuit.OPEN, Circuit.HALF_OPEN)
    return way.lane.lane.status == EndpointStatus.ACTIVE and not shut


def _between(held: Sequence[tuple[datetime, datetime]], since: datetime, until: datetime) -> list[Stretch]:
    found: list[Stretch] = []
    for began, over in held:
        first, last = max(began, since), min(over, until)
        if first < last:
            if since < first:
                found.append(Stretch(part=Part.WAITING, since=since, until=first))
            found.append(Stretch(part=Part.HELD, since=first, until=last))
            since = last
    return [*found, Stretch(part=Part.WAITING, since=since, until=until)] if since < until else found


class Happening(Struct, frozen=True, kw_only=True):
    at: datetime
    what: Attempt | LaneEvent
    waited: timedelta = timedelta(0)  # of an attempt: since the one before, or since it was accepted


def happenings(way: Way) -> list[Happening]:
    """Attempts and what happened to the lane, as they came."""
    found = [Happening(at=event.at, what=event) for event in way.events]
    before = way.delivery.accepted_at
    for attempt in sorted(way.attempts, key=lambda each: each.started_at):
        waited = max(attempt.started_at - before, timedelta(0))
        found.append(Happening(at=attempt.started_at, what=attempt, waited=waited))
        before = attempt.started_at + timedelta(microseconds=attempt.timing.total)
    return sorted(found, key=lambda each: each.at)


class Phase(StrEnum):
    DNS = "name"
    CONNECT = "connect"
    TLS = "TLS"
    ANSWER = "answer"  # from the request to the first byte
    BODY = "body"


def phases(attempt: Attempt) -> list[tuple[Phase, int]]:
    """Microseconds of each that took any; the rest of the time belongs to what was under way at the end."""
    timing = attempt.timing
    ends = [
        (Phase.DNS, timing.dns),
        (Phase.CONNECT, timing.connect),
        (Phase.TLS, timing.tls),
        (Phase.ANSWER, timing.first_byte),
        (_last_phase(attempt), timing.total),
    ]
    reached = 0
    found: list[tuple[Phase, int]] = []
    for phase, end in ends:
        if end > reached:
            found.append((phase, end - reached))
            reached = end
    return found


def _last_phase(attempt: Attempt) -> Phase:
    timing = attempt.timing
    if timing.first_byte:
        return Phase.BODY
    if timing.connect:
        secured = timing.tls or not attempt.detail.startswith("TLS")  # a plain connection has nothing to secure
        return Phase.ANSWER if secured else Phase.TLS
    return Phase.DNS if attempt.error == ErrorKind.DNS else Phase.CONNECT


# ── what follows ──────────────────────────────────────────────────────────────────────────────────────────────────


class Prospect(Struct, frozen=True, kw_only=True):
    """One thing that comes next, or why nothing does: words, often with an instant in them."""

    words: str
    at: datetime | None = None
    after: str = ""
    exact: bool = False  # the instant itself matters, more than how far away it is

    def told(self, when: Callable[[datetime], str]) -> str:
        """`when` puts an instant into words."""
        if self.at is None:
            return self.words
        at = self.at.isoformat(timespec="seconds") if self.exact else when(self.at)
        return f"{self.words} {at}{self.after}"


def held_by(way: Way, now: datetime) -> Prospect | None:
    """Why it is not sent, though it may be due."""
    if way.lane is None:
        return None
    lane, due = way.lane.lane, way.delivery.due_at
    if lane.status != EndpointStatus.ACTIVE:
        return Prospect(words=f"the endpoint is {lane.status.name.lower()}")
    if lane.circuit == Circuit.OPEN:
        probe = lane.probe_at
        words = "the circuit is open" if probe is None else "the circuit is open; next probe"
        return Prospect(words=words, at=probe, exact=True)
    if lane.circuit == Circuit.HALF_OPEN:
        return Prospect(words="the circuit is half-open: a probe is under way")
    if lane.held_until is not None and lane.held_until > now and (due is None or due < lane.held_until):
        return Prospect(words="the endpoint asked to be left alone until", at=lane.held_until, exact=True)
    return None


def word(delivery: Delivery) -> str:
    """The word for where it was when it was read."""
    return "held" if delivery.held else delivery.state.name.lower()


def standing(way: Way, now: datetime) -> str:
    """The word for where it is."""
    return "held" if way.delivery.state in WAITING and held_by(way, now) else way.delivery.state.name.lower()


def prospects(way: Way, now: datetime, when: Callable[[datetime], str]) -> Iterator[str]:
    """What comes next, or why nothing does. `when` puts an instant into words."""
    return (each.told(when) for each in outlook(way, now))


def outlook(way: Way, now: datetime) -> Iterator[Prospect]:
    delivery = way.delivery
    held = held_by(way, now)
    if delivery.state in WAITING and held:
        yield held
    elif delivery.state in WAITING and delivery.due_at is not None:
        yield _turn(way, delivery.due_at, now)
    if delivery.state == DeliveryState.QUEUED:
        yield Prospect(words="waits for its turn behind others of its ordering key")
    if delivery.state == DeliveryState.DELIVERING:
        yield Prospect(words="a request is under way")
    if delivery.reason is not None:
        yield Prospect(words=f"gave up: {delivery.reason.value}: {delivery.detail or ''}")
    if way.letter is not None and way.letter.note:
        yield Prospect(words=f"resolved: {way.letter.note}")


def _turn(way: Way, due_at: datetime, now: datetime) -> Prospect:
    if due_at > now:
        return Prospect(words="next attempt", at=due_at)
    if is_limited(way):
        after = ": waits for its turn, because the endpoint is sent only so much at a time"
        return Prospect(words="due", at=due_at, after=after)
    return Prospect(words="due", at=due_at, after=": no worker has taken it yet")


def is_limited(way: Way) -> bool:
    """By a rate, by the number of requests at a time, or while it recovers."""
    if way.lane is None:
        return False
    lane = way.lane.lane
    limits = (lane.throttle_rate, lane.concurrency, lane.pace, lane.app_rate, lane.window)
    return any(limit is not None for limit in limits)


_REMEDIES = {
    Reason.PERMANENT_FAILURE: "the endpoint refused it for good; once its owner has fixed that:",
    Reason.ATTEMPTS_EXHAUSTED: "every attempt failed; once the endpoint is well again:",
    Reason.BUDGET_EXHAUSTED: "its time was over; if it is still of use:",
    Reason.ENDPOINT_GONE: "the endpoint answered 410 and was disabled; if it is back, resume it first:",
    Reason.ENDPOINT_DELETED: "its endpoint was deleted, so it cannot be sent again; close it:",
    Reason.BLOCKED_ADDRESS: "its address is not public (HOOKLINE_ALLOW_NETS); once that is settled:",
    Reason.UNSENDABLE: "the request could not be made (HOOKLINE_SECRET_KEY is the usual cause); once it can:",
}


def advice(way: Way, now: datetime) -> list[str]:
    """What to do next, and the command for it. Nothing, where all goes its way."""
    delivery = way.delivery
    if delivery.state == DeliveryState.DEAD and delivery.reason is not None:
        return [_REMEDIES[delivery.reason], *_remedy(way, delivery.reason)]
    if delivery.state not in OPEN or way.lane is None:
        return []
    return _release(way, way.lane.lane, now)


def _release(way: Way, lane: Lane, now: datetime) -> list[str]:
    """What sends it sooner."""
    delivery, endpoint = way.delivery, _endpoint(way)
    if lane.status != EndpointStatus.ACTIVE:
        return ["it is sent when the endpoint is resumed:", f"hookline endpoints resume {endpoint}"]
    if lane.circuit == Circuit.OPEN:
        return [
            "it is sent when a probe succeeds; if the endpoint is well already:",
            f"hookline endpoints close {endpoint}",
        ]
    if delivery.state not in WAITING or lane.circuit == Circuit.HALF_OPEN:
        return []
    if held_by(way, now):
        return ["it is sent then; if the endpoint is well already:", f"hookline endpoints reset {endpoint}"]
    overdue = delivery.due_at is not None and now - delivery.due_at > OVERDUE
    return ["is a worker running?", "hookline top"] if overdue and not is_limited(way) else []


def _endpoint(way: Way) -> str:
    """As a command finds it."""
    return f"{way.delivery.endpoint_id}{org_option(way.org_id)}"


def _remedy(way: Way, reason: Reason) -> list[str]:
    letter = f"{ids.DEAD_LETTER}{way.delivery.id}{org_option(way.org_id)}"
    if reason == Reason.ENDPOINT_DELETED:
        return [f"hookline dead resolve {letter} --note '...'"]
    first = [f"hookline endpoints resume {_endpoint(way)}"] if reason == Reason.ENDPOINT_GONE else []
    return [*first, f"hookline dead replay {letter}"]
