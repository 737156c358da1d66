"""The checker: compares what publishers were told, what the receiver saw and what the database has recorded.

Pure functions. A history that keeps every promise has no violations. A request that was sent twice, or that has no
recorded attempt, must have a cause in the history: a fault between the two copies, or an answer that was lost. Each
cause is counted. A copy without a cause is a violation.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import TypeVar

from msgspec import Struct

K = TypeVar("K")
T = TypeVar("T")

SETTLE = 5.0  # seconds after a fault in which processes that it hit may still send what they hold
# An attempt with one of these errors may end before the receiver has the whole request.
UNSEEN = frozenset({"refused", "reset", "dns", "timeout", "tls", "ambiguous", "blocked", "interrupted", "network"})


class Told(StrEnum):
    """What the publisher knows about an event."""

    ACKNOWLEDGED = "acknowledged"  # the API answered 202, or COMMIT returned
    ROLLED_BACK = "rolled back"
    UNKNOWN = "unknown"  # the answer was lost: the event may exist or not


class Published(Struct, frozen=True, kw_only=True):
    """One event of a publisher. Its body is unique, so the digest of the body names the event."""

    digest: str
    part: str  # the endpoint that must get it
    told: Told
    at: float  # monotonic time of the answer
    message_ids: tuple[str, ...] = ()  # ids in the answers to this event and to its deliberate repetitions
    key: str | None = None  # ordering key; events of one key are published one after the other
    number: int = 0  # place of the event among those of its key
    began: float = 0.0  # monotonic time of the publisher's first request for this event


class Arrival(Struct, frozen=True, kw_only=True):
    """One request that the receiver saw."""

    part: str
    message_id: str
    digest: str
    number: int  # header webhook-attempt
    at: float  # monotonic time
    accepted: bool  # the receiver answered 2xx


class Stored(Struct, frozen=True, kw_only=True):
    """One message in the database."""

    message_id: str
    digest: str


class Delivery(Struct, frozen=True, kw_only=True):
    """One delivery in the database after the drill."""

    id: int
    message_id: str
    part: str
    state: str  # delivered, dead or open
    reason: str = ""


class Attempt(Struct, frozen=True, kw_only=True):
    """One attempt in the database."""

    delivery_id: int
    number: int
    status: int | None
    error: str | None


class Fault(Struct, frozen=True, kw_only=True):
    kind: str
    start: float
    end: float


class Restore(Struct, frozen=True, kw_only=True):
    """A backup that was restored. What was acknowledged between `since` and `until` may be gone."""

    since: float  # before the backup began
    until: float  # after the restored database was in use


class History(Struct, frozen=True, kw_only=True):
    published: list[Published]
    arrivals: list[Arrival]
    stored: list[Stored]
    deliveries: list[Delivery]
    attempts: list[Attempt]
    faults: list[Fault]
    restores: list[Restore] = []


class Violation(Struct, frozen=True):
    promise: str
    text: str


class Findings(Struct, frozen=True, kw_only=True):
    violations: list[Violation]
    delivered: int
    dead: dict[str, int]  # dead letters by reason
    duplicates: dict[str, int]  # accepted copies after the first, by cause
    unrecorded: dict[str, int]  # requests without a recorded attempt, by cause
    unseen: dict[str, int]  # recorded attempts that the receiver never saw, by error
    late: dict[str, int]  # copies of an earlier message of a key that came after a later message, by cause
    gone: int = 0  # events that were acknowledged after a backup, and that its restore has removed

    @property
    def lost(self) -> int:
        return sum(1 for one in self.violations if one.promise == LOST)


LOST = "every acknowledged message is delivered, or a dead letter with a reason"
BODY = "every copy of a message has the same bytes"
ONCE = "one event becomes one message"
NEVER = "a rolled-back event is never sent"
COUNTED = "attempts recorded = requests seen"
COPY = "a message is accepted twice only after a fault or a lost answer"
ORDER = "messages of one key arrive in order"


def check(history: History) -> Findings:
    """Return every violation of a promise, and the explained exceptions by cause."""
    index = _Index(history)
    duplicates: Counter[str] = Counter()
    unrecorded: Counter[str] = Counter()
    unseen: Counter[str] = Counter()
    late: Counter[str] = Counter()
    violations = [*_lost(index), *_bodies(index), *_once(index), *_never(index)]
    violations += _copies(index, duplicates)
    violations += _counted(index, unrecorded, unseen)
    violations += _order(index, late)
    return Findings(
        violations=violations,
        delivered=sum(1 for one in history.deliveries if one.state == "delivered"),
        dead=dict(Counter(one.reason for one in history.deliveries if one.state == "dead")),
        duplicates=dict(duplicates),
        unrecorded=dict(unrecorded),
        unseen=dict(unseen),
        late=dict(late),
        gone=sum(1 for one in history.published if _gone(index, one)),
    )


class _Index:
    """The history, grouped for the checks."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.published = {one.digest: one for one in history.published}
        self.stored = _grouped((one.digest, one.message_id) for one in history.stored)
        self.deliveries = _grouped((one.message_id, one) for one in history.deliveries)
        self.attempts = _grouped((one.delivery_id, one) for one in history.attempts)
        ordered = sorted(history.arrivals, key=lambda one: one.at)
        self.arrivals = _grouped(((one.message_id, one.part), one) for one in ordered)
        self.faults = sorted(history.faults, key=lambda one: one.end)
        self._ends = [one.end + SETTLE for one in self.faults]

    def fault_between(self, start: float, end: float) -> str | None:
        """Return the kind of a fault that was active, or had just ended, between `start` and `end`."""
        for fault in self.faults[bisect_left(self._ends, start) :]:
            if fault.start <= end:
                return fault.kind
        return None

    def restored(self, start: float, end: float) -> bool:
        """Return whether a restored backup may lack events that were acknowledged between `start` and `end`."""
        return any(one.since <= end and start <= one.until for one in self.history.restores)


