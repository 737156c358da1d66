"""Offers: for which endpoints a worker reserves slots before a transaction that accepts messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from hookline.model.endpoints import Endpoint, Ordering
from hookline.model.messages import NewMessage
from hookline.model.states import EndpointStatus
from hookline.rules.claim.budgets import LARGE

# Maximum cached endpoints of an application that has offers. A message of a larger application may have many deliveries,
# and a claim leases many deliveries at a lower cost.
MAX_ENDPOINTS = 64


def wanted(
    messages: Sequence[NewMessage], endpoints_of: Callable[[int, int], list[Endpoint]]
) -> dict[int, Counter[int]]:
    """Return the number of deliveries that these messages will probably have, by application and endpoint.

    `endpoints_of` returns the endpoints of an application that the worker has cached, or none if there are more than its
    second argument. They may have changed since then, so the transaction decides which of them get a message.
    """
    found: dict[int, Counter[int]] = {}
    cached: dict[int, list[Endpoint]] = {}
    for message in messages:
        app_no = message.app_no
        if app_no not in cached:
            cached[app_no] = endpoints_of(app_no, MAX_ENDPOINTS)
        if cached[app_no] and len(message.payload) <= LARGE and message.deliver_at is None:
            takers = [endpoint.no for endpoint in cached[app_no] if _takes(endpoint, message)]
            found.setdefault(app_no, Counter()).update(takers)
    return found


def _takes(endpoint: Endpoint, message: NewMessage) -> bool:
    """Return whether the endpoint gets the message and may be sent to without a limit or an order."""
    limited = endpoint.throttle_rate is not None or endpoint.concurrency is not None
    ordered = endpoint.ordering == Ordering.FIFO or (
        endpoint.ordering == Ordering.KEY and message.ordering_key is not None
    )
    if limited or ordered or endpoint.status != EndpointStatus.ACTIVE:
        return False
    if endpoint.event_types is not None and message.event_type not in endpoint.event_types:
        return False
    return endpoint.channels is None or not set(endpoint.channels).isdisjoint(message.channels or ())
