"""`verify`: published test vectors, a sender for each scheme, the resulting webhook, and requests that must be refused."""

from __future__ import annotations

import base64
import hmac
import json
import pickle
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import clock
from hookline.model.endpoints import Scheme, Secret
from hookline.receive import InvalidInput, VerificationCode, VerificationError, Verifier, Webhook
from hookline.receive.schemes import SCHEMES
from hookline.signing import Signer, new_keypair, new_secret
from tests.receive.senders import NOW, SENDERS, STAMP, TEXT, TIMED, WHSEC, Sent, secrets_of, standard, twilio_form

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent.parent / "data" / "signing.json").read_text())
BODY = '{"paid": 1700, "who": "Žofie"}'.encode()
PRIVATE, PUBLIC = VECTORS["standard_webhooks_v1a"][0]["private"], VECTORS["standard_webhooks_v1a"][0]["public"]

every_scheme = pytest.mark.parametrize("scheme", SENDERS)
timed_scheme = pytest.mark.parametrize("scheme", TIMED)


def sent(scheme: str, body: bytes = BODY, **more: Any) -> Sent:
    return SENDERS[scheme](secrets_of(scheme)[0], body, **more)


def verified(scheme: str, request: Sent, *, now: datetime = NOW, tolerance: float = 300.0) -> Webhook:
    verifier = Verifier(secrets_of(scheme)[0], scheme, tolerance)
    return verifier.verify(request.headers, request.body, url=request.url, now=now)


def refused(scheme: str, request: Sent, **more: Any) -> VerificationCode:
    with pytest.raises(VerificationError) as caught:
        verified(scheme, request, **more)
    return caught.value.code


# ── vectors ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("vector", VECTORS["standard_webhooks_v1"] + VECTORS["standard_webhooks_v1a"])
@pytest.mark.parametrize(("scheme", "prefix"), [("standard", "webhook"), ("svix", "svix")])
def test_standard_webhooks_vectors(scheme: str, prefix: str, vector: dict[str, Any]) -> None:
    values = (vector["id"], str(vector["timestamp"]), vector["signature"])
    headers = dict(zip([f"{prefix}-id", f"{prefix}-timestamp", f"{prefix}-signature"], values, strict=True))
    at = datetime.fromtimestamp(vector["timestamp"], UTC)
    key = vector.get("secret") or vector["public"]
    webhook = Verifier(key, scheme).verify(headers, vector["body"].encode(), now=at)
    assert (webhook.id, webhook.timestamp, webhook.body) == (vector["id"], at, vector["body"].encode())


@pytest.mark.parametrize(
    ("scheme", "header"),
    [
        ("github", "X-Hub-Signature-256"),
        ("shopify", "X-Shopify-Hmac-Sha256"),
        ("slack", "X-Slack-Signature"),
        ("twilio", "X-Twilio-Signature"),
    ],
)
def test_the_vectors_of_other_providers(scheme: str, header: str) -> None:
    for vector in VECTORS[scheme]:
        stamp = vector.get("timestamp", STAMP)
        headers = {header: vector["signature"], "X-Slack-Request-Timestamp": str(stamp)}
        verify = partial(Verifier(vector["secret"], scheme).verify, headers, url=vector.get("url"))
        at = datetime.fromtimestamp(stamp, UTC)
        assert verify(vector["body"].encode(), now=at).body == vector["body"].encode()
        with pytest.raises(VerificationError):
            verify(vector["body"].encode() + b"x", now=at)


# ── the resulting webhook ─────────────────────────────────────────────────────────────────────────────────────────


@every_scheme
def test_a_valid_request_is_returned_unchanged(scheme: str) -> None:
    request = sent(scheme)
    webhook = verified(scheme, request)
    assert webhook.body == BODY
    assert webhook.json() == {"paid": 1700, "who": "Žofie"}
    assert webhook.timestamp == (NOW.replace(microsecond=0) if scheme in TIMED else None)
    assert {name.lower(): value for name, value in request.headers.items()} == dict(webhook.headers)


def test_all_schemes_have_a_sender_here() -> None:
    assert SENDERS.keys() == SCHEMES.keys()


