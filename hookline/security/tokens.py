"""API tokens: JSON Web Tokens in the form that Svix SDKs and servers use. The algorithm is always HS256.

The token of an organization has the organization's id in `sub`. The token of an application has the application's id
in `sub` and the organization's id in `org`. `portal` says that the token was made for a portal link, so it is in a
customer's browser. Such a token may create messages only if it also has `publish`. `iat` includes microseconds,
because tokens are revoked by the time of issue, and a token made later in the same second must work.

A sign-in link contains a token of another issuer, so that the two kinds cannot be confused. It opens the dashboard
once, within minutes. The store records that it was used.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from hookline import ids
from hookline.clock import to_micros
from hookline.errors import ConfigError, InvalidInput, SignatureError
from hookline.model.actors import Scope

ISSUER = "hookline"
_ISSUERS = frozenset({ISSUER, "svix-server"})  # tokens of a Svix server still work after a team has moved to Hookline

_LINK_ISSUER = "hookline-sign-in"
LINK_PREFIX = "once_"

ORG_LIFETIME = 30 * 86_400.0
APP_LIFETIME = 28 * 86_400.0
PORTAL_LIFETIME = 7 * 86_400.0  # maximum lifetime of a portal token in seconds
LINK_LIFETIME = 600.0
_MAX_LIFETIME = 100 * 365 * 86_400.0

_ALGORITHM = "HS256"
_MIN_SECRET = 32  # bytes, the length of the digest; a shorter secret could be found from one token (RFC 7518, 3.2)
_MAX_TOKEN = 4096  # maximum characters of a token
_LEEWAY = 60.0  # seconds by which the issuer's clock may be ahead of this machine's clock

_is_org = re.compile(rf"{ids.ORG}[A-Za-z0-9_-]{{1,64}}").fullmatch
_is_app = re.compile(rf"{ids.APP}[A-Za-z0-9_-]{{1,64}}").fullmatch

# PyJWT would read the clock itself. `_check_times` uses the given time instead.
_OPTIONS: Any = {
    "verify_signature": True,
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
}


_Seconds = Annotated[float, Meta(ge=0, lt=253_402_300_800)]  # since 1970, at most until the end of the year 9999


class _Claims(Struct, frozen=True, kw_only=True):
    iss: str
    sub: str
    iat: _Seconds
    exp: _Seconds
    nbf: _Seconds = 0.0
    org: str | None = None
    scope: Scope = Scope.FULL
    portal: bool | None = None  # None in tokens of a Svix server or of an earlier release
    publish: bool = False


class _Kind(Struct, frozen=True):
    name: str
    issuers: frozenset[str]
    again: str  # a text for users: how to get a new token or link


_TOKEN = _Kind("token", _ISSUERS, "`hookline token` makes one")
_LINK = _Kind("link", frozenset({_LINK_ISSUER}), "`hookline token --link` prints another")


class Grant(Struct, frozen=True, kw_only=True):
    """The rights of a token: its organization, and its application if it has one."""

    org_id: str
    app_id: str | None
    issued_at: datetime
    expires_at: datetime
    scope: Scope
    portal: bool = False  # the token is for a customer's browser
    publishes: bool = True  # the token may create messages, unless its scope is read-only


def issue(
    secret: str,
    org_id: str,
    *,
    app_id: str | None = None,
    now: datetime,
    lifetime: float | None = None,
    scope: Scope = Scope.FULL,
    portal: bool = False,
    publish: bool = False,
) -> str:
    """Return a new token for an organization, or for one of its applications. The lifetime is in seconds.

    With `portal` the token is for a customer's browser. With `publish` such a token may create messages too.
    """
    _check_names(org_id, app_id)
    if lifetime is None:
        lifetime = ORG_LIFETIME if app_id is None else APP_LIFETIME
    if not 0 < lifetime <= _MAX_LIFETIME:
        raise InvalidInput("the lifetime of a token must be more than 0 seconds and at most 100 years")
    claims: dict[str, Any] = {"iss": ISSUER}
    claims |= {"sub": org_id} if app_id is None else {"sub": app_id, "org": org_id, "portal": portal}
    claims |= {"publish": True} if publish else {}
    claims |= {} if scope == Scope.FULL else {"scope": scope.value}
    return _signed(secret, claims, now, lifetime)


def issue_link(secret: str, org_id: str, *, now: datetime) -> str:
    """Return the token of a link that signs in to the organization's dashboard once."""
    _check_names(org_id, None)
    return LINK_PREFIX + _signed(secret, {"iss": _LINK_ISSUER, "sub": org_id}, now, LINK_LIFETIME)


def _signed(secret: str, claims: dict[str, Any], now: datetime, lifetime: float) -> str:
    seconds = to_micros(now) / 1_000_000
    times = {"iat": seconds, "nbf": math.floor(seconds), "exp": math.ceil(seconds + lifetime)}
    import jwt  # slow to import, and most commands use no token

    try:
        return jwt.encode(claims | times, _key(secret), algorithm=_ALGORITHM)
    except jwt.InvalidKeyError:
        raise ConfigError("the secret that signs tokens is a public or private key: use random text instead") from None


