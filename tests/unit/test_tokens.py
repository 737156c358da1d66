"""Tokens grant the access that they name until they expire. Everything else is refused with one kind of error."""

from __future__ import annotations

import base64
import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookline import ids
from hookline.clock import EPOCH
from hookline.errors import ConfigError, InvalidInput, SignatureError
from hookline.model.actors import Scope
from hookline.security.tokens import Grant, hashed, issue, read, read_any, secret_id

SECRET, OTHER_SECRET = "a secret of more than thirty-two bytes", "another one that is just as long as it"
NOW = datetime(2026, 5, 17, 4, 8, 15, 162_342, tzinfo=UTC)
SECONDS = NOW.timestamp()
ORG, OTHER_ORG, APP = (
    "org_23rb8YdGqMT0qIzpgGwdXfHirMu",
    "org_2f9kQmB0cVtP4nSdLwRk9uEfGhJ",
    "app_2y7XqmB0cVtP4nSdLwRk9uEfGhJ",
)


def payload(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    decoded: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return decoded


def forge(changes: dict[str, Any], *, secret: str = SECRET, headers: dict[str, Any] | None = None) -> str:
    """Return a token with the right signature and wrong claims. A claim changed to None is removed."""
    claims = {"iss": "hookline", "sub": ORG, "iat": SECONDS - 5, "exp": SECONDS + 50} | changes
    kept = {name: value for name, value in claims.items() if value is not None}
    return jwt.api_jws.encode(json.dumps(kept).encode(), secret, algorithm="HS256", headers=headers)


def grant(**fields: Any) -> Grant:
    return Grant(**({"org_id": ORG, "app_id": None, "scope": Scope.FULL} | fields))


def expiry(claims: dict[str, Any]) -> datetime:
    return datetime.fromtimestamp(claims["exp"], UTC)


# ── issued tokens ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_organization_token_names_it_for_a_month() -> None:
    token = issue(SECRET, ORG, now=NOW)
    claims = payload(token)
    assert set(claims) == {"iss", "sub", "iat", "nbf", "exp"}
    assert claims["iss"] == "hookline"
    assert claims["sub"] == ORG
    assert claims["exp"] - SECONDS == pytest.approx(30 * 86_400, abs=1)
    assert read(SECRET, token, NOW) == grant(issued_at=NOW, expires_at=expiry(claims))


def test_an_application_token_names_both_for_28_days() -> None:
    token = issue(SECRET, ORG, app_id=APP, now=NOW)
    claims = payload(token)
    assert claims["sub"] == APP
    assert claims["org"] == ORG
    assert claims["exp"] - SECONDS == pytest.approx(28 * 86_400, abs=1)
    assert read(SECRET, token, NOW) == grant(app_id=APP, issued_at=NOW, expires_at=expiry(claims))


def test_the_header_says_hs256() -> None:
    assert jwt.get_unverified_header(issue(SECRET, ORG, now=NOW)) == {"alg": "HS256", "typ": "JWT"}


@given(micros=st.integers(0, 200_000_000_000 * 10**6 // 100), org=st.booleans())
def test_the_instant_of_issue_comes_back_to_the_microsecond(micros: int, org: bool) -> None:
    now = EPOCH + timedelta(microseconds=micros)
    app_id = None if org else APP
    assert read(SECRET, issue(SECRET, OTHER_ORG, app_id=app_id, now=now), now).issued_at == now


def test_a_minted_id_can_be_named() -> None:
    org, app = ids.mint(ids.ORG, NOW), ids.mint(ids.APP, NOW)
    grant = read(SECRET, issue(SECRET, org, app_id=app, now=NOW), NOW)
    assert (grant.org_id, grant.app_id) == (org, app)


@pytest.mark.parametrize("org_id", ["", "org_", APP, f"{ORG}\n", "org_ä", "org_a b", "org_" + "x" * 65, "ORG_abc"])
def test_only_an_organization_gets_a_token(org_id: str) -> None:
    with pytest.raises(InvalidInput, match="organization"):
        issue(SECRET, org_id, now=NOW)


@pytest.mark.parametrize("app_id", ["", "app_", ORG, f"{APP}\n", "my-uid"])
def test_only_an_application_id_is_put_into_a_token(app_id: str) -> None:
    with pytest.raises(InvalidInput, match="application"):
        issue(SECRET, ORG, app_id=app_id, now=NOW)


@pytest.mark.parametrize("lifetime", [0.0, -3.0, float("nan"), float("inf"), 1e11])
def test_a_lifetime_has_bounds(lifetime: float) -> None:
    with pytest.raises(InvalidInput, match="100 years"):
        issue(SECRET, ORG, now=NOW, lifetime=lifetime)


@pytest.mark.parametrize("secret", ["", "x" * 31, "ž" * 15])
def test_a_short_secret_is_a_matter_of_configuration(secret: str) -> None:
    with pytest.raises(ConfigError, match="at least 32 bytes"):
        issue(secret, ORG, now=NOW)
    with pytest.raises(ConfigError, match="at least 32 bytes"):
        read(secret, issue(SECRET, ORG, now=NOW), NOW)


def test_a_pem_file_is_no_secret_for_hs256() -> None:
    with pytest.raises(ConfigError, match="random text"):
        issue("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", ORG, now=NOW)


def test_a_secret_of_any_bytes_works() -> None:
    secret = "\udcff\udcfe" + "x" * 30
    assert read(secret, issue(secret, ORG, now=NOW), NOW).org_id == ORG


def test_a_naive_instant_is_a_bug() -> None:
    with pytest.raises(ValueError, match="time zone"):
        issue(SECRET, ORG, now=NOW.replace(tzinfo=None))


# ── time ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("lifetime", [0.25, 90.0, None])
def test_it_is_good_until_its_last_second_and_then_never_again(lifetime: float | None) -> None:
    token = issue(SECRET, ORG, app_id=APP, now=NOW, lifetime=lifetime)
    end = datetime.fromtimestamp(payload(token)["exp"], UTC)
    assert end >= NOW + timedelta(seconds=lifetime or 28 * 86_400)
    assert read(SECRET, token, end - timedelta(microseconds=1)).app_id == APP
    for late in (end, end + timedelta(days=4000)):
        with pytest.raises(SignatureError, match="expired"):
            read(SECRET, token, late)


def test_the_given_instant_decides_not_the_clock() -> None:
    long_ago, far_ahead = datetime(1999, 2, 3, tzinfo=UTC), datetime(2190, 6, 7, tzinfo=UTC)
    for now in (long_ago, far_ahead):
        assert read(SECRET, issue(SECRET, ORG, now=now, lifetime=60), now).issued_at == now


@pytest.mark.parametrize("claim", ["iat", "nbf"])
def test_a_clock_may_be_a_minute_ahead_and_no_more(claim: str) -> None:
    assert read(SECRET, forge({claim: SECONDS + 45, "exp": SECONDS + 999}), NOW).org_id == ORG
    with pytest.raises(SignatureError, match="not valid yet"):
        read(SECRET, forge({claim: SECONDS + 75, "exp": SECONDS + 999}), NOW)


@pytest.mark.parametrize("claim", ["iat", "exp", "nbf"])
@pytest.mark.parametrize(
    "value", ["1800000000", True, [], {}, -1, 10**400, 1e300, float("nan"), float("inf"), 253_402_300_800]
)
def test_a_malformed_instant_is_refused(claim: str, value: Any) -> None:
    with pytest.raises(SignatureError):
        read(SECRET, forge({claim: value}), NOW)


# ── claims ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_tokens_of_a_svix_server_go_on_working() -> None:
    whole = {"iss": "svix-server", "nbf": int(SECONDS) - 9, "iat": int(SECONDS) - 9, "exp": int(SECONDS) + 315_360_000}
    one = whole | {"org": ORG, "sub": APP, "exp": int(SECONDS) + 7 * 86_400}
    issued_at = datetime.fromtimestamp(int(SECONDS) - 9, UTC)
    assert read(SECRET, forge(whole), NOW) == grant(issued_at=issued_at, expires_at=expiry(whole))
    assert read(SECRET, forge(one), NOW) == grant(
        app_id=APP, issued_at=issued_at, expires_at=expiry(one), portal=True, publishes=False
    )


@pytest.mark.parametrize("portal", [False, True])
@pytest.mark.parametrize("publish", [False, True])
@pytest.mark.parametrize("days", [0.01, 7, 28])
def test_only_a_portal_token_needs_a_capability_to_publish(portal: bool, publish: bool, days: float) -> None:
    token = issue(SECRET, ORG, app_id=APP, now=NOW, lifetime=days * 86_400, portal=portal, publish=publish)
    found = read(SECRET, token, NOW)
    assert (found.portal, found.publishes) == (portal, publish or not portal)


@pytest.mark.parametrize(
    ("issuer", "days", "portal"),
    [("hookline", 7, True), ("hookline", 1, True), ("hookline", 7.01, False), ("svix-server", 28, True)],
)
def test_an_application_token_without_the_claim_counts_as_a_portal_token(
    issuer: str, days: float, portal: bool
) -> None:
    """Tokens of releases before the `portal` claim, and of a Svix server."""
    exp = math.ceil(SECONDS - 5 + days * 86_400)
    found = read(SECRET, forge({"iss": issuer, "org": ORG, "sub": APP, "exp": exp}), NOW)
    assert (found.portal, found.publishes) == (portal, not portal)
    whole = read(SECRET, forge({"iss": issuer, "exp": exp, "portal": True}), NOW)
    assert (whole.portal, whole.publishes) == (False, True)


@pytest.mark.parametrize("claim", ["portal", "publish"])
@pytest.mark.parametrize("value", ["true", 1, [], {}])
def test_invalid_capabilities_of_a_portal_token_are_refused(claim: str, value: Any) -> None:
    with pytest.raises(SignatureError):
        read(SECRET, forge({"org": ORG, "sub": APP, claim: value}), NOW)


def test_a_read_only_token_grants_reading() -> None:
    token = issue(SECRET, ORG, app_id=APP, now=NOW, scope=Scope.READ)
    assert payload(token)["scope"] == "read"
    assert read(SECRET, token, NOW).scope == Scope.READ
    for scope in ("everything", 1, ["read"], {}):
        with pytest.raises(SignatureError):
            read(SECRET, forge({"scope": scope}), NOW)


def test_a_token_is_identified_by_its_signed_part() -> None:
    """A decoder accepts several spellings of one signature. None of them may bring back a revoked token."""
    token = issue(SECRET, ORG, now=NOW)
    signed, _, signature = token.rpartition(".")
    for spelling in (f"{signature}=", f"{signature[:20]}\n{signature[20:]}", f"{signature}!"):
        again = f"{signed}.{spelling}"
        assert hashed(again) == hashed(token)
    assert hashed(issue(SECRET, ORG, now=NOW + timedelta(microseconds=1))) != hashed(token)


@pytest.mark.parametrize("claim", ["iss", "sub", "iat", "exp"])
def test_a_missing_claim_is_refused(claim: str) -> None:
    with pytest.raises(SignatureError):
        read(SECRET, forge({claim: None}), NOW)


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "somebody"},
        {"iss": ["hookline"]},
        {"sub": APP},
        {"sub": 7},
        {"sub": [ORG]},
        {"sub": ""},
        {"sub": "user_1"},
        {"sub": f"{ORG}\n"},
        {"org": OTHER_ORG},
        {"sub": APP, "org": APP},
        {"sub": APP, "org": ""},
        {"sub": APP, "org": 7},
        {"sub": APP, "org": [ORG]},
        {"sub": ORG, "org": ORG},
        {"aud": "another-service"},
    ],
)
def test_claims_that_name_no_owner_or_two_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SignatureError):
        read(SECRET, forge(changes), NOW)


