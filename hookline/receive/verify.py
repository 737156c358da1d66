"""Is it from whom it says? Raw bytes in, a typed event out. No I/O; the instant is an argument."""

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

__all__ = ["Verifier", "Webhook"]

T = TypeVar("T")


class Webhook(Struct, frozen=True, kw_only=True):
    """A request whose signature is good. What is not signed may be anybody's: the headers, and in some schemes the id."""

    id: str | None  # the same on every copy; None where the provider gives none
    event_type: str | None
    timestamp: datetime | None  # when it was signed, where that is signed too
    body: bytes  # as it came
    headers: Headers

    @overload
    def json(self) -> Any: ...
    @overload
    def json(self, kind: type[T]) -> T: ...
    def json(self, kind: Any = Any) -> Any:
        """The body, as plain values or as your own type (a dataclass, a TypedDict, a msgspec or attrs class)."""
        try:
            return msgspec.json.decode(self.body, type=kind)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as fault:
            raise VerificationError(VerificationCode.MALFORMED_BODY, f"the body is not as expected: {fault}") from None


class Verifier:
    """The secrets of one sender, ready to verify with. Several are accepted, so that they can be rotated; threads may share it.

    What is wrong with a secret, a scheme or a tolerance is `InvalidInput`, here. Whatever came, `verify` raises
    `VerificationError` and nothing else.
    """

    __slots__ = ("_keys", "_rules", "identity", "scheme", "tolerance")

    def __init__(self, secrets: str | Iterable[str], scheme: str = "standard", tolerance: float = TOLERANCE) -> None:
        self._rules = _rules(scheme)
        self.scheme, self.tolerance = str(scheme), _seconds(tolerance)
        given = _several(secrets)
        self._keys: list[CheckingKey] = [_key(self._rules.key, secret) for secret in given]
        if not self._keys:
            raise InvalidInput("there is no secret to verify with")
        self.identity = _identity(self.scheme, given[-1])

    def verify(self, headers: object, body: bytes, *, url: str | None = None, now: datetime | None = None) -> Webhook:
        """`headers` may be a framework's own object, `body` are the bytes before any parsing. Twilio signs the `url` too."""
        request = Request(Headers(headers), raw_body(body), url)
        evidence = self._rules.evidence(request)
        at = None if evidence.stamp is None else signed_at(evidence.stamp, _instant(now), self.tolerance)
        check_match(evidence, self._keys)
        label = self._rules.label(request, evidence)
        return Webhook(
            id=label.id, event_type=label.event_type, timestamp=at, body=request.body, headers=request.headers
        )

    def __repr__(self) -> str:
        return f"Verifier(scheme={self.scheme!r}, secrets={len(self._keys)}, tolerance={self.tolerance:g})"


# ── steps ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _rules(scheme: str) -> Rules:
    try:
        return SCHEMES[scheme]
    except (KeyError, TypeError):
        raise InvalidInput(f"no such scheme: take one of {', '.join(SCHEMES)}") from None


def _seconds(tolerance: object) -> float:
    if isinstance(tolerance, int | float) and tolerance >= 0:
        with suppress(OverflowError):
            return float(tolerance)
    raise InvalidInput("the tolerance is a number of seconds, 0 or more")


def _several(secrets: object) -> list[object]:
    if isinstance(secrets, str):
        return [secrets]
    if isinstance(secrets, bytes) or not isinstance(secrets, Iterable):
        raise InvalidInput("a secret is a text, as the provider shows it; several are a list of them")
    return list(secrets)


def _key(load: Callable[[object], CheckingKey], secret: object) -> CheckingKey:
    if isinstance(secret, str) and secret != secret.strip():
        raise InvalidInput("the secret has white space around it, as texts from files have")
    try:
        return load(secret)
    except SignatureError as fault:
        raise InvalidInput(str(fault)) from None


def _identity(scheme: str, last: object) -> bytes:
    """Whose keys of idempotency these are. By the oldest secret: a new one is put in front of it."""
    return hashlib.sha256(f"{scheme} {last}".encode()).digest()


def _instant(now: datetime | None) -> datetime:
    if now is None:
        return clock.wall()
    if now.tzinfo is None:
        raise InvalidInput("`now` needs a time zone")
    return now
