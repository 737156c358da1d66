"""API tokens: JSON Web Tokens in the shape that Svix SDKs and servers use, HS256 and nothing else.

An organization's token names it in `sub`; an application's token has the application in `sub` and the organization in
`org`. `portal` says whether it was made for a link to the portal, and so lies in a customer's browser: such a token
creates messages only if it has `publish` too. `iat` keeps its microseconds: tokens are revoked by "issued before", and a
token made in the same second after that must work.

A sign-in link has a token of another issuer, so that neither is taken for the other. It opens the dashboard once, within
minutes; the store remembers that it was used.
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

import jwt
import msgspec
from msgspec import Meta, Struct

from hookline import ids
from hookline.clock import to_micros
from hookline.errors import ConfigError, InvalidInput, SignatureError
from hookline.model import Scope

__all__ = [
    "APP_LIFETIME",
    "ISSUER",
    "LINK_LIFETIME",
    "LINK_PREFIX",
    "ORG_LIFETIME",
    "PORTAL_LIFETIME",
    "Grant",
    "hashed",
    "issue",
    "issue_link",
    "read",
    "read_any",
    "read_link",
    "secret_id",
]

ISSUER = "hookline"
_ISSUERS = frozenset({ISSUER, "svix-server"})  # so that the tokens of a team that moves over go on working

_LINK_ISSUER = "hookline-sign-in"
LINK_PREFIX = "once_"

ORG_LIFETIME = 30 * 86_400.0
APP_LIFETIME = 28 * 86_400.0
PORTAL_LIFETIME = 7 * 86_400.0  # the longest
LINK_LIFETIME = 600.0
_LONGEST_LIFETIME = 100 * 365 * 86_400.0

_ALGORITHM = "HS256"
_SHORTEST_SECRET = 32  # bytes: as long as the digest, or the secret can be found from one token (RFC 7518, 3.2)
_LONGEST_TOKEN = 4096
_LEEWAY = 60.0  # seconds by which the clock that issued may be ahead of ours

_is_org = re.compile(rf"{ids.ORG}[A-Za-z0-9_-]{{1,64}}").fullmatch
_is_app = re.compile(rf"{ids.APP}[A-Za-z0-9_-]{{1,64}}").fullmatch

# PyJWT would look at the clock itself; `_check_times` looks at the instant it is given.
_OPTIONS: Any = {
    "verify_signature": True,
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
}


_Seconds = Annotated[float, Meta(ge=0, lt=253_402_300_800)]  # to the end of the year 9999


class _Claims(Struct, frozen=True, kw_only=True):
    iss: str
    sub: str
    iat: _Seconds
    exp: _Seconds
    nbf: _Seconds = 0.0
    org: str | None = None
    scope: Scope = Scope.FULL
    portal: bool | None = None  # None: not ours, or of a release that did not say
    publish: bool = False


class _Kind(Struct, frozen=True):
    name: str
    issuers: frozenset[str]
    again: str  # how to get another


_TOKEN = _Kind("token", _ISSUERS, "`hookline token` makes one")
_LINK = _Kind("link", frozenset({_LINK_ISSUER}), "`hookline token --link` prints another")


class Grant(Struct, frozen=True, kw_only=True):
    """Whom a token speaks for: an organization, or one application of it."""

    org_id: str
    app_id: str | None
    issued_at: datetime
    expires_at: datetime
    scope: Scope
    portal: bool = False  # for a customer's browser
    publishes: bool = True  # messages of its own; a read-only scope forbids it all the same


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
    """A token for the organization, or for one application of it. The lifetime is in seconds.

    `portal`: for a customer's browser; `publish`: it may create messages nevertheless.
    """
    _check_names(org_id, app_id)
    if lifetime is None:
        lifetime = ORG_LIFETIME if app_id is None else APP_LIFETIME
    if not 0 < lifetime <= _LONGEST_LIFETIME:
        raise InvalidInput("a token lives longer than 0 seconds and at most 100 years")
    claims: dict[str, Any] = {"iss": ISSUER}
    claims |= {"sub": org_id} if app_id is None else {"sub": app_id, "org": org_id, "portal": portal}
    claims |= {"publish": True} if publish else {}
    claims |= {} if scope == Scope.FULL else {"scope": scope.value}
    return _signed(secret, claims, now, lifetime)


def issue_link(secret: str, org_id: str, *, now: datetime) -> str:
    """What signs in to the organization's dashboard, once."""
    _check_names(org_id, None)
    return LINK_PREFIX + _signed(secret, {"iss": _LINK_ISSUER, "sub": org_id}, now, LINK_LIFETIME)


