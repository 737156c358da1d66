"""The states of a delivery and the moves between them. `docs/explanation/lifecycle.md` draws the same picture."""

from __future__ import annotations

from enum import IntEnum, StrEnum

from hookline.errors import IllegalMove


class DeliveryState(IntEnum):
    """The number is what the database holds. Waiting states come first: the due index is `state < 2`."""

    PENDING = 0  # may be sent from `due_at` on; never attempted, or released without an outcome
    SCHEDULED = 1  # failed before; the next attempt is at `due_at`
    DELIVERING = 2  # leased by a worker under a claim token
    DELIVERED = 3  # final
    DEAD = 4  # gave up, with a reason; can be replayed or resolved
    RESOLVED = 5  # an operator closed the dead letter with a note
    QUEUED = 6  # waits for its turn behind others of its ordering key


S = DeliveryState

MOVES: dict[DeliveryState, frozenset[DeliveryState]] = {
    # QUEUED, PENDING and SCHEDULED die without an attempt when their time budget ends or their endpoint is deleted.
    S.PENDING: frozenset({S.DELIVERING, S.DEAD}),
    S.SCHEDULED: frozenset({S.DELIVERING, S.DEAD}),
    S.DELIVERING: frozenset({S.DELIVERED, S.SCHEDULED, S.DEAD, S.PENDING}),
    S.DELIVERED: frozenset(),
    S.DEAD: frozenset({S.PENDING, S.QUEUED, S.RESOLVED}),
    S.RESOLVED: frozenset({S.PENDING, S.QUEUED}),
    S.QUEUED: frozenset({S.PENDING, S.DEAD}),
}

OPEN = frozenset({S.QUEUED, S.PENDING, S.SCHEDULED, S.DELIVERING})
ACTIVE = frozenset({S.PENDING, S.SCHEDULED, S.DELIVERING})  # of one ordering key: one at a time
WAITING = frozenset({S.PENDING, S.SCHEDULED})


def move(before: DeliveryState, after: DeliveryState) -> DeliveryState:
    """Return `after`, or raise `IllegalMove`: a move outside the table is a bug, never data."""
    if after not in MOVES[before]:
        raise IllegalMove(f"a delivery cannot go from {before.name.lower()} to {after.name.lower()}")
    return after


class EndpointStatus(IntEnum):
    ACTIVE = 0
    PAUSED = 1  # deliveries are created and held; their time budget starts anew on resume
    DISABLED = 2  # none are created; open ones are held while their time budget runs
    DELETED = 3  # open ones die as `endpoint_deleted`


class Circuit(IntEnum):
    CLOSED = 0
    OPEN = 1  # nothing is attempted before `probe_at`
    HALF_OPEN = 2  # one probe is in flight, and holds the lane until `probe_at`
    RECOVERING = 3  # the window doubles with successes until the circuit is closed


class Reason(StrEnum):
    """Why a delivery is dead."""

    PERMANENT_FAILURE = "permanent_failure"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    BUDGET_EXHAUSTED = "budget_exhausted"
    ENDPOINT_GONE = "endpoint_gone"
    ENDPOINT_DELETED = "endpoint_deleted"
    BLOCKED_ADDRESS = "blocked_address"
    UNSENDABLE = "unsendable"  # the request could not be built: a secret that no key opens, for one


class ErrorKind(StrEnum):
    """What went wrong in one attempt. An HTTP status is not an error here."""

    REFUSED = "refused"
    RESET = "reset"
    DNS = "dns"
    TIMEOUT = "timeout"
    TLS = "tls"
    MALFORMED = "malformed"
    AMBIGUOUS = "ambiguous"  # the body was sent and a reused connection closed: it may have arrived
    BLOCKED = "blocked"
    UNSENDABLE = "unsendable"
    INTERRUPTED = "interrupted"  # our own sender ended during the request: it may have arrived
    NETWORK = "network"  # any other failure of the network


class Health(IntEnum):
    """What one outcome says about its endpoint."""

    GOOD = 0
    BAD = 1
    NONE = 2
