"""API tokens: JSON Web Tokens in the shape that Svix SDKs and servers use, HS256 and nothing else.

An organization's token names it in `sub`; an application's token has the application in `sub` and the organization in
`org`. `portal` says whether it was made for a link to the portal, and so lies in a customer's browser: such a token
creates messages only if it has `publish` too. `iat` keeps its microseconds: tokens are revoked by "issued before", and a
token made in the same second after that must work.
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
    "ORG_LIFETIME",
    "PORTAL_LIFETIME",
    "Grant",
    "hashed",
    "issue",
    "read",
    "read_any",
    "secret_id",
]

ISSUER = "hookline"
_ISSUERS = frozenset({ISSUER, "svix-server"})  # so that the tokens of a team that moves over go on working

ORG_LIFETIME = 3650 * 86_400.0
APP_LIFETIME = 28 * 86_400.0
PORTAL_LIFETIME = 7 * 86_400.0  # the longest
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
    seconds = to_micros(now) / 1_000_000
    claims = {"iss": ISSUER, "iat": seconds, "nbf": math.floor(seconds), "exp": math.ceil(seconds + lifetime)}
    claims |= {"sub": org_id} if app_id is None else {"sub": app_id, "org": org_id, "portal": portal}
    claims |= {"publish": True} if publish else {}
    claims |= {} if scope == Scope.FULL else {"scope": scope.value}
    try:
        return jwt.encode(claims, _key(secret), algorithm=_ALGORITHM)
    except jwt.InvalidKeyError:
        raise ConfigError("the secret that signs tokens is a public or private key: it takes a random text") from None


def read(secret: str, token: str, now: datetime) -> Grant:
    """What the token grants now. Raises `SignatureError`, whatever the token is."""
    return read_any((secret,), token, now)[0]


def read_any(secrets: Sequence[str], token: str, now: datetime) -> tuple[Grant, str]:
    """Likewise, and the secret that signed it: any of these, of which there is at least one."""
    claims, secret = _decode_any(secrets, token)
    _check_times(claims, to_micros(now) / 1_000_000)
    org_id, app_id = _names(claims)
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


def _decode_any(secrets: Sequence[str], token: object) -> tuple[_Claims, str]:
    *others, last = secrets
    for secret in others:
        with suppress(SignatureError):
            return _decode(_key(secret), token), secret
    return _decode(_key(last), token), last


def _decode(key: bytes, token: object) -> _Claims:
    if not isinstance(token, str) or len(token) > _LONGEST_TOKEN:
        raise SignatureError("the token is malformed")
    try:
        claims = jwt.decode(token, key, algorithms=[_ALGORITHM], options=_OPTIONS)
        return msgspec.convert(claims, _Claims)
    # PyJWT parses the header before it checks the signature; some releases let a deeply nested one through to the caller.
    except (jwt.PyJWTError, msgspec.ValidationError, ValueError, TypeError, RecursionError):
        raise SignatureError(
            "the token is not valid: cut short, or of a server with another HOOKLINE_JWT_SECRET; `hookline token` makes one"
        ) from None


def _check_times(claims: _Claims, now: float) -> None:
    if claims.exp <= now:
        raise SignatureError("the token has expired; `hookline token` makes one")
    # One issued in the future would outlive every revocation.
    if max(claims.iat, claims.nbf) > now + _LEEWAY:
        raise SignatureError("the token is not valid yet")


def _names(claims: _Claims) -> tuple[str, str | None]:
    if claims.iss not in _ISSUERS:
        raise SignatureError("the token is from another issuer")
    if claims.org is None and _is_org(claims.sub):
        return claims.sub, None
    if claims.org is not None and _is_org(claims.org) and _is_app(claims.sub):
        return claims.org, claims.sub
    raise SignatureError("the token names neither an organization nor an application of one")
