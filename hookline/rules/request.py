"""One delivery as an HTTP request: what its headers say, and the signature, made anew for each attempt."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from hookline.model import Endpoint, LeasedDelivery
from hookline.rules.trace_context import PARENT, STATE, header_lines
from hookline.signing import Signer

if TYPE_CHECKING:
    pass  # `hookline.testing` makes requests without a store

_JSON = "Content-Type: application/json"  # the sender itself says who we are, and that we accept anything


class Target:
    """An endpoint, prepared once per revision: its constant headers and its keys."""

    __slots__ = ("_constant", "_own_trace", "_signer", "endpoint")

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        custom = [f"{name}: {value}" for name, value in endpoint.headers.items()]
        names = {name.lower() for name in endpoint.headers}
        self._constant = custom if "content-type" in names else [_JSON, *custom]
        self._own_trace = not names.isdisjoint((PARENT, STATE))  # set for the endpoint: nothing is added to it
        self._signer = Signer(endpoint.scheme, endpoint.secrets)

    def headers(self, job: LeasedDelivery, now: datetime, trace: str | None = None) -> list[str]:
        """All header lines of this attempt. `trace` is its own, where it has a span; else the message's goes on."""
        trace = trace or job.trace
        traced = [] if trace is None or self._own_trace else header_lines(trace)
        return [
            *self._constant,
            *self._signer.headers(job.message_id, int(now.timestamp()), job.payload, now),
            f"webhook-attempt: {job.sent + 1}",
            f"webhook-event-type: {job.event_type}",
            f"webhook-created-at: {job.accepted_at.isoformat(timespec='milliseconds')}",
            *traced,
        ]