def test_another_secret_does_not_fit() -> None:
    with pytest.raises(SignatureError, match="not valid"):
        read(OTHER_SECRET, issue(SECRET, ORG, now=NOW), NOW)


def test_any_of_several_secrets_fits_and_is_named() -> None:
    for secret in (SECRET, OTHER_SECRET):
        token = issue(secret, ORG, now=NOW)
        assert read_any((SECRET, OTHER_SECRET), token, NOW) == (read(secret, token, NOW), secret)
        with pytest.raises(SignatureError, match="another HOOKLINE_JWT_SECRET"):
            read_any(("a third secret that has signed nothing",), token, NOW)
    expired = issue(OTHER_SECRET, ORG, now=NOW - timedelta(days=2), lifetime=60)
    with pytest.raises(SignatureError, match="expired"):
        read_any((SECRET, OTHER_SECRET), expired, NOW)


def test_the_id_of_a_secret_identifies_it_without_revealing_it() -> None:
    assert secret_id(SECRET) == secret_id(SECRET) != secret_id(OTHER_SECRET)
    assert len(secret_id(SECRET)) == 4


def test_none_is_not_an_algorithm() -> None:
    claims = payload(issue(SECRET, ORG, now=NOW))
    unsigned = jwt.encode(claims, "", algorithm="none")
    for spelling in ("none", "None", "NONE", "nOnE", "", None, 0, ["HS256"]):
        header = base64.urlsafe_b64encode(json.dumps({"typ": "JWT", "alg": spelling}).encode()).decode().rstrip("=")
        for signature in ("", issue(SECRET, ORG, now=NOW).rsplit(".", 1)[1]):
            with pytest.raises(SignatureError):
                read(SECRET, f"{header}.{unsigned.split('.')[1]}.{signature}", NOW)


@pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
def test_another_algorithm_is_refused_even_with_the_right_secret(algorithm: str) -> None:
    secret = SECRET * 3
    token = jwt.encode(payload(issue(secret, ORG, now=NOW)), secret, algorithm=algorithm)
    with pytest.raises(SignatureError, match="not valid"):
        read(secret, token, NOW)


# ── any input ─────────────────────────────────────────────────────────────────────────────────────────────────────


@given(place=st.integers(0), letter=st.characters())
def test_a_changed_character_is_refused(place: int, letter: str) -> None:
    token = issue(SECRET, ORG, app_id=APP, now=NOW)
    # The last letter of an HS256 signature has two spare bits, so PyJWT reads neighbouring letters as the same
    # signature.
    place %= len(token) - 1
    if token[place] != letter:
        with pytest.raises(SignatureError):
            read(SECRET, token[:place] + letter + token[place + 1 :], NOW)


def _segment(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@pytest.mark.parametrize(
    "token",
    [
        None,
        7,
        b"bytes",
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        "x" * 5000,
        "\udcff.a.b",
        "é.é.é",
        _segment(b"[" * 2900) + ".e30.AA",
        _segment(b'{"a":' * 580) + ".e30.AA",
        _segment(b'{"alg":"HS256","b64":false}') + "..AA",
        _segment(b'{"alg":"HS256","n":' + b"9" * 2700 + b"}") + ".e30.AA",
        _segment(b"null") + ".e30.AA",
        _segment(b"\xff\xfe") + ".e30.AA",
    ],
)
def test_malformed_tokens_are_refused(token: Any) -> None:
    with pytest.raises(SignatureError):
        read(SECRET, token, NOW)


def test_a_token_of_many_kilobytes_is_refused_unread() -> None:
    assert read(SECRET, forge({"note": "x" * 2000}), NOW).org_id == ORG
    with pytest.raises(SignatureError, match="malformed"):
        read(SECRET, forge({"note": "x" * 4000}), NOW)


segments = st.binary(max_size=60).map(_segment) | st.text(max_size=20) | st.just(_segment(b'{"alg":"HS256"}'))


@given(token=st.text() | st.lists(segments, min_size=2, max_size=4).map(".".join))
def test_read_raises_a_signature_error_and_nothing_else(token: str) -> None:
    with pytest.raises(SignatureError):
        read(SECRET, token, NOW)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
claim_names = st.sampled_from(["iss", "sub", "org", "iat", "nbf", "exp", "aud", "jti", "scope"])


@given(claims=st.dictionaries(claim_names, json_values) | json_values, good=st.booleans())
def test_signed_claims_of_any_shape_are_a_grant_or_a_signature_error(claims: Any, good: bool) -> None:
    if good and isinstance(claims, dict):
        claims = payload(issue(SECRET, ORG, now=NOW)) | claims
    token = jwt.api_jws.encode(json.dumps(claims).encode(), SECRET, algorithm="HS256")
    try:
        grant = read(SECRET, token, NOW)
    except SignatureError:
        return
    assert (grant.org_id, grant.app_id) == (ORG, None)
    assert grant.issued_at <= NOW + timedelta(seconds=60)