def _signed(secret: str, claims: dict[str, Any], now: datetime, lifetime: float) -> str:
    seconds = to_micros(now) / 1_000_000
    times = {"iat": seconds, "nbf": math.floor(seconds), "exp": math.ceil(seconds + lifetime)}
    try:
        return jwt.encode(claims | times, _key(secret), algorithm=_ALGORITHM)
    except jwt.InvalidKeyError:
        raise ConfigError("the secret that signs tokens is a public or private key: it takes a random text") from None


def read(secret: str, token: str, now: datetime) -> Grant:
    """What the token grants now. Raises `SignatureError`, whatever the token is."""
    return read_any((secret,), token, now)[0]


def read_any(secrets: Sequence[str], token: str, now: datetime) -> tuple[Grant, str]:
    """Likewise, and the secret that signed it: any of these, of which there is at least one."""
    if isinstance(token, str) and token.startswith(LINK_PREFIX):
        raise SignatureError("this is a link to the dashboard, and no token; `hookline token` makes one")
    return _read(secrets, token, now, _TOKEN)


def read_link(secrets: Sequence[str], text: str, now: datetime) -> Grant:
    """Likewise, of a sign-in link. Whether it was used before, the store knows."""
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
    """What a secret is known by where it is not to be known."""
    return hmac.digest(_key(secret), b"id", "sha256")[:4]


def _for_portal(claims: _Claims) -> bool:
    """One that does not say is taken for a portal's if it may be one: a Svix server makes no other for an application, and
    an earlier release made them for a week at most."""
    if claims.portal is not None:
        return claims.portal
    return claims.iss != ISSUER or claims.exp - claims.iat <= PORTAL_LIFETIME + 2  # of rounding


def hashed(token: str) -> bytes:
    """What a token that was given up is known by: the part that is signed. The signature can be spelt in several ways."""
    return hashlib.sha256(token.rpartition(".")[0].encode()).digest()


def _key(secret: str) -> bytes:
    key = secret.encode("utf-8", "surrogateescape")  # as the environment gives bytes that are not UTF-8
    if len(key) < _SHORTEST_SECRET:
        raise ConfigError(f"the secret that signs tokens needs at least {_SHORTEST_SECRET} bytes")
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
    if not isinstance(token, str) or len(token) > _LONGEST_TOKEN:
        raise SignatureError(f"the {kind.name} is malformed")
    try:
        claims = jwt.decode(token, key, algorithms=[_ALGORITHM], options=_OPTIONS)
        return msgspec.convert(claims, _Claims)
    # PyJWT parses the header before it checks the signature; some releases let a deeply nested one through to the caller.
    except (jwt.PyJWTError, msgspec.ValidationError, ValueError, TypeError, RecursionError):
        raise SignatureError(
            f"the {kind.name} is not valid: cut short, or of a server with another HOOKLINE_JWT_SECRET; {kind.again}"
        ) from None


def _check_times(claims: _Claims, now: float, kind: _Kind) -> None:
    if claims.exp <= now:
        raise SignatureError(f"the {kind.name} has expired; {kind.again}")
    # One issued in the future would outlive every revocation.
    if max(claims.iat, claims.nbf) > now + _LEEWAY:
        raise SignatureError(f"the {kind.name} is not valid yet")


def _names(claims: _Claims, kind: _Kind) -> tuple[str, str | None]:
    if claims.iss not in kind.issuers:
        raise SignatureError(f"the {kind.name} is from another issuer")
    if claims.org is None and _is_org(claims.sub):
        return claims.sub, None
    if claims.org is not None and _is_org(claims.org) and _is_app(claims.sub):
        return claims.org, claims.sub
    raise SignatureError("the token names neither an organization nor an application of one")
