"""The headers of one delivery's HTTP request, with a new signature for each attempt."""

from __future__ import annotations

from datetime import datetime

from hookline.model.deliveries import LeasedDelivery
from hookline.model.endpoints import Endpoint
from hookline.rules.trace_context import PARENT, STATE, header_lines
from hookline.signing import Signer

_JSON = "Content-Type: application/json"  # the sender adds User-Agent and Accept


class Target:
    """The constant headers and the signing keys of one revision of an endpoint."""

    __slots__ = ("_constant", "_own_trace", "_signer", "endpoint")

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        custom = [f"{name}: {value}" for name, value in endpoint.headers.items()]
        names = {name.lower() for name in endpoint.headers}
        self._constant = custom if "content-type" in names else [_JSON, *custom]
        # True if a custom header of the endpoint sets the trace context. Then `headers` adds none.
        self._own_trace = not names.isdisjoint((PARENT, STATE))
        self._signer = Signer(endpoint.scheme, endpoint.secrets)

    def headers(self, job: LeasedDelivery, now: datetime, trace: str | None = None) -> list[str]:
        """Return all header lines of this attempt. `trace` is the trace context of the attempt's span. If it is None,
        the trace context of the message is sent."""
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
