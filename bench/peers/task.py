"""One measurement: what is sent, and what has arrived."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from msgspec import Struct

from bench.witness import Arrival, Witness
from hookline.clock import monotonic

PART = "hook"  # first segment of the path of every endpoint
LOOK = 0.05  # seconds between two looks at the number of arrivals


class Task(Struct, frozen=True, kw_only=True):
    messages: int
    body: bytes
    limit: float  # maximum seconds to wait for arrivals; what has not arrived then is not counted
    endpoints: int
    concurrency: int
    rate: int = 0  # messages per second of a flow
    warm: float = 0.0  # first seconds of a flow, which are not measured


class Arrivals(Struct, frozen=True, kw_only=True):
    first: dict[str, float]  # time of the first arrival, by message id or digest of the body
    twice: int  # requests for a message that had arrived before


def payload(size: int) -> bytes:
    """Return a JSON document of this many bytes."""
    document = {"type": "order.paid", "data": {"order": "o_8271", "amount": 4200, "note": ""}}
    document["data"] |= {"note": "x" * (size - len(json.dumps(document)))}  # type: ignore[operator]
    return json.dumps(document).encode()


def by_id(arrival: Arrival) -> str:
    return arrival.message_id


def by_body(arrival: Arrival) -> str:
    return arrival.digest


def measured(called: dict[str, float], warm: float) -> dict[str, float]:
    """Return the calls without those of the first seconds."""
    start = min(called.values())
    return {key: at for key, at in called.items() if at >= start + warm}


def awaited(witness: Witness, messages: int, limit: float, key: Callable[[Arrival], str] = by_id) -> Arrivals:
    """Wait until this many requests have arrived, or the limit has passed."""
    deadline = monotonic() + limit
    while witness.count(PART) < messages and monotonic() < deadline:
        time.sleep(LOOK)  # another process receives the requests, so there is no event to wait for
    first: dict[str, float] = {}
    arrivals = witness.account().arrivals
    for arrival in arrivals:
        first.setdefault(key(arrival), arrival.at)
    return Arrivals(first=first, twice=len(arrivals) - len(first))
