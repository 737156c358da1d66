"""Signing and verifying: published vectors, another implementation, round trips, and everything that must fail."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import standardwebhooks
from hypothesis import example, given
from hypothesis import strategies as st

from hookline import clock
from hookline.errors import InvalidInput, SignatureError
from hookline.model.endpoints import Scheme, Secret
from hookline.signing import Signer, check_secret, new_keypair, new_secret, public_key, verify, with_prefix

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent.parent / "data" / "signing.json").read_text())
V1, V1A, GITHUB = VECTORS["standard_webhooks_v1"], VECTORS["standard_webhooks_v1a"], VECTORS["github"]

NOW = datetime(2026, 3, 14, 9, 26, 53, 589_793, tzinfo=UTC)
STAMP = int(NOW.timestamp())
MESSAGE_ID = "msg_2y7XqmB0cVtP4nSdLwRk9uEfGhJ"
BODY = '{"paid": 1700, "who": "Žofie"}'.encode()

TEXT_SCHEMES = (Scheme.HEX, Scheme.GITHUB, Scheme.STRIPE)
KEY, OLD_KEY = "whsec_" + base64.b64encode(b"k" * 24).decode(), "whsec_" + base64.b64encode(bytes(range(40))).decode()
PRIVATE, PUBLIC = V1A[0]["private"], V1A[0]["public"]

secret_texts = st.binary(min_size=24, max_size=64).map(lambda raw: "whsec_" + base64.b64encode(raw).decode())
schemes = st.sampled_from(Scheme)


def secret(key: str, expires_at: datetime | None = None) -> Secret:
    return Secret(key=key, expires_at=expires_at)


def signed(
    scheme: Scheme,
    *secrets: Secret,
    message_id: str = MESSAGE_ID,
    timestamp: int = STAMP,
    body: bytes = BODY,
    now: datetime = NOW,
) -> dict[str, str]:
    lines = Signer(scheme, secrets).headers(message_id, timestamp, body, now)
    headers = dict(line.split(": ", 1) for line in lines)
    assert len(headers) == len(lines)
    return headers


# ── vectors and other implementations ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("vector", V1)
def test_reproduces_the_v1_vectors(vector: dict[str, Any]) -> None:
    body = vector["body"].encode()
    assert Signer(Scheme.STANDARD, [secret(vector["secret"])]).headers(
        vector["id"], vector["timestamp"], body, NOW
    ) == [
        f"webhook-id: {vector['id']}",
        f"webhook-timestamp: {vector['timestamp']}",
        f"webhook-signature: {vector['signature']}",
    ]


@pytest.mark.parametrize("vector", V1)
def test_svix_differs_only_in_the_names_of_the_headers(vector: dict[str, Any]) -> None:
    given = {"message_id": vector["id"], "timestamp": vector["timestamp"], "body": vector["body"].encode()}
    assert signed(Scheme.SVIX, secret(vector["secret"]), **given) == {
        "svix-id": vector["id"],
        "svix-timestamp": str(vector["timestamp"]),
        "svix-signature": vector["signature"],
    }


@pytest.mark.parametrize("vector", V1A)
def test_reproduces_the_v1a_vectors(vector: dict[str, Any]) -> None:
    given = {"message_id": vector["id"], "timestamp": vector["timestamp"], "body": vector["body"].encode()}
    headers = signed(Scheme.STANDARD, secret(vector["private"]), **given)
    assert headers["webhook-signature"] == vector["signature"]
    signed_at = datetime.fromtimestamp(vector["timestamp"], UTC)
    verify(Scheme.STANDARD, [secret(vector["public"])], headers, given["body"], signed_at)
    assert public_key(vector["private"]) == vector["public"]


@pytest.mark.parametrize("vector", GITHUB)
def test_reproduces_the_github_vectors(vector: dict[str, Any]) -> None:
    body = vector["body"].encode()
    headers = signed(Scheme.GITHUB, secret(vector["secret"]), body=body)
    assert headers == {
        "webhook-id": MESSAGE_ID,
        "X-GitHub-Delivery": MESSAGE_ID,
        vector["header"]: vector["signature"],
    }
    verify(Scheme.GITHUB, [secret(vector["secret"])], headers, body, NOW)


def test_text_schemes_take_the_secret_as_it_is_shown_for_their_key() -> None:
    digest = hmac.new(KEY.encode(), b"%d.%b" % (STAMP, BODY), hashlib.sha256).hexdigest()
    assert signed(Scheme.HEX, secret(KEY)) == {
        "webhook-id": MESSAGE_ID,
        "webhook-timestamp": str(STAMP),
        "webhook-signature": f"v1={digest}",
    }
    assert signed(Scheme.STRIPE, secret(KEY)) == {
        "webhook-id": MESSAGE_ID,
        "Stripe-Signature": f"t={STAMP},v1={digest}",
    }
    over_body = hmac.new(KEY.encode(), BODY, hashlib.sha256).hexdigest()
    assert signed(Scheme.GITHUB, secret(KEY))["X-Hub-Signature-256"] == f"sha256={over_body}"


def test_standardwebhooks_verifies_what_we_sign() -> None:
    now = clock.wall()  # that package reads the clock itself
    keys = [new_secret(), KEY, OLD_KEY]
    overlap = [secret(keys[0]), secret(keys[1], now + timedelta(hours=3)), secret(keys[2], now + timedelta(hours=7))]
    headers = signed(Scheme.STANDARD, *overlap, secret(PRIVATE), timestamp=int(now.timestamp()), now=now)
    for key in keys:
        assert standardwebhooks.Webhook(key).verify(BODY, headers) == {"paid": 1700, "who": "Žofie"}
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(new_secret()).verify(BODY, headers)


def test_we_verify_what_standardwebhooks_signs() -> None:
    signature = standardwebhooks.Webhook(KEY).sign(MESSAGE_ID, NOW.replace(microsecond=0), BODY.decode())
    headers = {"webhook-id": MESSAGE_ID, "webhook-timestamp": str(STAMP), "webhook-signature": signature}
    verify(Scheme.STANDARD, [secret(KEY)], headers, BODY, NOW)


# ── rotation ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_both_secrets_sign_until_the_old_one_expires() -> None:
    expiry = NOW + timedelta(seconds=90)
    overlap = secret(KEY), secret(OLD_KEY, expiry)
    before, after = expiry - timedelta(microseconds=1), expiry
    only_new, only_old = (signed(Scheme.STANDARD, secret(k))["webhook-signature"] for k in (KEY, OLD_KEY))
    assert signed(Scheme.STANDARD, *overlap, now=before)["webhook-signature"] == f"{only_new} {only_old}"
    assert signed(Scheme.STANDARD, *overlap, now=after)["webhook-signature"] == only_new


@pytest.mark.parametrize(("scheme", "header"), [(Scheme.HEX, "webhook-signature"), (Scheme.STRIPE, "Stripe-Signature")])
def test_hex_and_stripe_carry_both_signatures_with_commas(scheme: Scheme, header: str) -> None:
    value = signed(scheme, secret(KEY), secret(OLD_KEY, NOW + timedelta(days=2)))[header]
    new, old = (signed(scheme, secret(k))[header].removeprefix(f"t={STAMP},") for k in (KEY, OLD_KEY))
    assert value.removeprefix(f"t={STAMP},") == f"{new},{old}"


def test_github_signs_with_the_current_secret_only() -> None:
    overlap = signed(Scheme.GITHUB, secret(KEY), secret(OLD_KEY, NOW + timedelta(days=2)))
    assert overlap == signed(Scheme.GITHUB, secret(KEY))


@pytest.mark.parametrize("scheme", [s for s in Scheme if s is not Scheme.GITHUB])
@pytest.mark.parametrize("held", [KEY, OLD_KEY])
def test_a_receiver_with_either_secret_is_served_during_the_overlap(scheme: Scheme, held: str) -> None:
    headers = signed(scheme, secret(KEY), secret(OLD_KEY, NOW + timedelta(minutes=5)))
    verify(scheme, [secret(held)], headers, BODY, NOW)


@pytest.mark.parametrize("scheme", Scheme)
def test_an_expired_secret_neither_signs_nor_verifies(scheme: Scheme) -> None:
    expired = secret(KEY, NOW - timedelta(seconds=11))
    with pytest.raises(SignatureError, match="no secret to sign with"):
        signed(scheme, expired)
    with pytest.raises(SignatureError, match="no secret to verify with"):
        verify(scheme, [expired], signed(scheme, secret(KEY)), BODY, NOW)


def test_hmac_and_ed25519_sign_side_by_side() -> None:
    headers = signed(Scheme.STANDARD, secret(KEY), secret(PRIVATE))
    assert [part.split(",")[0] for part in headers["webhook-signature"].split(" ")] == ["v1", "v1a"]
    for held in (KEY, PRIVATE, PUBLIC):
        verify(Scheme.STANDARD, [secret(held)], headers, BODY, NOW)


# ── round trips and changed bytes ─────────────────────────────────────────────────────────────────────────────────


@given(
    scheme=schemes, key=secret_texts, other=secret_texts, body=st.binary(max_size=200), stamp=st.integers(0, 10**11 - 1)
)
def test_a_signed_webhook_verifies_only_with_its_secret(
    scheme: Scheme, key: str, other: str, body: bytes, stamp: int
) -> None:
    headers = signed(scheme, secret(key), timestamp=stamp, body=body)
    at = clock.EPOCH + timedelta(seconds=stamp)
    tolerance = float(10**12)
    verify(scheme, [secret(key)], headers, body, at, tolerance)
    verify(scheme, [secret(other), secret(key)], headers, body, at, tolerance)
    if other != key:
        with pytest.raises(SignatureError, match="no signature matches"):
            verify(scheme, [secret(other)], headers, body, at, tolerance)


@given(scheme=schemes, place=st.integers(0, len(BODY) - 1), flip=st.integers(1, 255))
def test_a_changed_byte_of_the_body_fails(scheme: Scheme, place: int, flip: int) -> None:
    changed = bytearray(BODY)
    changed[place] ^= flip
    with pytest.raises(SignatureError, match="no signature matches"):
        verify(scheme, [secret(KEY)], signed(scheme, secret(KEY)), bytes(changed), NOW)


SIGNED_HEADERS = [
    *(
        (Scheme.STANDARD, key, f"webhook-{field}")
        for key in (KEY, PRIVATE)
        for field in ("id", "timestamp", "signature")
    ),
    *((Scheme.SVIX, OLD_KEY, f"svix-{field}") for field in ("id", "timestamp", "signature")),
    (Scheme.HEX, KEY, "webhook-timestamp"),
    (Scheme.HEX, KEY, "webhook-signature"),
    (Scheme.STRIPE, KEY, "Stripe-Signature"),
    (Scheme.GITHUB, KEY, "X-Hub-Signature-256"),
]


@pytest.mark.parametrize(("scheme", "key", "header"), SIGNED_HEADERS)
def test_a_changed_character_of_a_signed_header_fails_at_every_place(scheme: Scheme, key: str, header: str) -> None:
    headers = signed(scheme, secret(key))
    value = headers[header]
    for place, letter in enumerate(value):
        for flip in (0x01, 0x02, 0x04, 0x10, 0x20, 0x40):
            changed = value[:place] + chr(ord(letter) ^ flip) + value[place + 1 :]
            with pytest.raises(SignatureError):
                verify(scheme, [secret(key)], headers | {header: changed}, BODY, NOW, tolerance=1e12)


def test_the_spare_bits_of_base64_do_not_make_a_second_spelling() -> None:
    headers = signed(Scheme.STANDARD, secret(KEY))
    value = headers["webhook-signature"]
    twin = value[:-2] + chr(ord(value[-2]) + 1) + "="
    assert base64.b64decode(twin[3:]) == base64.b64decode(value[3:])
    with pytest.raises(SignatureError):
        verify(Scheme.STANDARD, [secret(KEY)], headers | {"webhook-signature": twin}, BODY, NOW)


def test_id_timestamp_and_body_cannot_be_divided_in_another_way() -> None:
    headers = signed(Scheme.STANDARD, secret(KEY), message_id="a", timestamp=STAMP, body=b"%d.rest" % STAMP)
    moved = headers | {"webhook-id": f"a.{STAMP}"}
    with pytest.raises(SignatureError, match="webhook-id is malformed"):
        verify(Scheme.STANDARD, [secret(KEY)], moved, b"rest", NOW)


# ── accepted and refused input ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("spell", [str.upper, str.lower, str.title])
def test_header_names_may_be_spelled_in_any_case(scheme: Scheme, spell: Any) -> None:
    headers = {spell(name): value for name, value in signed(scheme, secret(KEY)).items()}
    verify(scheme, [secret(KEY)], headers, BODY, NOW)


TIMED = [scheme for scheme in Scheme if scheme is not Scheme.GITHUB]


@pytest.mark.parametrize("scheme", TIMED)
def test_the_timestamp_is_bounded_in_both_directions(scheme: Scheme) -> None:
    headers = signed(scheme, secret(KEY))
    signed_at = datetime.fromtimestamp(STAMP, UTC)
    held = [secret(KEY)]
    for edge in (-40.0, 40.0):
        verify(scheme, held, headers, BODY, signed_at + timedelta(seconds=edge), tolerance=40)
    with pytest.raises(SignatureError, match="too old"):
        verify(scheme, held, headers, BODY, signed_at + timedelta(seconds=40.001), tolerance=40)
    with pytest.raises(SignatureError, match="in the future"):
        verify(scheme, held, headers, BODY, signed_at - timedelta(seconds=40.001), tolerance=40)


@pytest.mark.parametrize("scheme", TIMED)
def test_the_default_tolerance_is_five_minutes(scheme: Scheme) -> None:
    headers = signed(scheme, secret(KEY))
    signed_at = datetime.fromtimestamp(STAMP, UTC)
    verify(scheme, [secret(KEY)], headers, BODY, signed_at + timedelta(seconds=300))
    with pytest.raises(SignatureError, match="too old"):
        verify(scheme, [secret(KEY)], headers, BODY, signed_at + timedelta(seconds=301))


def test_a_tolerance_that_is_not_a_number_refuses() -> None:
    with pytest.raises(SignatureError):
        verify(Scheme.HEX, [secret(KEY)], signed(Scheme.HEX, secret(KEY)), BODY, NOW, tolerance=float("nan"))


def test_github_has_no_timestamp_to_check() -> None:
    headers = signed(Scheme.GITHUB, secret(KEY))
    verify(Scheme.GITHUB, [secret(KEY)], headers, BODY, NOW + timedelta(days=999))


def _forged_stamp(scheme: Scheme, stamp: str) -> dict[str, str]:
    """Return headers of a sender with the right secret and an unusual timestamp."""
    if scheme is Scheme.STANDARD:
        content = f"{MESSAGE_ID}.{stamp}.".encode() + BODY
        signature = "v1," + base64.b64encode(hmac.digest(b"k" * 24, content, "sha256")).decode()
        return {"webhook-id": MESSAGE_ID, "webhook-timestamp": stamp, "webhook-signature": signature}
    signature = hmac.digest(KEY.encode(), f"{stamp}.".encode() + BODY, "sha256").hex()
    if scheme is Scheme.HEX:
        return {"webhook-timestamp": stamp, "webhook-signature": f"v1={signature}"}
    return {"stripe-signature": f"t={stamp},v1={signature}"}


@pytest.mark.parametrize("scheme", [Scheme.STANDARD, Scheme.HEX, Scheme.STRIPE])
@pytest.mark.parametrize(
    "stamp", [f"+{STAMP}", f"{STAMP}.0", f"{STAMP}\n", f"1_{STAMP}", "nan", "inf", "-1", "9" * 5000, "0x10", "١٢٣"]
)
def test_a_timestamp_is_digits_and_nothing_else(scheme: Scheme, stamp: str) -> None:
    verify(scheme, [secret(KEY)], _forged_stamp(scheme, str(STAMP)), BODY, NOW)
    with pytest.raises(SignatureError):
        verify(scheme, [secret(KEY)], _forged_stamp(scheme, stamp), BODY, NOW, tolerance=float("inf"))


@pytest.mark.parametrize(("scheme", "key", "header"), SIGNED_HEADERS)
def test_a_missing_header_is_named(scheme: Scheme, key: str, header: str) -> None:
    headers = signed(scheme, secret(key))
    del headers[header]
    with pytest.raises(SignatureError, match=f"{header.lower()} is missing"):
        verify(scheme, [secret(key)], headers, BODY, NOW)


@pytest.mark.parametrize(("scheme", "key", "header"), SIGNED_HEADERS)
def test_a_header_that_comes_twice_is_refused(scheme: Scheme, key: str, header: str) -> None:
    headers = signed(scheme, secret(key))
    headers[header.swapcase()] = headers[header]
    with pytest.raises(SignatureError, match="more than once"):
        verify(scheme, [secret(key)], headers, BODY, NOW)


@pytest.mark.parametrize(("scheme", "key", "header"), SIGNED_HEADERS)
@pytest.mark.parametrize(
    "value", [b"\xff", 7, "", "é", "\udc80", f"{STAMP}\udc80", f"t={STAMP}\udc80", "v1=" + "0" * 9000]
)
def test_a_header_that_is_no_ascii_text_is_malformed(scheme: Scheme, key: str, header: str, value: Any) -> None:
    headers: dict[str, Any] = signed(scheme, secret(key)) | {header: value}
    with pytest.raises(SignatureError, match=f"{header.lower()} is malformed"):
        verify(scheme, [secret(key)], headers, BODY, NOW)


def test_headers_that_are_not_ours_may_be_anything() -> None:
    headers: dict[Any, Any] = signed(Scheme.STANDARD, secret(KEY)) | {"Accept": None, "accept": b"\xff", 7: "seven"}
    verify(Scheme.STANDARD, [secret(KEY)], headers, BODY, NOW)


def test_unknown_versions_and_malformed_signatures_beside_a_good_one_are_passed_over() -> None:
    headers = signed(Scheme.STANDARD, secret(KEY))
    good = headers["webhook-signature"]
    for many in (f"v2,AAAA v1 v1, v1,!!! {good}", f"{good} v9,x", f"v1a,AAAA  {good}", f"v1,{good} {good}"):
        verify(Scheme.STANDARD, [secret(KEY), secret(PUBLIC)], headers | {"webhook-signature": many}, BODY, NOW)
    stripe = signed(Scheme.STRIPE, secret(KEY))["Stripe-Signature"]
    verify(Scheme.STRIPE, [secret(KEY)], {"stripe-signature": f"v0=abc, {stripe},v1=zz"}, BODY, NOW)


def test_a_signature_counts_only_under_its_own_version() -> None:
    headers = signed(Scheme.STANDARD, secret(KEY))
    for version in ("v1a", "v2", "V1", ""):
        renamed = headers["webhook-signature"].replace("v1,", f"{version},")
        with pytest.raises(SignatureError, match="no signature matches"):
            verify(Scheme.STANDARD, [secret(KEY)], headers | {"webhook-signature": renamed}, BODY, NOW)
    stripe = signed(Scheme.STRIPE, secret(KEY))["Stripe-Signature"].replace("v1=", "v0=")
    with pytest.raises(SignatureError, match="no signature matches"):
        verify(Scheme.STRIPE, [secret(KEY)], {"stripe-signature": stripe}, BODY, NOW)
    github = signed(Scheme.GITHUB, secret(KEY))["X-Hub-Signature-256"].replace("sha256=", "sha1=")
    with pytest.raises(SignatureError, match="no signature in it"):
        verify(Scheme.GITHUB, [secret(KEY)], {"x-hub-signature-256": github}, BODY, NOW)


def test_too_many_signatures_are_refused_before_checking_them() -> None:
    headers = signed(Scheme.STANDARD, secret(PRIVATE))
    many = " ".join([headers["webhook-signature"]] * 33)
    with pytest.raises(SignatureError, match="too many signatures"):
        verify(Scheme.STANDARD, [secret(PUBLIC)], headers | {"webhook-signature": many}, BODY, NOW)


def test_stripe_needs_exactly_one_timestamp() -> None:
    value = signed(Scheme.STRIPE, secret(KEY))["Stripe-Signature"]
    for changed in (f"t={STAMP},{value}", value.partition(",")[2]):
        with pytest.raises(SignatureError, match="exactly one timestamp"):
            verify(Scheme.STRIPE, [secret(KEY)], {"stripe-signature": changed}, BODY, NOW)


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("body", [None, "text", {"a": 1}, 7])
def test_a_parsed_body_is_refused_with_a_hint(scheme: Scheme, body: Any) -> None:
    with pytest.raises(SignatureError, match="the bytes as received"):
        verify(scheme, [secret(KEY)], signed(scheme, secret(KEY)), body, NOW)


BAD_SECRETS: list[Any] = [
    None, "", 7, b"whsec_AAAA", "whsec_", "whsec_!", "whsec_A", "whsk_", "whpk_", "whsk_AAAA", "whpk_AAAA",
    "whsec_\udcff", "plain", PRIVATE[:-8], PUBLIC + "A", "whsk_" + base64.b64encode(bytes(64)).decode(),
]  # fmt: skip


@pytest.mark.parametrize("key", BAD_SECRETS)
def test_a_bad_secret_is_a_signature_error(key: Any) -> None:
    headers = signed(Scheme.STANDARD, secret(KEY))
    with pytest.raises(SignatureError):
        verify(Scheme.STANDARD, [secret(KEY), Secret(key=key)], headers, BODY, NOW)
    signer = Signer(Scheme.STANDARD, [Secret(key=key)])
    with pytest.raises(SignatureError):
        signer.headers(MESSAGE_ID, STAMP, BODY, NOW)


@pytest.mark.parametrize("scheme", TEXT_SCHEMES)
@pytest.mark.parametrize("key", [None, "", PRIVATE, PUBLIC, "half a \udcff pair"])
def test_a_secret_that_is_no_text_key_is_a_signature_error(scheme: Scheme, key: Any) -> None:
    with pytest.raises(SignatureError):
        verify(scheme, [Secret(key=key)], signed(scheme, secret(KEY)), BODY, NOW)
    with pytest.raises(SignatureError):
        Signer(scheme, [Secret(key=key)]).headers(MESSAGE_ID, STAMP, BODY, NOW)


@pytest.mark.parametrize("scheme", Scheme)
def test_without_secrets_nothing_is_signed_or_verified(scheme: Scheme) -> None:
    with pytest.raises(SignatureError, match="no secret to sign with"):
        Signer(scheme, ()).headers(MESSAGE_ID, STAMP, BODY, NOW)
    with pytest.raises(SignatureError, match="no secret to verify with"):
        verify(scheme, (), signed(scheme, secret(KEY)), BODY, NOW)


def test_a_receiver_may_hold_a_secret_without_its_padding() -> None:
    raw = b"not a multiple of three bytes"
    padded = "whsec_" + base64.b64encode(raw).decode()
    assert padded.endswith("=")
    verify(Scheme.SVIX, [secret(padded.rstrip("="))], signed(Scheme.SVIX, secret(padded)), BODY, NOW)


def test_errors_never_show_a_key() -> None:
    broken = KEY + "?secret-part"
    with pytest.raises(SignatureError) as caught:
        Signer(Scheme.STANDARD, [secret(broken)]).headers(MESSAGE_ID, STAMP, BODY, NOW)
    with pytest.raises(InvalidInput) as refused:
        check_secret(broken)
    for text in (
        str(caught.value),
        repr(caught.value),
        str(refused.value),
        repr(Signer(Scheme.STANDARD, [secret(KEY)])),
    ):
        assert "secret-part" not in text
        assert KEY[6:] not in text


# ── any input ─────────────────────────────────────────────────────────────────────────────────────────────────────

NAMES = ["webhook-id", "webhook-timestamp", "webhook-signature", "svix-id", "svix-timestamp", "svix-signature"]
NAMES += ["Stripe-Signature", "X-Hub-Signature-256", "WEBHOOK-ID"]
pieces = st.sampled_from([
    "v1,", "v1a,", "v1=", "t=", "sha256=", ",", "=", " ", ".", str(STAMP), "msg_a", "A" * 43 + "=", "0" * 64, "A" * 86 + "==",
    "\x00", "\r\n", "é", "\udc80", "٣",
])  # fmt: skip
values = st.lists(pieces, max_size=8).map("".join) | st.text() | st.none() | st.binary() | st.integers()
held_secrets = st.one_of(
    st.sampled_from([KEY, PRIVATE, PUBLIC, *BAD_SECRETS]), st.text(), st.text().map("whsec_".__add__)
)


@given(
    scheme=schemes,
    keys=st.lists(held_secrets, max_size=3),
    headers=st.dictionaries(st.sampled_from(NAMES) | st.text(), values),
    body=st.binary() | st.text() | st.none(),
    tolerance=st.floats(),
)
def test_verify_raises_a_signature_error_and_nothing_else(
    scheme: Scheme, keys: list[Any], headers: dict[str, Any], body: Any, tolerance: float
) -> None:
    with pytest.raises(SignatureError):
        verify(scheme, [Secret(key=key) for key in keys], headers, body, NOW, tolerance)


@given(scheme=schemes, header=st.sampled_from(NAMES), value=values)
def test_one_strange_header_among_good_ones_is_a_signature_error_at_most(
    scheme: Scheme, header: str, value: Any
) -> None:
    headers: dict[str, Any] = signed(scheme, secret(KEY))
    altered = headers | {header: value}
    try:
        verify(scheme, [secret(KEY)], altered, BODY, NOW)
    except SignatureError:
        assert altered != headers
    else:
        covered = {name.lower() for s, _, name in SIGNED_HEADERS if s is scheme}
        assert header.lower() not in covered or headers.get(header) == value


@given(
    scheme=schemes, message_id=st.text() | st.sampled_from(["a\r\nx: y", "a\n", "a.b", "", " ", "a b", "é", "x" * 257])
)
@example(scheme=Scheme.GITHUB, message_id="msg_1\r\nSet-Cookie: a=b")
def test_no_message_id_breaks_out_of_its_header_line(scheme: Scheme, message_id: str) -> None:
    signer = Signer(scheme, [secret(KEY)])
    try:
        lines = signer.headers(message_id, STAMP, BODY, NOW)
    except SignatureError:
        return
    for line in lines:
        assert line.isascii()
        assert line.isprintable()


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_new_secrets_are_good_and_different() -> None:
    made = {new_secret() for _ in range(50)}
    assert len(made) == 50
    for key in made:
        for scheme in Scheme:
            check_secret(key, scheme)


def test_a_new_pair_signs_and_verifies() -> None:
    private, public = new_keypair()
    check_secret(private)
    assert public_key(private) == public
    headers = signed(Scheme.SVIX, secret(private))
    verify(Scheme.SVIX, [secret(public)], headers, BODY, NOW)
    with pytest.raises(SignatureError):
        verify(Scheme.SVIX, [secret(new_keypair()[1])], headers, BODY, NOW)


@pytest.mark.parametrize("size", range(70))
def test_a_whsec_secret_has_24_to_64_bytes(size: int) -> None:
    key = "whsec_" + base64.b64encode(bytes(size)).decode()
    if 24 <= size <= 64:
        check_secret(key)
    else:
        with pytest.raises(InvalidInput, match=f"24 to 64 bytes, this one {size}"):
            check_secret(key)


@pytest.mark.parametrize("vector", V1 + V1A)
def test_the_secrets_of_the_vectors_are_good(vector: dict[str, Any]) -> None:
    check_secret(vector.get("secret") or vector["private"])


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("", "whsec_ followed by base64"),
        ("It's a Secret to Everybody", "whsec_ followed by base64"),
        (KEY.removeprefix("whsec_"), "whsec_ followed by base64"),
        (PUBLIC, "cannot sign"),
        (KEY + "\n", "not base64"),
        (KEY[:-1] + " ", "not base64"),
        ("whsec_" + base64.b64encode(bytes(25)).decode().rstrip("="), "with padding"),
        ("whsec_" + "-_" * 20, "not base64"),
        ("whsec_" + "é" * 40, "not base64"),
        ("whsec_" + "A" * 42 + "B=", "not base64"),
        (PRIVATE.rstrip("="), "with padding"),
        ("whsk_" + base64.b64encode(bytes(32)).decode(), "64 bytes"),
        ("whsk_" + base64.b64encode(bytes(64)).decode(), "does not match its private half"),
    ],
)
def test_secrets_that_are_refused(key: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        check_secret(key)


@pytest.mark.parametrize("scheme", TEXT_SCHEMES)
def test_a_text_scheme_takes_the_secret_that_a_team_already_has(scheme: Scheme) -> None:
    for key in ("It's a Secret to Everybody", "whsec_not+base64+at+all!", "x" * 16, "y" * 256):
        check_secret(key, scheme)
    for key in (
        "x" * 15,
        "y" * 257,
        "",
        " padded with spaces ",
        "line\nbreak in the middle",
        "Přísně tajné heslo",
        PRIVATE,
    ):
        with pytest.raises(InvalidInput):
            check_secret(key, scheme)


@given(key=st.text() | st.text().map("whsec_".__add__) | st.text().map("whsk_".__add__), scheme=schemes)
def test_every_secret_that_check_secret_accepts_can_sign(key: str, scheme: Scheme) -> None:
    try:
        check_secret(key, scheme)
    except InvalidInput:
        return
    verify(scheme, [secret(key)], signed(scheme, secret(key)), BODY, NOW)


@pytest.mark.parametrize("scheme", list(Scheme))
def test_a_secret_without_its_prefix_is_accepted_where_it_is_base64(scheme: Scheme) -> None:
    """Svix accepts the base64 without its prefix. For text secrets a prefix would change the secret."""
    bare = new_secret().removeprefix("whsec_")
    wanted = f"whsec_{bare}" if scheme in (Scheme.STANDARD, Scheme.SVIX) else bare
    assert with_prefix(bare, scheme) == wanted
    for key in (f"whsec_{bare}", new_keypair()[0], "guess", "", "whsec_", bare + "!"):
        assert with_prefix(key, scheme) == key
