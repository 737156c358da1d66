"""For your own tests: read the events that your code published, and deliver them, without a running Hookline.

    from hookline.testing import FakeEndpoint, deliver, published

    pay(session, order)                            # your code, in a transaction that the test will roll back
    [event] = published(session, event_type="order.paid")
    assert event.payload == {"order": 7, "total": "19.90"}

    with FakeEndpoint() as endpoint:               # a real HTTP server on this machine
        deliver([event], endpoint)
        assert endpoint.requests[0].json() == event.payload

pytest has the fixtures `hookline_outbox` and `hookline_endpoint`, Django `hookline.testing.django.OutboxTestMixin`.
"""

from hookline.testing.application import AppEndpoint
from hookline.testing.delivery import Answer, Attempt, Endpoint, Request, deliver, deliver_async
from hookline.testing.endpoint import FakeEndpoint, Received, UrlEndpoint
from hookline.testing.events import Published, clear, clear_async, matching, published, published_async
from hookline.testing.outbox import Outbox

__all__ = [
    "Answer",
    "AppEndpoint",
    "Attempt",
    "Endpoint",
    "FakeEndpoint",
    "Outbox",
    "Published",
    "Received",
    "Request",
    "UrlEndpoint",
    "clear",
    "clear_async",
    "deliver",
    "deliver_async",
    "matching",
    "published",
    "published_async",
]
