"""Senders for each provider, written after the provider's documentation. They use plain `hmac` and share no code with
the tested package."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import parse_qsl

NOW = datetime(2026, 3, 14, 9, 26, 53, 589_793, tzinfo=UTC)
STAMP = int(NOW.timestamp())

WHSEC = "whsec_" + base64.b64encode(b"k" * 24).decode()
WHSEC_OTHER = "whsec_" + base64.b64encode(bytes(range(40))).decode()
TEXT = "It's a Secret to Everybody"
TEXT_OTHER = "8f742231b10e8888abcd99yyyzzz85a5"


class Sent(NamedTuple):
    headers: dict[str, str]
    body: bytes
    url: str | None = None


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _dotted(prefix: str, secret: str, body: bytes, stamp: str) -> Sent:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    content = b"%b.%b.%b" % (b"msg_2y7Xqm", stamp.encode(), body)
    signature = "v1," + _base64(hmac.digest(key, content, "sha256"))
    headers = {f"{prefix}-id": "msg_2y7Xqm", f"{prefix}-timestamp": stamp, f"{prefix}-signature": signature}
    return Sent(headers | {"webhook-event-type": "order.paid"}, body)


def standard(secret: str, body: bytes, stamp: str = str(STAMP)) -> Sent:
    return _dotted("webhook", secret, body, stamp)


def svix(secret: str, body: bytes, stamp: str = str(STAMP)) -> Sent:
    return _dotted("svix", secret, body, stamp)


def _timed(secret: str, body: bytes, stamp: str) -> str:
    return hmac.digest(secret.encode(), b"%b.%b" % (stamp.encode(), body), "sha256").hex()


def stripe(secret: str, body: bytes, stamp: str = str(STAMP)) -> Sent:
    return Sent({"Stripe-Signature": f"t={stamp},v1={_timed(secret, body, stamp)},v0=6ffbb59b2300aae63f27240606"}, body)


def hexadecimal(secret: str, body: bytes, stamp: str = str(STAMP)) -> Sent:
    headers = {"Webhook-Id": "wh_81c2", "Webhook-Timestamp": stamp, "Webhook-Event-Type": "order.paid"}
    return Sent(headers | {"Webhook-Signature": f"v1={_timed(secret, body, stamp)}"}, body)


def github(secret: str, body: bytes, _stamp: str = "") -> Sent:
    headers = {"X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958", "X-GitHub-Event": "push"}
    return Sent(headers | {"X-Hub-Signature-256": "sha256=" + hmac.digest(secret.encode(), body, "sha256").hex()}, body)


def shopify(secret: str, body: bytes, _stamp: str = "") -> Sent:
    headers = {"X-Shopify-Webhook-Id": "b54557e4-bdd9-4b37-8a5f-bf7d70bcd043", "X-Shopify-Topic": "orders/create"}
    return Sent(headers | {"X-Shopify-Hmac-SHA256": _base64(hmac.digest(secret.encode(), body, "sha256"))}, body)


def slack(secret: str, body: bytes, stamp: str = str(STAMP)) -> Sent:
    content = b"v0:%b:%b" % (stamp.encode(), body)
    signature = "v0=" + hmac.digest(secret.encode(), content, "sha256").hex()
    return Sent({"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": signature}, body)


def twilio_form(secret: str, body: bytes, url: str = "https://shop.example/sms?lang=en") -> Sent:
    fields: dict[str, list[str]] = {}
    for name, value in parse_qsl(body.decode(), keep_blank_values=True):
        fields.setdefault(name, []).append(value)
    content = url + "".join(name + value for name in sorted(fields) for value in sorted(set(fields[name])))
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=UTF-8"}
    return Sent(
        headers | {"X-Twilio-Signature": _base64(hmac.digest(secret.encode(), content.encode(), "sha1"))}, body, url
    )


def twilio(secret: str, body: bytes, _stamp: str = "") -> Sent:
    """Sign any body as JSON. Twilio puts the hash of the body into the URL."""
    url = f"https://shop.example/events?bodySHA256={hashlib.sha256(body).hexdigest()}&lang=en"
    signature = _base64(hmac.digest(secret.encode(), url.encode(), "sha1"))
    headers = {
        "X-Twilio-Signature": signature,
        "I-Twilio-Idempotency-Token": "4f1b0c9d",
        "Content-Type": "application/json",
    }
    return Sent(headers, body, url)


SENDERS: dict[str, Callable[..., Sent]] = {
    "standard": standard,
    "svix": svix,
    "stripe": stripe,
    "github": github,
    "shopify": shopify,
    "slack": slack,
    "twilio": twilio,
    "hex": hexadecimal,
}
TIMED = ("standard", "svix", "stripe", "slack", "hex")


def secrets_of(scheme: str) -> tuple[str, str]:
    """Return two different secrets for the scheme."""
    return (WHSEC, WHSEC_OTHER) if scheme in ("standard", "svix") else (TEXT, TEXT_OTHER)
