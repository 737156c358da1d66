"""Shows the request of an attempt with the same headers that a worker sends, but without credentials."""

from __future__ import annotations

from base64 import b64encode
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from hookline import signing
from hookline.engine.sender.curl_handle import USER_AGENT
from hookline.errors import SignatureError
from hookline.model.deliveries import LeasedDelivery, unleased
from hookline.model.endpoints import Endpoint, Secret
from hookline.model.messages import Message
from hookline.rules.redaction import is_sensitive
from hookline.rules.request import Target

HIDDEN = "(not shown)"
ANEW = "(new for each attempt)"
SIGNATURES = frozenset({"webhook-signature", "svix-signature", "stripe-signature", "x-hub-signature-256"})

_COMMON = (f"User-Agent: {USER_AGENT}", "Accept: */*")
_DUMMY_SECRETS = (Secret(key=signing.HMAC_PREFIX + b64encode(bytes(32)).decode()),)


class Request(Struct, frozen=True, kw_only=True):
    url: str
    lines: list[str]  # the header lines
    signed: bool


def request(endpoint: Endpoint, message: Message, *, number: int, at: datetime, signed: bool = False) -> Request:
    """Return the request of attempt `number` at the time `at`.

    The endpoint's secrets are used only if `signed` is set. The values of custom headers that look like credentials
    are hidden.
    """
    if signed and message.payload is not None:
        try:
            return _made(endpoint, message, number, at, signed=True)
        except SignatureError:
            pass  # this process cannot decrypt the secrets, so the request is shown without a signature
    return _made(endpoint, message, number, at, signed=False)


def _made(endpoint: Endpoint, message: Message, number: int, at: datetime, *, signed: bool) -> Request:
    shown = replace(
        endpoint,
        headers={name: HIDDEN if is_sensitive(name) else value for name, value in endpoint.headers.items()},
        secrets=endpoint.secrets if signed else _DUMMY_SECRETS,
    )
    found = [*_COMMON, *Target(shown).headers(_delivery(message, number), at)]
    return Request(url=endpoint.url, lines=found if signed else [_unsigned(line) for line in found], signed=signed)


def _unsigned(line: str) -> str:
    name = line.partition(":")[0]
    return f"{name}: {ANEW}" if name.lower() in SIGNATURES else line


def _delivery(message: Message, number: int) -> LeasedDelivery:
    """Return the delivery as a worker would lease it. It is used only to make the headers of the request."""
    return unleased(
        message.created_at,
        message_id=message.id,
        event_type=message.event_type,
        payload=message.payload or b"",
        attempts=0,
        sent=number - 1,
        trace=message.trace,
    )
