"""Verifies the signature of a webhook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from hookline.errors import SignatureError, VerificationCode, VerificationError
from hookline.model.endpoints import Scheme, Secret
from hookline.signing.headers import Headers
from hookline.signing.keys import CheckingKey, checking_key
from hookline.signing.signature_headers import READERS, TOLERANCE, Request, SignedParts, raw_body, signed_at


def verify(
    scheme: Scheme,
    secrets: Sequence[Secret],
    headers: Mapping[str, str],
    body: bytes,
    now: datetime,
    tolerance: float = TOLERANCE,
) -> None:
    """Raise `SignatureError` unless one of the secrets made one of the signatures. If the request has a timestamp, it
    may differ from `now` by at most `tolerance` seconds."""
    signed = READERS[scheme](Request(Headers(headers), raw_body(body)))
    if signed.stamp is not None:
        signed_at(signed.stamp, now, tolerance)
    keys = [checking_key(scheme, s.key) for s in secrets if s.expires_at is None or now < s.expires_at]
    if not keys:
        raise SignatureError("there is no secret to verify with")
    check_match(signed, keys)


def check_match(signed: SignedParts, keys: Iterable[CheckingKey]) -> None:
    """Raise `VerificationError` unless one of the keys made one of the signatures."""
    matched = False
    for key in keys:  # try every key and signature, so that the time taken does not reveal which one matched
        for content in signed.contents:
            matched |= key.matches(content, signed.signatures.get(key.version, ()))
    if not matched:
        raise VerificationError(VerificationCode.NO_MATCH, "no signature matches")