def _grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    groups: dict[K, list[T]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups


# ── each promise ──────────────────────────────────────────────────────────────────────────────────────────────────


def _lost(index: _Index) -> Iterator[Violation]:
    for event in index.history.published:
        ids = index.stored.get(event.digest, [])
        # A request that was repeated after a restore got a new id. Only the last answer counts then.
        named = event.message_ids[-1:] if index.restored(event.began, event.at) else event.message_ids
        if _gone(index, event):
            continue
        if event.told is Told.ACKNOWLEDGED and not ids:
            yield Violation(LOST, f"{event.digest} ({event.part}) was acknowledged, and no message exists")
        elif event.told is Told.ACKNOWLEDGED and not set(named) <= set(ids):
            yield Violation(LOST, f"{event.digest}: the answer named {event.message_ids}, the database has {ids}")
        for message_id in ids:
            yield from _unfinished(index, event, message_id)


def _gone(index: _Index, event: Published) -> bool:
    acknowledged = event.told is Told.ACKNOWLEDGED and index.restored(event.began, event.at)
    return acknowledged and not index.stored.get(event.digest)


def _unfinished(index: _Index, event: Published, message_id: str) -> Iterator[Violation]:
    found = index.deliveries.get(message_id, [])
    if [one.part for one in found] != [event.part]:
        yield Violation(LOST, f"{message_id} has deliveries to {[one.part for one in found]}, not to {event.part}")
    for delivery in found:
        accepted = any(one.accepted for one in index.arrivals.get((message_id, delivery.part), []))
        if delivery.state == "open":
            yield Violation(LOST, f"{message_id} is still open")
        elif delivery.state == "dead" and not delivery.reason:
            yield Violation(LOST, f"{message_id} is dead without a reason")
        elif delivery.state == "delivered" and not accepted:
            yield Violation(LOST, f"{message_id} is recorded as delivered, and {delivery.part} never accepted it")


def _bodies(index: _Index) -> Iterator[Violation]:
    digests = _grouped((one.message_id, one.digest) for one in index.history.stored)
    for one in index.history.arrivals:
        digests[one.message_id].append(one.digest)
    for message_id, found in digests.items():
        if len(set(found)) > 1:
            yield Violation(BODY, f"{message_id} has {len(set(found))} bodies")
        if found[0] not in index.published:
            yield Violation(BODY, f"{message_id} has a body that nobody published")


def _once(index: _Index) -> Iterator[Violation]:
    for event in index.history.published:
        ids = index.stored.get(event.digest, [])
        if len(ids) > 1:
            yield Violation(ONCE, f"{event.digest} became {len(ids)} messages")
        if len(set(event.message_ids)) > 1 and not index.restored(event.began, event.at):
            yield Violation(ONCE, f"one idempotency key got {event.message_ids}")


def _never(index: _Index) -> Iterator[Violation]:
    sent = {one.digest for one in index.history.arrivals}
    for event in index.history.published:
        if event.told is Told.ROLLED_BACK and event.digest in sent:
            yield Violation(NEVER, f"{event.digest} was rolled back and sent")
        elif event.told is Told.ROLLED_BACK and event.digest in index.stored:
            yield Violation(NEVER, f"{event.digest} was rolled back and became a message")


def _copies(index: _Index, causes: Counter[str]) -> Iterator[Violation]:
    """Explain each accepted copy after the first."""
    for delivery in index.history.deliveries:
        accepted = [one for one in index.arrivals.get((delivery.message_id, delivery.part), []) if one.accepted]
        for first, second in pairwise(accepted):
            cause = _cause_of_copy(index, delivery, first, second)
            if cause is None:
                yield Violation(COPY, f"{delivery.message_id} was accepted twice by {delivery.part} without a cause")
            else:
                causes[cause] += 1


def _cause_of_copy(index: _Index, delivery: Delivery, first: Arrival, second: Arrival) -> str | None:
    """Return why an accepted message was sent again. If the request `first` was not recorded, `second` has the same
    attempt number, so a failure that was recorded with this number may belong to `second`."""
    earlier = min(first.number, second.number)  # a request that timed out may arrive after the next one
    recorded = next((one for one in index.attempts.get(delivery.id, []) if one.number == earlier), None)
    # A restored database counts attempts again, so its attempt with this number may be another one.
    if first.number != second.number and recorded is not None and not index.restored(first.at, second.at):
        if recorded.status is not None and 200 <= recorded.status < 300:
            return None
        if recorded.error is not None:
            return f"answer lost: {recorded.error}"
    return index.fault_between(first.at, second.at)


def _counted(index: _Index, unrecorded: Counter[str], unseen: Counter[str]) -> Iterator[Violation]:
    for delivery in index.history.deliveries:
        arrivals = _grouped((one.number, one) for one in index.arrivals.get((delivery.message_id, delivery.part), []))
        attempts = _grouped((one.number, one) for one in index.attempts.get(delivery.id, []))
        for number in sorted(arrivals.keys() | attempts.keys()):
            seen, recorded = arrivals.get(number, []), attempts.get(number, [])
            yield from _unrecorded(index, delivery, seen[: max(0, len(seen) - len(recorded))], unrecorded)
            yield from _unseen(delivery, recorded[len(seen) :], unseen)


def _unrecorded(
    index: _Index, delivery: Delivery, extra: Sequence[Arrival], causes: Counter[str]
) -> Iterator[Violation]:
    """Explain requests without a recorded attempt. A fault must have hit the request before its outcome was stored."""
    for arrival in extra:
        following = [one.at for one in index.arrivals[arrival.message_id, arrival.part] if one.at > arrival.at]
        cause = index.fault_between(arrival.at, min(following, default=arrival.at + SETTLE))
        if cause is None:
            yield Violation(COUNTED, f"request {arrival.number} of {delivery.message_id} has no recorded attempt")
        else:
            causes[cause] += 1


def _unseen(delivery: Delivery, extra: Sequence[Attempt], errors: Counter[str]) -> Iterator[Violation]:
    for attempt in extra:
        if attempt.error in UNSEEN:
            errors[attempt.error] += 1
        else:
            text = (
                f"attempt {attempt.number} of {delivery.message_id} ({attempt.status or attempt.error}) was never seen"
            )
            yield Violation(COUNTED, text)


def _order(index: _Index, late: Counter[str]) -> Iterator[Violation]:
    """Check the order of each key. A stale copy of an accepted message may come late after a fault. A message that was
    not accepted before must not: the messages after it had to wait for its retries."""
    for (part, key), arrivals in _arrivals_by_key(index).items():
        highest, accepted = -1, dict[int, float]()  # the last time at which each number was accepted
        for at, number, taken in arrivals:
            if number < highest and number not in accepted:
                yield Violation(ORDER, f"{part}: number {number} of {key} came after {highest}")
            elif number < highest:
                cause = index.fault_between(accepted[number], at)
                if cause is None:
                    yield Violation(ORDER, f"{part}: a copy of number {number} of {key} came after {highest}")
                else:
                    late[cause] += 1
            highest = max(highest, number)
            if taken:
                accepted[number] = at


def _arrivals_by_key(index: _Index) -> dict[tuple[str, str], list[tuple[float, int, bool]]]:
    queues: dict[tuple[str, str], list[tuple[float, int, bool]]] = defaultdict(list)
    for one in index.history.arrivals:
        event = index.published.get(one.digest)
        if event is not None and event.key is not None:
            queues[one.part, event.key].append((one.at, event.number, one.accepted))
    return {queue: sorted(found) for queue, found in queues.items()}
