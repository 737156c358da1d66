"""The request of an attempt, as people see it: the very lines that a worker makes, without what lets somebody in. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from hookline import signing
from hookline.engine.sender.curl_handle import USER_AGENT
from hookline.errors import SignatureError
from hookline.model import Endpoint, LeasedDelivery, Message, Secret
from hookline.rules.guard import is_sensitive
from hookline.rules.request import Target

HIDDEN = "(not shown)"
ANEW = "(made anew for each attempt)"
SIGNATURES = frozenset({"webhook-signature", "svix-signature", "stripe-signature", "x-hub-signature-256"})

_OURS = (f"User-Agent: {USER_AGENT}", "Accept: */*")
_NOBODYS = (Secret(key=signing.HMAC_PREFIX + b64encode(bytes(32)).decode()),)


class Request(Struct, frozen=True, kw_only=True):
    url: str
    lines: list[str]  # of the headers
    signed: bool


def request(endpoint: Endpoint, message: Message, *, number: int, at: datetime, signed: bool = False) -> Request:
    """Of attempt `number`, at that instant. Only a signed one comes near the endpoint's secrets.

    Custom headers whose names say that they let somebody in keep their names alone.
    """
    if signed and message.payload is not None:
        try:
            return _made(endpoint, message, number, at, signed=True)
        except SignatureError:
            pass  # its secrets cannot be opened here
    return _made(endpoint, message, number, at, signed=False)


def _made(endpoint: Endpoint, message: Message, number: int, at: datetime, *, signed: bool) -> Request:
    shown = replace(
        endpoint,
        headers={name: HIDDEN if is_sensitive(name) else value for name, value in endpoint.headers.items()},
        secrets=endpoint.secrets if signed else _NOBODYS,
    )
    found = [*_OURS, *Target(shown).headers(_job(endpoint, message, number), at)]
    return Request(url=endpoint.url, lines=found if signed else list(_unsigned(found)), signed=signed)


def _unsigned(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        name = line.partition(":")[0]
        yield f"{name}: {ANEW}" if name.lower() in SIGNATURES else line


def _job(endpoint: Endpoint, message: Message, number: int) -> LeasedDelivery:
    """What a worker would have leased; nothing but its headers is made of it."""
    at = message.created_at
    return LeasedDelivery(
        delivery_id=0,
        claim=0,
        message_id=message.id,
        app_no=message.app_no,
        endpoint_no=endpoint.no,
        revision=endpoint.revision,
        event_type=message.event_type,
        payload=message.payload or b"",
        attempts=0,
        sent=number - 1,
        accepted_at=at,
        expires_at=at,
        claimed_at=at,
        lease_until=at,
        due_at=at,
        epoch=0,
        counted=False,
        probe=False,
        trigger=0,
        trace=message.trace,
    )