def read(secret: str, token: str, now: datetime) -> Grant:
    """Return the rights of the token. Raises `SignatureError` if it is invalid or expired."""
    return read_any((secret,), token, now)[0]


def read_any(secrets: Sequence[str], token: str, now: datetime) -> tuple[Grant, str]:
    """Return the rights of the token, and the secret that signed it. `secrets` must have at least one item."""
    if isinstance(token, str) and token.startswith(LINK_PREFIX):
        raise SignatureError("this is a sign-in link to the dashboard, not a token; `hookline token` makes a token")
    return _read(secrets, token, now, _TOKEN)


def read_link(secrets: Sequence[str], text: str, now: datetime) -> Grant:
    """Return the rights of a sign-in link. It does not check whether the link was already used; the store does."""
    grant, _ = _read(secrets, text.removeprefix(LINK_PREFIX), now, _LINK)
    if grant.app_id is not None:
        raise SignatureError("this link is for an application")
    return grant


def _read(secrets: Sequence[str], token: str, now: datetime, kind: _Kind) -> tuple[Grant, str]:
    claims, secret = _decode_any(secrets, token, kind)
    _check_times(claims, to_micros(now) / 1_000_000, kind)
    org_id, app_id = _names(claims, kind)
    portal = app_id is not None and _for_portal(claims)
    grant = Grant(
        org_id=org_id,
        app_id=app_id,
        issued_at=datetime.fromtimestamp(claims.iat, UTC),
        expires_at=datetime.fromtimestamp(claims.exp, UTC),
        scope=claims.scope,
        portal=portal,
        publishes=not portal or claims.publish,
    )
    return grant, secret


def secret_id(secret: str) -> bytes:
    """Return a short id of a secret that does not reveal it."""
    return hmac.digest(_key(secret), b"id", "sha256")[:4]


def _for_portal(claims: _Claims) -> bool:
    """Return whether an application's token is for the portal.

    The claim `portal` says this. A token without the claim is for the portal in two cases. First, a Svix server issued
    it: such a server makes tokens for applications only for its portal. Second, Hookline issued it
    with a lifetime of at most a week, as earlier releases did for the portal.
    """
    if claims.portal is not None:
        return claims.portal
    longest = PORTAL_LIFETIME + 2  # `iat` and `exp` may each be rounded by a second
    return claims.iss != ISSUER or claims.exp - claims.iat <= longest


def hashed(token: str) -> bytes:
    """Return the hash that identifies a revoked token. It covers only the signed part, because the same signature
    can be written in several ways."""
    return hashlib.sha256(token.rpartition(".")[0].encode()).digest()


def _key(secret: str) -> bytes:
    key = secret.encode("utf-8", "surrogateescape")  # the environment may contain bytes that are not UTF-8
    if len(key) < _MIN_SECRET:
        raise ConfigError(f"the secret that signs tokens needs at least {_MIN_SECRET} bytes")
    return key


def _check_names(org_id: str, app_id: str | None) -> None:
    if _is_org(org_id) is None:
        raise InvalidInput(f"{org_id!r} is not the id of an organization")
    if app_id is not None and _is_app(app_id) is None:
        raise InvalidInput(f"{app_id!r} is not the id of an application")


def _decode_any(secrets: Sequence[str], token: object, kind: _Kind) -> tuple[_Claims, str]:
    *others, last = secrets
    for secret in others:
        with suppress(SignatureError):
            return _decode(_key(secret), token, kind), secret
    return _decode(_key(last), token, kind), last


def _decode(key: bytes, token: object, kind: _Kind) -> _Claims:
    if not isinstance(token, str) or len(token) > _MAX_TOKEN:
        raise SignatureError(f"the {kind.name} is malformed")
    import jwt  # slow to import, and most commands use no token

    try:
        claims = jwt.decode(token, key, algorithms=[_ALGORITHM], options=_OPTIONS)
        return msgspec.convert(claims, _Claims)
    # PyJWT parses the header before it checks the signature. Some releases raise RecursionError for a deeply nested
    # header.
    except (jwt.PyJWTError, msgspec.ValidationError, ValueError, TypeError, RecursionError):
        raise SignatureError(
            f"the {kind.name} is not valid: it is cut off, or from a server with another HOOKLINE_JWT_SECRET; {kind.again}"
        ) from None


def _check_times(claims: _Claims, now: float, kind: _Kind) -> None:
    if claims.exp <= now:
        raise SignatureError(f"the {kind.name} has expired; {kind.again}")
    # A token issued in the future would survive every revocation, because revocation compares the time of issue.
    if max(claims.iat, claims.nbf) > now + _LEEWAY:
        raise SignatureError(f"the {kind.name} is not valid yet")


def _names(claims: _Claims, kind: _Kind) -> tuple[str, str | None]:
    if claims.iss not in kind.issuers:
        raise SignatureError(f"the {kind.name} is from another issuer")
    if claims.org is None and _is_org(claims.sub):
        return claims.sub, None
    if claims.org is not None and _is_org(claims.org) and _is_app(claims.sub):
        return claims.org, claims.sub
    raise SignatureError("the token names neither an organization nor an application")