@pytest.mark.parametrize(
    ("scheme", "label"),
    {
        "standard": ("msg_2y7Xqm", "order.paid"),
        "svix": ("msg_2y7Xqm", "order.paid"),
        "hex": ("wh_81c2", "order.paid"),
        "github": ("72d3162e-cc78-11e3-81ab-4c9367dc0958", "push"),
        "shopify": ("b54557e4-bdd9-4b37-8a5f-bf7d70bcd043", "orders/create"),
        "twilio": ("4f1b0c9d", None),
        "stripe": (None, None),
        "slack": (None, None),
    }.items(),
)
def test_id_and_event_type_from_the_headers(scheme: str, label: tuple[str | None, str | None]) -> None:
    webhook = verified(scheme, sent(scheme))
    assert (webhook.id, webhook.event_type) == label


@pytest.mark.parametrize(
    ("scheme", "body", "label"),
    [
        ("stripe", {"object": "event", "id": "evt_1", "type": "charge.paid"}, ("evt_1", "charge.paid")),
        ("stripe", {"object": "v2.core.event", "id": "evt_2", "type": "v1.x"}, ("evt_2", "v1.x")),
        # The body is no event of Stripe, so its id is that of an order.
        ("stripe", {"object": "order", "id": "order_7"}, (None, None)),
        ("stripe", {"object": "event", "id": 7, "type": 8}, (None, None)),
        ("slack", {"type": "event_callback", "event_id": "Ev08", "event": {"type": "app_mention"}}, ("Ev08", "app_mention")),
        ("slack", {"type": "url_verification", "challenge": "3eZb"}, (None, "url_verification")),
        ("slack", {"type": ["x"], "event_id": {"a": 1}, "event": "x"}, (None, None)),
        ("slack", [], (None, None)),
        ("slack", {"type": "", "event_id": "E" * 257}, (None, None)),
        ("slack", {"type": "a\nb", "event_id": "E" * 256}, ("E" * 256, None)),
    ],
)  # fmt: skip
def test_id_and_event_type_from_the_body(scheme: str, body: Any, label: tuple[str | None, str | None]) -> None:
    webhook = verified(scheme, sent(scheme, json.dumps(body).encode()))
    assert (webhook.id, webhook.event_type) == label


def test_standard_webhooks_without_a_type_header_uses_the_type_in_the_body() -> None:
    request = sent("standard", b'{"type": "user.created", "data": {}}')
    assert verified("standard", request).event_type == "order.paid"
    del request.headers["webhook-event-type"]
    assert verified("standard", request).event_type == "user.created"


def test_webhooks_that_hookline_signs_like_stripe_or_github_have_an_id_and_a_type() -> None:
    for scheme in ("stripe", "github"):
        lines = Signer(Scheme(scheme), [Secret(key=TEXT)]).headers("msg_own", STAMP, b'{"id": "order_7"}', NOW)
        headers = dict(line.split(": ", 1) for line in lines) | {"webhook-event-type": "order.paid"}
        webhook = verified(scheme, Sent(headers, b'{"id": "order_7"}'))
        assert (webhook.id, webhook.event_type) == ("msg_own", "order.paid")


def test_an_id_of_stripes_cannot_be_overruled_by_a_header() -> None:
    request = sent("stripe", b'{"object": "event", "id": "evt_1", "type": "charge.paid"}')
    webhook = verified("stripe", request._replace(headers=request.headers | {"webhook-id": "another"}))
    assert webhook.id == "evt_1"


@pytest.mark.parametrize(
    "body", [b"", b"\xff", b'"', b"[" * 100_000, b'{"type": "\xff"}', b'{"type":' + b"[" * 100_000]
)
@every_scheme
def test_only_json_raises_for_a_signed_body_that_is_no_json(scheme: str, body: bytes) -> None:
    request = sent(scheme, body)
    request.headers.pop("webhook-event-type", None)
    webhook = verified(scheme, request)
    assert webhook.body == body
    with pytest.raises(VerificationError) as caught:
        webhook.json()
    assert caught.value.code is VerificationCode.MALFORMED_BODY


@dataclass
class Paid:
    paid: int
    who: str


