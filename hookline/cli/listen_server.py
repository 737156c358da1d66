"""The receiver of `hookline listen`. It verifies webhooks, and sends a response that the user can change."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import datetime

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from starlette.types import Receive, Scope, Send

from hookline import signing
from hookline.errors import InvalidInput, SignatureError
from hookline.model.endpoints import Scheme, Secret

CONTROL = "/_hookline/behaviour"
MAX_BODY = 64 * 1024 * 1024  # bytes; HOOKLINE_MAX_PAYLOAD cannot be larger
MAX_SEEN = 10_000


class Behaviour(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How the receiver responds."""

    status: int = 200
    delay: float = 0.0
    fail_rate: float = 0.0  # share of the requests that get status 500, from 0 to 1

    def checked(self) -> Behaviour:
        if not 200 <= self.status <= 599:
            raise InvalidInput("status takes a number from 200 to 599")
        if not 0 <= self.delay <= 3600:
            raise InvalidInput("delay takes seconds from 0 to 3600")
        if not 0 <= self.fail_rate <= 1:
            raise InvalidInput("the failure rate is a number from 0 to 1")
        return self


class Arrival(Struct, frozen=True, kw_only=True, rename="camel"):
    """One received request, as `listen` prints it."""

    at: datetime
    webhook_id: str | None
    event_type: str | None
    attempt: str | None
    verified: bool | None  # None if there is no secret to verify with
    problem: str | None
    again: bool  # a request with the same webhook-id came before
    status: int  # the status of the response
    method: str
    path: str
    body: str


def command(behaviour: Behaviour, line: str) -> Behaviour:
    """Apply a typed command: `status 503`, `delay 2`, `fail 0.5` or `ok`."""
    word, _, value = line.strip().partition(" ")
    try:
        match word:
            case "ok":
                return Behaviour()
            case "status":
                return replace(behaviour, status=int(value)).checked()
            case "delay":
                return replace(behaviour, delay=float(value)).checked()
            case "fail":
                return replace(behaviour, fail_rate=float(value)).checked()
    except ValueError:
        raise InvalidInput(f"{word} takes a number, not {value!r}") from None
    raise InvalidInput("type status CODE, delay SECONDS, fail RATE or ok")


class Receiver(Struct, kw_only=True):
    """An ASGI application. It calls `arrived` for each webhook before it responds."""

    arrived: Callable[[Arrival], None]
    behaviour: Behaviour
    scheme: Scheme
    secrets: tuple[Secret, ...]
    wall: Callable[[], datetime]
    chance: random.Random
    seen: dict[str, None] = {}  # the webhook-ids of the last requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        body = await _read(receive)
        if body is None:
            return
        if len(body) > MAX_BODY:
            await _respond(send, 413, b"")
        elif scope["path"] == CONTROL and _is_from_browser(scope):
            await _respond(send, 403, msgspec.json.encode({"detail": "not for browsers: any page could send this"}))
        elif scope["path"] == CONTROL:
            await self._control(scope["method"], body, send)
        else:
            await self._webhook(scope, body, send)

    async def _control(self, method: str, body: bytes, send: Send) -> None:
        """GET shows the behaviour, POST sets it."""
        if method != "GET":
            try:
                self.behaviour = msgspec.json.decode(body, type=Behaviour).checked()
            except (msgspec.MsgspecError, InvalidInput, UnicodeDecodeError, RecursionError) as error:
                await _respond(send, 422, msgspec.json.encode({"detail": str(error)}))
                return
        await _respond(send, 200, msgspec.json.encode(self.behaviour))

    async def _webhook(self, scope: Scope, body: bytes, send: Send) -> None:
        now = self.behaviour
        status = 500 if self.chance.random() < now.fail_rate else now.status
        self.arrived(self._arrival(scope, body, status))
        if now.delay:
            await asyncio.sleep(now.delay)  # the delay that the user has configured
        await _respond(send, status, b"")

    def _arrival(self, scope: Scope, body: bytes, status: int) -> Arrival:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        webhook_id = headers.get("webhook-id") or headers.get("svix-id")
        verified, problem = self._verify(headers, body)
        return Arrival(
            at=self.wall(),
            webhook_id=webhook_id,
            event_type=headers.get("webhook-event-type"),
            attempt=headers.get("webhook-attempt"),
            verified=verified,
            problem=problem,
            again=self._repeats(webhook_id),
            status=status,
            method=scope["method"],
            path=scope["path"],
            body=body.decode(errors="replace"),
        )

    def _verify(self, headers: dict[str, str], body: bytes) -> tuple[bool | None, str | None]:
        if not self.secrets:
            return None, None
        try:
            signing.verify(self.scheme, self.secrets, headers, body, self.wall())
        except SignatureError as error:
            return False, str(error)
        return True, None

    def _repeats(self, webhook_id: str | None) -> bool:
        if webhook_id is None:
            return False
        again = webhook_id in self.seen
        self.seen[webhook_id] = None
        if len(self.seen) > MAX_SEEN:
            del self.seen[next(iter(self.seen))]
        return again


def _is_from_browser(scope: Scope) -> bool:
    return any(name.lower() in (b"origin", b"sec-fetch-site") for name, _ in scope["headers"])


async def _read(receive: Receive) -> bytes | None:
    """Read the body, but stop after MAX_BODY. Return None if the sender disconnects."""
    body, more = bytearray(), True
    while more and len(body) <= MAX_BODY:
        event = await receive()
        if event["type"] == "http.disconnect":
            return None
        body += event.get("body", b"")
        more = event.get("more_body", False)
    return bytes(body)


async def _respond(send: Send, status: int, body: bytes) -> None:
    kind = b"application/json" if body else b"text/plain"
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
