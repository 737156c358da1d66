"""Compatibility with the providers' own, unmodified packages: one side signs and the other verifies. `make sdk`
installs the npm packages."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import standardwebhooks
import stripe
import svix.webhooks

from hookline import clock
from hookline.model.endpoints import Scheme, Secret
from hookline.receive import VerificationError, Verifier
from hookline.signing import Signer, new_secret

SCRIPT = Path(__file__).parents[1] / "sdk" / "node" / "webhooks.mjs"
INSTALLED = Path(sys.prefix) / "sdk" / "node"

BODIES = [
    '{"object": "event", "id": "evt_7", "type": "order.paid", "who": "Žofie 🐎", "nothing": null}',
    '{ "object":"event",\n\t"id":"evt_8", "spaces" : "kept  as they are\\u0000" }\n',
]
MESSAGE_ID = "msg_2y7XqmB0cVtP4nSdLwRk9uEfGhJ"

Headers = dict[str, str]


class Sdk(NamedTuple):
    scheme: Scheme
    sign: Callable[[str, int, str], Headers]  # secret, timestamp, body
    accepts: Callable[[str, Headers, str], bool]


# ── PyPI ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _dotted(package: Any, prefix: str) -> Callable[[str, int, str], Headers]:
    def sign(secret: str, stamp: int, body: str) -> Headers:
        signature = package.Webhook(secret).sign(MESSAGE_ID, datetime.fromtimestamp(stamp, UTC), body)
        return {f"{prefix}-id": MESSAGE_ID, f"{prefix}-timestamp": str(stamp), f"{prefix}-signature": signature}

    return sign


def _dotted_accepts(package: Any) -> Callable[[str, Headers, str], bool]:
    def accepts(secret: str, headers: Headers, body: str) -> bool:
        try:
            package.Webhook(secret).verify(body.encode(), headers)
        except package.WebhookVerificationError:
            return False
        return True

    return accepts


def _stripe_sign(secret: str, stamp: int, body: str) -> Headers:
    return {"Stripe-Signature": stripe.WebhookSignature.generate_signature_header(body, secret, stamp)}


def _stripe_accepts(secret: str, headers: Headers, body: str) -> bool:
    try:
        stripe.Webhook.construct_event(body.encode(), headers["Stripe-Signature"], secret)
    except stripe.SignatureVerificationError:
        return False
    return True


# ── npm ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _node(package: str, verb: str, **given: Any) -> dict[str, Any]:
    interpreter = INSTALLED / "node"
    if not interpreter.exists():
        pytest.fail(f"{interpreter} does not exist: run `make sdk` (it needs make, and the packages' registries)")
    jobs = msgspec.json.encode([given | {"package": package, "verb": verb}])
    done = subprocess.run(
        [interpreter, SCRIPT],
        input=jobs,
        env=os.environ | {"SDK_PACKAGES": str(INSTALLED)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    (outcome,) = msgspec.json.decode(done.stdout, type=list[dict[str, Any]])
    return outcome


def _npm(package: str, scheme: Scheme, refusal: str) -> Sdk:
    def sign(secret: str, stamp: int, body: str) -> Headers:
        outcome = _node(package, "sign", secret=secret, id=MESSAGE_ID, timestamp=stamp, body=body)
        assert "result" in outcome, outcome
        headers: Headers = outcome["result"]
        return headers

    def accepts(secret: str, headers: Headers, body: str) -> bool:
        outcome = _node(package, "verify", secret=secret, headers=headers, body=body)
        assert outcome.get("error", refusal).startswith(refusal), outcome
        return "result" in outcome

    return Sdk(scheme, sign, accepts)


SDKS = {
    "pypi standardwebhooks": Sdk(
        Scheme.STANDARD, _dotted(standardwebhooks, "webhook"), _dotted_accepts(standardwebhooks)
    ),
    "pypi svix": Sdk(Scheme.SVIX, _dotted(svix.webhooks, "svix"), _dotted_accepts(svix.webhooks)),
    "pypi stripe": Sdk(Scheme.STRIPE, _stripe_sign, _stripe_accepts),
    "npm standardwebhooks": _npm("standardwebhooks", Scheme.STANDARD, "No matching signature found"),
    "npm svix": _npm("svix", Scheme.SVIX, "No matching signature found"),
    "npm stripe": _npm("stripe", Scheme.STRIPE, "No signatures found matching"),
    "npm @octokit/webhooks-methods": _npm("@octokit/webhooks-methods", Scheme.GITHUB, "no match"),
}
every_sdk = pytest.mark.parametrize("name", SDKS)


@every_sdk
@pytest.mark.parametrize("body", BODIES, ids=["compact", "spaced"])
def test_webhooks_signed_by_the_providers_package_are_verified(name: str, body: str) -> None:
    sdk, secret, now = SDKS[name], new_secret(), clock.wall()
    headers = sdk.sign(secret, int(now.timestamp()), body)
    webhook = Verifier([new_secret(), secret], sdk.scheme).verify(headers, body.encode(), now=now)
    assert webhook.body == body.encode()
    for held, changed in ((new_secret(), body), (secret, body.replace("evt", "evl"))):
        with pytest.raises(VerificationError):
            Verifier(held, sdk.scheme).verify(headers, changed.encode(), now=now)


@every_sdk
@pytest.mark.parametrize("body", BODIES, ids=["compact", "spaced"])
def test_the_providers_package_verifies_our_signatures(name: str, body: str) -> None:
    sdk, secret, now = SDKS[name], new_secret(), clock.wall()
    signer = Signer(sdk.scheme, [Secret(key=secret), Secret(key=new_secret())])
    lines = signer.headers(MESSAGE_ID, int(now.timestamp()), body.encode(), now)
    headers = dict(line.split(": ", 1) for line in lines)
    assert sdk.accepts(secret, headers, body)
    assert not sdk.accepts(new_secret(), headers, body)
    assert not sdk.accepts(secret, headers, body.replace("evt", "evl"))