def test_a_body_can_be_read_as_a_type_of_yours() -> None:
    assert verified("github", sent("github")).json(Paid) == Paid(1700, "Žofie")
    with pytest.raises(VerificationError) as caught:
        verified("github", sent("github", b'{"paid": "much"}')).json(Paid)
    assert caught.value.code is VerificationCode.MALFORMED_BODY


# ── Twilio ────────────────────────────────────────────────────────────────────────────────────────────────────────

SMS = b"MessageSid=SM83&MessageStatus=delivered&To=%2B420&Body=%C5%BDofie&Empty=&To=%2B421&To=%2B420"


def test_twilio_form_with_repeated_empty_and_encoded_fields() -> None:
    request = twilio_form(TEXT, SMS)
    webhook = verified("twilio", request)
    assert webhook.event_type == "delivered"
    assert refused("twilio", request._replace(body=SMS.replace(b"delivered", b"failed"))) == "no_match"
    assert refused("twilio", request._replace(url="https://shop.example/sms?lang=cs")) == "no_match"


def test_twilio_without_a_token_tells_the_states_of_one_message_apart() -> None:
    states = [
        verified("twilio", twilio_form(TEXT, b"MessageSid=SM83&MessageStatus=%b" % each)) for each in (b"sent", b"read")
    ]
    again = verified("twilio", twilio_form(TEXT, b"MessageSid=SM83&MessageStatus=sent"))
    assert states[0].id == again.id
    assert states[0].id != states[1].id
    assert all(each.id and each.id.startswith("SM83.") for each in states)
    call = verified("twilio", twilio_form(TEXT, b"CallSid=CA77&CallStatus=ringing"))
    assert call.id is not None
    assert call.id.startswith("CA77.")


def test_twilio_idempotency_token_is_the_id() -> None:
    request = twilio_form(TEXT, SMS)
    assert (
        verified("twilio", request._replace(headers=request.headers | {"i-twilio-idempotency-token": "tok"})).id
        == "tok"
    )


@pytest.mark.parametrize(
    ("called", "seen"),
    [
        ("https://shop.example/sms", "https://shop.example:443/sms"),
        ("https://shop.example:443/sms", "https://shop.example/sms"),
        ("http://shop.example/sms?a=1", "http://shop.example:80/sms?a=1"),
        ("https://shop.example/sms", "https://shop.example:8443/sms"),
        ("https://user:pass@shop.example/sms", "https://user:pass@shop.example:443/sms"),
        ("https://[2001:db8::1]/sms", "https://[2001:db8::1]:443/sms"),
        ("https://shop.example?a=1", "https://shop.example:443?a=1"),
    ],
)
def test_twilio_url_with_and_without_its_port(called: str, seen: str) -> None:
    assert verified("twilio", twilio_form(TEXT, SMS, called)._replace(url=seen)).body == SMS


@pytest.mark.parametrize(
    ("called", "seen"),
    [
        ("https://shop.example:8443/sms", "https://shop.example:9443/sms"),
        ("https://shop.example/sms", "http://shop.example/sms"),
        ("https://shop.example/sms", "https://shop.example.evil/sms"),
    ],
)
def test_twilio_url_of_another_server_is_refused(called: str, seen: str) -> None:
    assert refused("twilio", twilio_form(TEXT, SMS, called)._replace(url=seen)) == "no_match"


@pytest.mark.parametrize(
    "url", [None, "", "/sms", "shop.example/sms", "ftp://shop.example/", "https://", b"https://shop.example/", 7]
)
def test_twilio_needs_the_whole_url(url: Any) -> None:
    assert refused("twilio", twilio_form(TEXT, SMS)._replace(url=url)) == "malformed_url"


def test_twilio_urls_that_cannot_be_read() -> None:
    for url in (
        "https://shop.example/\udc80",
        "https://shop.example/?a=%FF",
        "https://x/?" + "a&" * 1001,
        "https://x/" + "a" * 20_000,
    ):
        assert refused("twilio", twilio_form(TEXT, SMS)._replace(url=url)) == "malformed_url"


