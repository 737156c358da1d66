"""Deliver published events to an endpoint, with the same headers, signatures and verdicts as Hookline itself."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Protocol

from msgspec import Struct

from hookline import __version__, clock, ids
from hookline.model import attempts, deliveries, endpoints, policy, verdicts
from hookline.rules.judge import judge
from hookline.rules.request import Target
from hookline.signing import check_secret
from hookline.testing.events import Published

USER_AGENT = f"Hookline/{__version__}"


class Request(Struct, frozen=True, kw_only=True):
    headers: dict[str, str]
    body: bytes


class Answer(Struct, frozen=True, kw_only=True):
    status: int
    headers: dict[str, str] = {}  # names in lower case
    body: bytes = b""


class Attempt(Struct, frozen=True, kw_only=True):
    """One HTTP request for one event."""

    event: Published
    number: int
    request: Request
    answer: Answer
    verdict: verdicts.Verdict  # what Hookline would do next: Delivered, Retry or Dead

    @property
    def delivered(self) -> bool:
        return isinstance(self.verdict, verdicts.Delivered)

    @property
    def is_last(self) -> bool:
        """True if Hookline would not send the event again: it is delivered, or dead."""
        return not isinstance(self.verdict, verdicts.Retry)


class Endpoint(Protocol):
    """The receiver of the requests: a `FakeEndpoint`, `AppEndpoint`, `UrlEndpoint`, or a class of your own."""

    secret: str
    scheme: endpoints.Scheme

    def send(self, request: Request) -> Answer: ...
    async def send_async(self, request: Request) -> Answer: ...


class BaseEndpoint:
    """The secret and the scheme that the receiver verifies with."""

    def __init__(self, secret: str, scheme: endpoints.Scheme | str) -> None:
        self.scheme = endpoints.Scheme(scheme)
        check_secret(secret, self.scheme)
        self.secret = secret


def deliver(events: Iterable[Published], endpoint: Endpoint, *, attempt: int = 1) -> list[Attempt]:
    """Send the events one after the other, each once. Their `deliver_at` is ignored.

    `attempt` is the attempt number in the request's headers. As with Hookline, the `webhook-id` of an event never
    changes.
    """
    made = []
    for one in events:
        request = signed(one, endpoint, attempt)
        made.append(_judged(one, attempt, request, endpoint.send(request)))
    return made


async def deliver_async(events: Iterable[Published], endpoint: Endpoint, *, attempt: int = 1) -> list[Attempt]:
    """Do the same as `deliver` in async code. An ASGI application runs in this event loop."""
    made = []
    for one in events:
        request = signed(one, endpoint, attempt)
        made.append(_judged(one, attempt, request, await endpoint.send_async(request)))
    return made


def signed(event: Published, endpoint: Endpoint, attempt: int = 1, *, now: datetime | None = None) -> Request:
    """Return the request that Hookline would send for this event."""
    at = clock.wall() if now is None else now
    lines = Target(_endpoint(endpoint, at)).headers(_job(event, attempt, at), at)
    headers = dict(line.split(": ", 1) for line in lines)
    return Request(headers={"User-Agent": USER_AGENT, "Accept": "*/*", **headers}, body=event.body)


def message_id(event: Published) -> str:
    """Return the id of the event's message: always the same for one event, and different for other events."""
    return ids.mint(ids.MESSAGE, event.created_at, random.Random(f"{event.app} {event.event_id}"))  # noqa: S311


def _judged(event: Published, attempt: int, request: Request, answer: Answer) -> Attempt:
    now = clock.wall()
    sent = attempts.Sent(status=answer.status, headers=answer.headers, body=answer.body, started_at=now)
    job = _job(event, attempt, now)
    judgement = judge(sent, job, policy.RetryPolicy(), now=now, chance=clock.chance)
    return Attempt(event=event, number=attempt, request=request, answer=answer, verdict=judgement.verdict)


def _endpoint(endpoint: Endpoint, now: datetime) -> endpoints.Endpoint:
    return endpoints.Endpoint(
        no=0,
        id="",
        app_no=0,
        app_id="",
        org_id="",
        url="",
        created_at=now,
        updated_at=now,
        scheme=endpoint.scheme,
        secrets=(endpoints.Secret(key=endpoint.secret),),
    )


def _job(event: Published, attempt: int, now: datetime) -> deliveries.LeasedDelivery:
    later = now + timedelta(days=1)
    return deliveries.unleased(
        now,
        message_id=message_id(event),
        event_type=event.event_type,
        payload=event.body,
        attempts=attempt - 1,
        sent=attempt - 1,
        accepted_at=event.created_at,
        expires_at=later,
        lease_until=later,
        trace=event.trace,
    )
