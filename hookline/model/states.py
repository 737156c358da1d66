"""The states of a delivery and the transitions between them. `docs/explanation/lifecycle.md` has a diagram of them."""

from __future__ import annotations

from enum import IntEnum, StrEnum

from hookline.errors import IllegalMove


class DeliveryState(IntEnum):
    """The state of a delivery, as the database stores it. The waiting states are 0 and 1, because an index covers
    `state < 2`."""

    PENDING = 0  # may be sent from `due_at` on; not attempted yet, or its lease ended without an outcome
    SCHEDULED = 1  # the last attempt failed; the next attempt is at `due_at`
    DELIVERING = 2  # a worker has leased the delivery and sends it
    DELIVERED = 3  # the endpoint accepted the message; final state
    DEAD = 4  # Hookline gave up, with a reason; a person can replay or resolve the delivery
    RESOLVED = 5  # a person closed the dead letter with a note
    QUEUED = 6  # waits until earlier deliveries with the same ordering key have ended


S = DeliveryState

MOVES: dict[DeliveryState, frozenset[DeliveryState]] = {
    # A waiting delivery becomes DEAD without a further attempt when its time budget ends or its endpoint is deleted.
    S.PENDING: frozenset({S.DELIVERING, S.DEAD}),
    S.SCHEDULED: frozenset({S.DELIVERING, S.DEAD}),
    S.DELIVERING: frozenset({S.DELIVERED, S.SCHEDULED, S.DEAD, S.PENDING}),
    S.DELIVERED: frozenset(),
    S.DEAD: frozenset({S.PENDING, S.QUEUED, S.RESOLVED}),
    S.RESOLVED: frozenset({S.PENDING, S.QUEUED}),
    S.QUEUED: frozenset({S.PENDING, S.DEAD}),
}

OPEN = frozenset({S.QUEUED, S.PENDING, S.SCHEDULED, S.DELIVERING})
# Of the deliveries of one queue (one ordering key at one endpoint), at most one is in one of these states.
ACTIVE = frozenset({S.PENDING, S.SCHEDULED, S.DELIVERING})
WAITING = frozenset({S.PENDING, S.SCHEDULED})


def move(before: DeliveryState, after: DeliveryState) -> DeliveryState:
    """Return `after`. Raises `IllegalMove` if `MOVES` does not allow the transition, which means a bug in Hookline."""
    if after not in MOVES[before]:
        raise IllegalMove(f"a delivery cannot go from {before.name.lower()} to {after.name.lower()}")
    return after


class EndpointStatus(IntEnum):
    ACTIVE = 0
    PAUSED = 1  # deliveries are created and held; their time budget restarts on resume
    DISABLED = 2  # no deliveries are created; open deliveries are held, and their time budget keeps running
    DELETED = 3  # open deliveries become dead with the reason `endpoint_deleted`


class Circuit(IntEnum):
    CLOSED = 0
    OPEN = 1  # no request is sent before `probe_at`
    HALF_OPEN = 2  # one probe is in flight; other requests wait until the probe ends, or until `probe_at`
    RECOVERING = 3  # successes double the maximum number of requests in flight until the circuit closes


class Reason(StrEnum):
    """Why a delivery is dead."""

    PERMANENT_FAILURE = "permanent_failure"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    BUDGET_EXHAUSTED = "budget_exhausted"
    ENDPOINT_GONE = "endpoint_gone"
    ENDPOINT_DELETED = "endpoint_deleted"
    BLOCKED_ADDRESS = "blocked_address"
    UNSENDABLE = "unsendable"  # the request could not be built, for example because a secret cannot be decrypted


class ErrorKind(StrEnum):
    """Why one attempt got no HTTP response. A response with an error status is not an `ErrorKind`."""

    REFUSED = "refused"
    RESET = "reset"
    DNS = "dns"
    TIMEOUT = "timeout"
    TLS = "tls"
    MALFORMED = "malformed"
    AMBIGUOUS = "ambiguous"  # a reused connection broke during the request: the receiver may have got it
    BLOCKED = "blocked"
    UNSENDABLE = "unsendable"
    INTERRUPTED = "interrupted"  # Hookline's sender process ended during the request: the receiver may have got it
    NETWORK = "network"  # any other failure of the network


class Health(IntEnum):
    """Whether one outcome counts for or against the health of its endpoint."""

    GOOD = 0
    BAD = 1
    NONE = 2