def test_twilio_forms_that_cannot_be_read() -> None:
    for body in (b"a=\xff", b"a=%FF", b"&".join([b"a=1"] * 1001)):
        assert refused("twilio", twilio_form(TEXT, SMS)._replace(body=body)) == "malformed_body"
    long = b"Body=" + b"%41" * (128 * 1024 // 3)  # Decoding a megabyte of this text takes a quarter of a second.
    assert refused("twilio", twilio_form(TEXT, SMS)._replace(body=long)) == "malformed_body"
    assert verified("twilio", twilio_form(TEXT, long[:-6])).event_type is None


def test_twilio_json_needs_its_hash_in_the_url() -> None:
    request = sent("twilio")
    assert refused("twilio", request._replace(body=b"{}")) == "no_match"
    assert refused("twilio", _signed_url("https://shop.example/events")) == "malformed_url"
    assert verified("twilio", _signed_url(f"{request.url}&again=1")).body == BODY
    assert refused("twilio", _signed_url(f"{request.url}&bodySHA256={'0' * 64}")) == "no_match"


def _signed_url(url: str) -> Sent:
    signature = base64.b64encode(hmac.digest(TEXT.encode(), url.encode(), "sha1")).decode()
    return Sent({"X-Twilio-Signature": signature, "Content-Type": "application/json"}, BODY, url)


def test_twilio_get_has_no_body() -> None:
    assert verified("twilio", twilio_form(TEXT, b"", "https://shop.example/voice?CallSid=CA1")).body == b""


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────────────────────


@every_scheme
def test_several_secrets_are_accepted_while_they_rotate(scheme: str) -> None:
    secret, other = secrets_of(scheme)
    request = sent(scheme)
    for held in ([secret], [other, secret], (secret, other), iter([other, secret])):
        assert Verifier(held, scheme).verify(request.headers, request.body, url=request.url, now=NOW).body == BODY
    with pytest.raises(VerificationError) as caught:
        Verifier([other], scheme).verify(request.headers, request.body, url=request.url, now=NOW)
    assert caught.value.code is VerificationCode.NO_MATCH


def test_ed25519_beside_hmac() -> None:
    private, public = new_keypair()
    lines = Signer(Scheme.STANDARD, [Secret(key=WHSEC), Secret(key=private)]).headers("msg_1", STAMP, BODY, NOW)
    headers = dict(line.split(": ", 1) for line in lines)
    for held in (WHSEC, public, private, [new_secret(), public]):
        assert Verifier(held).verify(headers, BODY, now=NOW).id == "msg_1"
    with pytest.raises(VerificationError):
        Verifier(PUBLIC).verify(headers, BODY, now=NOW)


def test_a_secret_may_have_lost_its_prefix_or_padding() -> None:
    secret = "whsec_" + base64.b64encode(b"not a multiple of three bytes").decode()
    assert secret.endswith("=")
    request = standard(secret, BODY)
    for held in (secret.rstrip("="), secret.removeprefix("whsec_"), secret.removeprefix("whsec_").rstrip("=")):
        assert Verifier(held).verify(request.headers, BODY, now=NOW).body == BODY


def _whsec(size: int) -> str:
    return "whsec_" + base64.b64encode(b"s" * size).decode()


@pytest.mark.parametrize("scheme", ["standard", "svix"])
def test_standard_webhooks_secrets_have_24_to_64_bytes(scheme: str) -> None:
    for size in (24, 32, 64):
        Verifier(_whsec(size), scheme)
    for size in (1, 16, 23, 65, 128):
        with pytest.raises(InvalidInput, match="24 to 64 bytes"):
            Verifier(_whsec(size), scheme)


BAD_SECRETS: list[Any] = [
    "", 7, None, b"whsec_AAAA", [], [""], [None], [b"bytes of something"], {}, [WHSEC, ""], [WHSEC, None],
    "whsec_", "whsec_!", "whsk_AAAA", "whpk_AAAA", "whsec_\udcff", "plain", PRIVATE[:-8], PUBLIC + "A",
    "whsk_" + base64.b64encode(bytes(64)).decode(),
]  # fmt: skip


@pytest.mark.parametrize("secrets", BAD_SECRETS, ids=repr)
def test_a_bad_secret_is_refused_when_the_verifier_is_made(secrets: Any) -> None:
    with pytest.raises(InvalidInput):
        Verifier(secrets)


@pytest.mark.parametrize("scheme", [name for name in SENDERS if name not in ("standard", "svix")])
@pytest.mark.parametrize(
    "secrets", ["", None, PRIVATE, PUBLIC, "half a \udcff pair", " a space", "a line\n", [7], ()], ids=repr
)
def test_a_bad_text_is_refused_too(scheme: str, secrets: Any) -> None:
    with pytest.raises(InvalidInput):
        Verifier(secrets, scheme)


@pytest.mark.parametrize("scheme", ["", "Stripe", "paypal", None, 7, ["github"]])
def test_an_unknown_scheme_is_refused_with_the_choices(scheme: Any) -> None:
    with pytest.raises(InvalidInput, match="standard, svix, stripe"):
        Verifier(TEXT, scheme)


@pytest.mark.parametrize("tolerance", [-1, float("nan"), -float("inf"), pytest.param(10**400, id="huge"), "300", None])
def test_a_tolerance_is_a_number_of_seconds(tolerance: Any) -> None:
    with pytest.raises(InvalidInput, match="tolerance"):
        Verifier(TEXT, "github", tolerance)


def test_nothing_shows_a_secret() -> None:
    broken = WHSEC + "?secret-part"
    with pytest.raises(InvalidInput) as caught:
        Verifier(broken)
    for text in (str(caught.value), repr(caught.value), repr(Verifier(WHSEC)), repr(Verifier(TEXT, "github"))):
        assert "secret-part" not in text
        assert WHSEC[6:] not in text
        assert TEXT not in text


# ── time ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@timed_scheme
def test_the_timestamp_is_bounded_in_both_directions(scheme: str) -> None:
    request, at = sent(scheme), datetime.fromtimestamp(STAMP, UTC)
    for edge in (-300, 300):
        verified(scheme, request, now=at + timedelta(seconds=edge))
    assert refused(scheme, request, now=at + timedelta(seconds=300.001)) == "timestamp_too_old"
    assert refused(scheme, request, now=at - timedelta(seconds=300.001)) == "timestamp_too_new"
    verified(scheme, request, now=at + timedelta(seconds=3000), tolerance=3000)
    assert refused(scheme, request, now=at + timedelta(seconds=1), tolerance=0) == "timestamp_too_old"


@pytest.mark.parametrize("scheme", [name for name in SENDERS if name not in TIMED])
def test_schemes_without_a_timestamp_accept_any_time(scheme: str) -> None:
    assert verified(scheme, sent(scheme), now=NOW + timedelta(days=999), tolerance=0).timestamp is None


@timed_scheme
def test_the_current_time_is_the_default(scheme: str) -> None:
    secret = secrets_of(scheme)[0]
    fresh, stale = sent(scheme, stamp=str(int(clock.wall().timestamp()))), sent(scheme)
    assert Verifier(secret, scheme).verify(fresh.headers, fresh.body).body == BODY
    with pytest.raises(VerificationError) as caught:
        Verifier(secret, scheme).verify(stale.headers, stale.body)
    assert caught.value.code in (VerificationCode.TIMESTAMP_TOO_OLD, VerificationCode.TIMESTAMP_TOO_NEW)


def test_a_time_without_a_time_zone_is_an_error_of_the_caller() -> None:
    with pytest.raises(InvalidInput, match="time zone"):
        verified("standard", sent("standard"), now=NOW.replace(tzinfo=None))


@timed_scheme
@pytest.mark.parametrize(
    "stamp",
    [
        f"+{STAMP}",
        f"{STAMP}.0",
        f"{STAMP} 1",
        f"1_{STAMP}",
        "nan",
        "inf",
        "-1",
        "1e9",
        "0x10",
        "9" * 12,
        "9" * 5000,
        "",
    ],
)
def test_a_timestamp_is_digits_and_nothing_else(scheme: str, stamp: str) -> None:
    """The sender signs correctly, but writes the timestamp in an unusual form."""
    request = sent(scheme, stamp=stamp)
    assert refused(scheme, request, tolerance=float("inf")) == "malformed_header"


@timed_scheme
@pytest.mark.parametrize("stamp", ["١٧٧٣", "１７７３", f"{STAMP}\x00", f"{STAMP}\n", "é"])
def test_a_timestamp_in_other_scripts_or_with_control_characters_is_malformed(scheme: str, stamp: str) -> None:
    headers = {name: value.replace(str(STAMP), stamp) for name, value in sent(scheme).headers.items()}
    assert refused(scheme, Sent(headers, BODY), tolerance=float("inf")) == "malformed_header"


@timed_scheme
def test_the_largest_timestamp(scheme: str) -> None:
    assert verified(scheme, sent(scheme, stamp="9" * 11), tolerance=float("inf")).timestamp is not None
    assert refused(scheme, sent(scheme, stamp="9" * 11)) == "timestamp_too_new"


# ── changed requests ──────────────────────────────────────────────────────────────────────────────────────────────


@given(scheme=st.sampled_from(list(SENDERS)), place=st.integers(0, len(BODY) - 1), flip=st.integers(1, 255))
def test_a_changed_byte_of_the_body_fails(scheme: str, place: int, flip: int) -> None:
    changed = bytearray(BODY)
    changed[place] ^= flip
    assert refused(scheme, sent(scheme)._replace(body=bytes(changed))) == "no_match"


SIGNED = [
    *(("standard", f"webhook-{field}") for field in ("id", "timestamp", "signature")),
    *(("svix", f"svix-{field}") for field in ("id", "timestamp", "signature")),
    ("stripe", "Stripe-Signature"),
    ("github", "X-Hub-Signature-256"),
    ("shopify", "X-Shopify-Hmac-SHA256"),
    ("slack", "X-Slack-Request-Timestamp"),
    ("slack", "X-Slack-Signature"),
    ("twilio", "X-Twilio-Signature"),
    ("hex", "Webhook-Timestamp"),
    ("hex", "Webhook-Signature"),
]
signed_header = pytest.mark.parametrize(("scheme", "header"), SIGNED)


@signed_header
def test_a_changed_character_of_a_signed_header_fails_at_every_place(scheme: str, header: str) -> None:
    request = sent(scheme)
    value = request.headers[header].partition(",v0=")[0]
    for place, letter in enumerate(value):
        for flip in (0x01, 0x02, 0x04, 0x10, 0x20, 0x40):
            changed = value[:place] + chr(ord(letter) ^ flip) + value[place + 1 :]
            refused(scheme, request._replace(headers=request.headers | {header: changed}), tolerance=1e12)


@pytest.mark.parametrize(
    ("scheme", "header"), [("standard", "webhook-signature"), ("shopify", "X-Shopify-Hmac-SHA256")]
)
def test_base64_has_one_spelling(scheme: str, header: str) -> None:
    request = sent(scheme)
    value = request.headers[header]
    # The last base64 character has unused bits, and only these differ.
    twin = value[:-2] + chr(ord(value[-2]) + 1) + "="
    assert base64.b64decode(twin[-44:]) == base64.b64decode(value[-44:])
    for changed in (
        twin,
        value.rstrip("="),
        value + "=",
        value.replace("A", "A*", 1) + "*",
        value[:-1] + "==",
        f"{value}junk",
    ):
        assert refused(scheme, request._replace(headers=request.headers | {header: changed})) == "malformed_header"


def test_id_timestamp_and_body_cannot_be_divided_in_another_way() -> None:
    request = standard(WHSEC, b"%d.rest" % STAMP)
    moved = request.headers | {"webhook-id": f"{request.headers['webhook-id']}.{STAMP}"}
    assert refused("standard", Sent(moved, b"rest")) == "malformed_header"


def test_a_signature_counts_only_under_its_own_name() -> None:
    for scheme, header, name, others in (
        ("standard", "webhook-signature", "v1,", ("v1a,", "v2,", "V1,")),
        ("hex", "Webhook-Signature", "v1=", ("v0=", "v2=", "sha256=")),
        ("stripe", "Stripe-Signature", "v1=", ("v0=", "v2=")),
    ):
        for other in others:
            request = sent(scheme)
            headers = request.headers | {header: request.headers[header].replace(name, other)}
            assert refused(scheme, request._replace(headers=headers)) == "no_match"
    for scheme, header, name, others in (
        ("github", "X-Hub-Signature-256", "sha256=", ("sha1=", "v1=", "", "SHA256=")),
        ("slack", "X-Slack-Signature", "v0=", ("v1=", "V0=", "")),
    ):
        for other in others:
            request = sent(scheme)
            headers = request.headers | {header: request.headers[header].replace(name, other)}
            assert refused(scheme, request._replace(headers=headers)) == "malformed_header"


# ── headers ───────────────────────────────────────────────────────────────────────────────────────────────────────


@signed_header
def test_a_missing_header_is_named(scheme: str, header: str) -> None:
    request = sent(scheme)
    for headers in ({k: v for k, v in request.headers.items() if k != header}, request.headers | {header: None}):
        with pytest.raises(VerificationError, match=f"{header.lower()} is missing") as caught:
            verified(scheme, request._replace(headers=headers))  # type: ignore[arg-type]
        assert caught.value.code is VerificationCode.MISSING_HEADER


@signed_header
def test_a_header_that_comes_twice_is_refused(scheme: str, header: str) -> None:
    request = sent(scheme)
    request.headers[header.swapcase()] = request.headers[header]
    with pytest.raises(VerificationError, match="more than once") as caught:
        verified(scheme, request)
    assert caught.value.code is VerificationCode.MALFORMED_HEADER


@signed_header
@pytest.mark.parametrize(
    "value", [7, "", "é", b"\xff", "\udc80", "a\x00b", f"t={STAMP}\r\n", "v1=" + "0" * 9000, ["v1"], {}, " "]
)
def test_a_header_that_cannot_be_read_is_malformed(scheme: str, header: str, value: Any) -> None:
    request = sent(scheme)
    headers = request.headers | {header: value}
    assert refused(scheme, request._replace(headers=headers), tolerance=float("inf")) == "malformed_header"


@signed_header
@pytest.mark.parametrize(
    "value", ["9" * 5000, ",", "=", "v1,", "v1=", "sha256=", "t=", f"t={STAMP},v1=", "v1, v1,", "AAAA"]
)
def test_a_header_without_a_valid_value_is_refused(scheme: str, header: str, value: str) -> None:
    request = sent(scheme)
    assert refused(scheme, request._replace(headers=request.headers | {header: value})) in (
        "malformed_header",
        "no_match",
    )


@pytest.mark.parametrize(
    ("scheme", "header"),
    [
        ("github", "X-GitHub-Delivery"),
        ("shopify", "X-Shopify-Topic"),
        ("hex", "Webhook-Id"),
        ("standard", "webhook-event-type"),
    ],
)
def test_an_id_that_cannot_be_a_key_is_malformed(scheme: str, header: str) -> None:
    request = sent(scheme)
    for value in ("a" * 257, "é", "", "a\x00"):
        assert refused(scheme, request._replace(headers=request.headers | {header: value})) == "malformed_header"
    del request.headers[header]
    verified(scheme, request)


def test_unknown_versions_and_malformed_signatures_beside_a_valid_one_are_ignored() -> None:
    request = sent("standard")
    good = request.headers["webhook-signature"]
    for crowd in (f"v2,AAAA v1 v1, v1,!!! {good}", f"{good} v9,x", f"v1a,AAAA  {good}", f"v1,{good} {good}"):
        headers = request.headers | {"webhook-signature": crowd}
        assert Verifier([WHSEC, PUBLIC]).verify(headers, BODY, now=NOW).body == BODY
    stripe = sent("stripe").headers["Stripe-Signature"]
    verified("stripe", Sent({"stripe-signature": f"v0=abc, {stripe},v1=zz,,=,v1"}, BODY))


@pytest.mark.parametrize(
    ("scheme", "header", "glue"),
    [("standard", "webhook-signature", " "), ("stripe", "Stripe-Signature", ",v1="), ("hex", "Webhook-Signature", ",")],
)
def test_too_many_signatures_are_refused_before_any_is_checked(scheme: str, header: str, glue: str) -> None:
    request = sent(scheme)
    crowd = request.headers | {header: glue.join([request.headers[header], *["00"] * 33])}
    with pytest.raises(VerificationError, match="too many signatures"):
        verified(scheme, request._replace(headers=crowd))


@pytest.mark.parametrize(("size", "place", "accepted"), [(1 << 20, 3, True), (1 << 20, 4, False), (1000, 9, True)])
def test_few_ed25519_signatures_of_a_large_body_are_checked(size: int, place: int, accepted: bool) -> None:
    """Each check hashes the whole body. Our endpoints have up to 10 secrets, and every secret adds a signature."""
    body = b"x" * size
    lines = Signer(Scheme.STANDARD, [Secret(key=PRIVATE)]).headers("msg_1", STAMP, body, NOW)
    headers = dict(line.split(": ", 1) for line in lines)
    wrong = [f"v1a,{base64.b64encode(bytes([number]) * 63 + bytes(1)).decode()}" for number in range(place)]
    headers["webhook-signature"] = " ".join(
        [*wrong[:1] * 5, *wrong, headers["webhook-signature"]]
    )  # A repeated signature counts once.
    with nullcontext() if accepted else pytest.raises(VerificationError, match="no signature matches"):
        Verifier(PUBLIC).verify(headers, body, now=NOW)


def test_stripe_needs_exactly_one_timestamp() -> None:
    value = sent("stripe").headers["Stripe-Signature"]
    for changed in (f"t={STAMP},{value}", value.partition(",")[2]):
        with pytest.raises(VerificationError, match="exactly one timestamp"):
            verified("stripe", Sent({"stripe-signature": changed}, BODY))


@every_scheme
@pytest.mark.parametrize(
    "headers", [None, 7, "webhook-id: 1", b"x", [1, 2], [("a",)], ["ab"], [("a", "b", "c")], {"a"}]
)
def test_objects_that_are_no_headers_are_refused(scheme: str, headers: Any) -> None:
    assert refused(scheme, sent(scheme)._replace(headers=headers)) == "malformed_header"


@every_scheme
@pytest.mark.parametrize("body", [None, "text", {"a": 1}, 7, [b"a"]])
def test_a_parsed_body_is_refused_with_a_hint(scheme: str, body: Any) -> None:
    with pytest.raises(VerificationError, match="the bytes as received") as caught:
        verified(scheme, sent(scheme)._replace(body=body))
    assert caught.value.code is VerificationCode.MALFORMED_BODY


@every_scheme
def test_bytearray_and_memoryview_are_accepted_as_bytes(scheme: str) -> None:
    for kind in (bytearray, memoryview):
        webhook = verified(scheme, sent(scheme)._replace(body=kind(BODY)))  # type: ignore[arg-type]
        assert type(webhook.body) is bytes


@every_scheme
def test_every_secret_is_compared_with_every_signature(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison continues after a match, so that the duration does not reveal which secret matched."""
    compared: list[bool] = []
    compare = hmac.compare_digest

    def counting(one: bytes, other: bytes) -> bool:
        compared.append(compare(one, other))
        return compared[-1]

    monkeypatch.setattr(hmac, "compare_digest", counting)
    secret, other = secrets_of(scheme)
    request = sent(scheme)
    spellings = 2 if scheme == "twilio" else 1
    for held in ([secret, other], [other, secret]):
        compared.clear()
        Verifier(held, scheme).verify(request.headers, request.body, url=request.url, now=NOW)
        assert sorted(compared) == [False] * (2 * spellings - 1) + [True]
    if scheme == "standard":
        compared.clear()
        good = request.headers["webhook-signature"]
        verified(scheme, Sent(request.headers | {"webhook-signature": f"{good} v1,AAAA v1,BBBB"}, BODY))
        assert compared == [True, False, False]


def test_the_error_can_be_pickled() -> None:
    error = VerificationError(VerificationCode.NO_MATCH, "no signature matches")
    twin = pickle.loads(pickle.dumps(error))
    assert (type(twin), twin.code, str(twin)) == (VerificationError, VerificationCode.NO_MATCH, "no signature matches")
