"""Verify the signature of a webhook. No I/O; the current time is an argument."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar, overload

import msgspec
from msgspec import Struct

from hookline import clock
from hookline.errors import InvalidInput, SignatureError, VerificationCode, VerificationError
from hookline.receive.schemes import SCHEMES, Rules
from hookline.signing import CheckingKey, check_match
from hookline.signing.headers import Headers
from hookline.signing.signature_headers import TOLERANCE, Request, raw_body, signed_at

T = TypeVar("T")


class Webhook(Struct, frozen=True, kw_only=True):
    """A request with a valid signature.

    An attacker can change the parts that are not signed: headers, and in some schemes the id.
    """

    id: str | None  # the same on every copy of an event; None if the provider sends no id
    event_type: str | None
    timestamp: datetime | None  # the signed time of sending; None if the scheme does not sign it
    body: bytes  # the bytes of the request
    headers: Headers

    @overload
    def json(self) -> Any: ...
    @overload
    def json(self, kind: type[T]) -> T: ...
    def json(self, kind: Any = Any) -> Any:
        """Return the decoded body, as plain values or as your own type (dataclass, TypedDict, msgspec or attrs
        class)."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as fault:
            reason = f"the body does not have the expected form: {fault}"
            raise VerificationError(VerificationCode.MALFORMED_BODY, reason) from None


class Verifier:
    """Verifies webhooks with the secrets of one sender. It takes several secrets for a rotation. Threads may share it.

    A malformed secret, scheme or tolerance raises `InvalidInput` when the verifier is made. `verify` raises only
    `VerificationError`, for any request.
    """

    __slots__ = ("_keys", "_rules", "identity", "scheme", "tolerance")

    def __init__(self, secrets: str | Iterable[str], scheme: str = "standard", tolerance: float = TOLERANCE) -> None:
        self._rules = _rules(scheme)
        self.scheme, self.tolerance = str(scheme), _seconds(tolerance)
        given = _several(secrets)
        self._keys: list[CheckingKey] = [_key(self._rules.key, secret) for secret in given]
        if not self._keys:
            raise InvalidInput("give at least one secret")
        self.identity = _identity(self.scheme, given[-1])

    def verify(self, headers: object, body: bytes, *, url: str | None = None, now: datetime | None = None) -> Webhook:
        """Verify a request. `headers` may be the framework's object, `body` is the raw bytes. Twilio also signs the
        `url`."""
        request = Request(Headers(headers), raw_body(body), url)
        signed = self._rules.signed_parts(request)
        at = None if signed.stamp is None else signed_at(signed.stamp, _instant(now), self.tolerance)
        check_match(signed, self._keys)
        own_id, event_type = self._rules.label(request, signed)
        return Webhook(id=own_id, event_type=event_type, timestamp=at, body=request.body, headers=request.headers)

    def __repr__(self) -> str:
        return f"Verifier(scheme={self.scheme!r}, secrets={len(self._keys)}, tolerance={self.tolerance:g})"


# ── functions that `Verifier` uses ────────────────────────────────────────────────────────────────────────────────


def _rules(scheme: str) -> Rules:
    try:
        return SCHEMES[scheme]
    except (KeyError, TypeError):
        raise InvalidInput(f"unknown scheme: use one of {', '.join(SCHEMES)}") from None


def _seconds(tolerance: object) -> float:
    if isinstance(tolerance, int | float) and tolerance >= 0:
        with suppress(OverflowError):
            return float(tolerance)
    raise InvalidInput("the tolerance is a number of seconds, 0 or more")


def _several(secrets: object) -> list[object]:
    if isinstance(secrets, str):
        return [secrets]
    if isinstance(secrets, bytes) or not isinstance(secrets, Iterable):
        raise InvalidInput("give a secret as a str, as the provider shows it, or a list of them")
    return list(secrets)


def _key(load: Callable[[object], CheckingKey], secret: object) -> CheckingKey:
    if isinstance(secret, str) and secret != secret.strip():
        raise InvalidInput("the secret has white space around it; remove it")
    try:
        return load(secret)
    except SignatureError as fault:
        raise InvalidInput(str(fault)) from None


def _identity(scheme: str, last: object) -> bytes:
    """Return a hash of the scheme and a secret. Receivers with different hashes can share a key store, because the hash
    is a part of each idempotency key.

    `last` is the last secret of the list. New secrets are put in front, so the hash stays the same.
    """
    return hashlib.sha256(f"{scheme} {last}".encode()).digest()


def _instant(now: datetime | None) -> datetime:
    if now is None:
        return clock.wall()
    if now.tzinfo is None:
        raise InvalidInput("`now` needs a time zone")
    return now
