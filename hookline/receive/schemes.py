"""How each provider signs its webhooks: the signed content, the signature header, the id and the key.

| scheme     | what is signed                 | signature                                      | id of the delivery           |
|------------|--------------------------------|------------------------------------------------|------------------------------|
| `standard` | `id.timestamp.body`            | `webhook-signature: v1,<base64> v1a,<base64>`  | `webhook-id`                 |
| `svix`     | `id.timestamp.body`            | `svix-signature: v1,<base64> v1a,<base64>`     | `svix-id`                    |
| `stripe`   | `timestamp.body`               | `Stripe-Signature: t=<unix>,v1=<hex>,v1=<hex>` | body's `id`, or `webhook-id` |
| `github`   | `body`                         | `X-Hub-Signature-256: sha256=<hex>`            | `X-GitHub-Delivery`          |
| `shopify`  | `body`                         | `X-Shopify-Hmac-SHA256: <base64>`              | `X-Shopify-Webhook-Id`       |
| `slack`    | `v0:timestamp:body`            | `X-Slack-Signature: v0=<hex>`                  | body's `event_id`            |
| `twilio`   | URL and sorted form, HMAC-SHA1 | `X-Twilio-Signature: <base64>`                 | see `twilio.py`              |
| `hex`      | `timestamp.body`               | `webhook-signature: v1=<hex>,v1=<hex>`         | `webhook-id`                 |

The signature covers the id in `standard` and `svix`. In the other schemes it covers the id only if the body has the id.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from hookline.model.endpoints import Scheme
from hookline.receive import labels
from hookline.receive.labels import Label
from hookline.receive.twilio import label_of_twilio, twilio
from hookline.signing import CheckingKey, base64_key, text_key
from hookline.signing.signature_headers import HMAC, READERS, Request, SignedParts, decode64, signatures, unhex


class Rules(NamedTuple):
    signed_parts: Callable[[Request], SignedParts]
    label: Callable[[Request, SignedParts], Label]  # called after the signature was checked
    key: Callable[[object], CheckingKey]  # makes the key of a secret; raises if the secret is malformed


def shopify(request: Request) -> SignedParts:
    name = "x-shopify-hmac-sha256"
    return SignedParts([request.body], signatures(name, [(HMAC, decode64(request.headers.field(name)))]))


def slack(request: Request) -> SignedParts:
    name, stamp = "x-slack-signature", request.headers.field("x-slack-request-timestamp")
    version, _, text = request.headers.field(name).partition("=")
    found = signatures(name, [(HMAC, unhex(text) if version == "v0" else None)])
    return SignedParts([f"v0:{stamp}:".encode() + request.body], found, stamp)


SCHEMES: dict[str, Rules] = {
    "standard": Rules(READERS[Scheme.STANDARD], labels.of_hookline, base64_key),
    "svix": Rules(READERS[Scheme.SVIX], partial(labels.of_dotted, "svix"), base64_key),
    "stripe": Rules(READERS[Scheme.STRIPE], labels.of_stripe, text_key),
    "github": Rules(READERS[Scheme.GITHUB], partial(labels.both_in, "x-github-delivery", "x-github-event"), text_key),
    "shopify": Rules(shopify, partial(labels.both_in, "x-shopify-webhook-id", "x-shopify-topic"), text_key),
    "slack": Rules(slack, labels.of_slack, text_key),
    "twilio": Rules(twilio, label_of_twilio, partial(text_key, digest="sha1")),
    "hex": Rules(READERS[Scheme.HEX], labels.of_hookline, text_key),
}
